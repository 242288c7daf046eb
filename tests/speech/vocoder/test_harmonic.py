"""The small vocoder's network: pitch, both frame rates, damaged folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.vocoder.harmonic import between, mel_places, pitch_classes, pitch_of
from clock_attention.speech.vocoder.vocoder import VocoderError, load_vocoder
from tests.speech.vocoder.tiny_vocoder import MEL, TINY, tiny_vocoder


def test_pitch_between_classes() -> None:
    hertz = torch.tensor([80.0, 191.3, 500.0])
    scores = -(torch.arange(192.0) - pitch_classes(hertz)[:, None]).square() / 2
    torch.testing.assert_close(pitch_of(scores), hertz, rtol=3e-3, atol=0)


def test_spectra_and_mel_frames_show_the_same_moment() -> None:
    """A ramp over time, read at the spectra's places, is the same ramp."""
    mel_middles = (torch.arange(200) * 256 + 128) / 22050
    places = mel_places(TINY, 3, 50)
    times = between(mel_middles[None, :, None], places)[0, :, 0]
    torch.testing.assert_close(times, torch.arange(3, 53) * 300 / 24000, atol=1e-5, rtol=0)


def test_beyond_the_ends_the_mel_stays_as_it_is() -> None:
    frames = torch.tensor([[[1.0], [2.0]]])
    assert between(frames, torch.tensor([-3.0, 0.5, 9.0]))[0, :, 0].tolist() == [1.0, 1.5, 2.0]
    assert between(frames[:, :1], torch.tensor([-3.0, 0.0, 9.0]))[0, :, 0].tolist() == [1.0, 1.0, 1.0]


def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "vocoder"
    shutil.copytree(tiny_vocoder(tmp_path / "tiny"), folder)
    config = json.loads((folder / "config.json").read_text())
    for change, message in (({"width": 10**9}, "width"), ({"layers": 0}, "layers"), ({"depth": 3}, "depth")):
        (folder / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(VocoderError, match=message):
            load_vocoder(folder, MEL)
    (folder / "config.json").write_text(json.dumps(config | {"width": 32}))
    with pytest.raises(VocoderError, match="does not hold the weights"):
        load_vocoder(folder, MEL)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(VocoderError, match="does not hold the weights"):
        load_vocoder(folder, MEL)
    (folder / "model.safetensors").unlink()
    with pytest.raises(VocoderError, match="missing"):
        load_vocoder(folder, MEL)


def test_another_mel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VocoderError, match="does not understand this mel"):
        load_vocoder(tiny_vocoder(tmp_path), MelConfig.preset("paper"))
