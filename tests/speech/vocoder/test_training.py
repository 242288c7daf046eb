"""Training on recordings lowers the distance, resumes bit for bit and leaves a vocoder at any time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from clock_attention.speech.audio.mel import MelSpectrogram
from clock_attention.speech.vocoder.harmonic import load_network
from clock_attention.speech.vocoder.training import (
    VocoderTraining,
    recordings,
    train_vocoder,
    varied,
    write_vocoder,
)
from clock_attention.speech.vocoder.vocoder import load_vocoder
from tests.speech.vocoder.tiny_vocoder import MEL, tiny_vocoder, voiced_wave

pytest.importorskip("swift_f0")
OPTIONS = VocoderTraining(
    steps=24,
    batch=2,
    frames=48,
    learning_rate=5e-3,
    decoder_rate=5e-3,
    discriminator_from=12,
    discriminator_rise=4,
    save_every=8,
)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_vocoder(tmp_path_factory.mktemp("start"))


@pytest.fixture(scope="module")
def tone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    soundfile.write(folder / "tone.wav", voiced_wave(2.0), MEL.sample_rate)
    return folder / "tone.wav"


def test_training_learns_resumes_and_leaves_a_vocoder(start: Path, tone: Path, tmp_path: Path) -> None:
    measured: list[dict[str, float]] = []
    whole = train_vocoder([tone], tmp_path / "whole", OPTIONS, start, report=lambda _, values: measured.append(values))
    assert len(measured) == 24
    assert np.mean([m["distance"] for m in measured[-6:]]) < 0.95 * np.mean([m["distance"] for m in measured[:6]])
    assert "adversarial" in measured[-1]
    assert "adversarial" not in measured[11]
    assert np.isfinite(load_vocoder(whole, MEL)(MelSpectrogram(MEL)(voiced_wave(0.3)))).all()

    parts = tmp_path / "parts"

    def stop_early(step: int, _: dict[str, float]) -> None:
        if step == 17:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_vocoder([tone], parts, OPTIONS, start, report=stop_early)
    with pytest.raises(ValueError, match="resume it"):
        train_vocoder([tone], parts, OPTIONS, start)
    train_vocoder([tone], parts, OPTIONS, start, resume=True)
    assert (parts / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_recordings_that_are_too_short_are_named(start: Path, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "short.wav", voiced_wave(0.5), MEL.sample_rate)
    with pytest.raises(ValueError, match=r"none of 1 recordings lasts 1\.4 seconds"):
        train_vocoder([tmp_path / "short.wav"], tmp_path / "out", OPTIONS, start)


def test_folders_without_recordings(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no \.wav or \.flac files"):
        recordings([tmp_path])


def test_some_recordings_are_played_as_if_by_other_speakers() -> None:
    waves = [voiced_wave(1.0)] * 40
    made = list(varied(waves, MEL.sample_rate, VocoderTraining(other_voices=0.5)))
    changed = [len(wave) / len(waves[0]) for wave in made if len(wave) != len(waves[0])]
    assert 10 <= len(changed) <= 30
    assert 1 / 1.26 < min(changed) < 0.95
    assert 1.05 < max(changed) < 1 / 0.84


def test_gradients_that_stay_nan_stop_the_training(start: Path, tone: Path, tmp_path: Path) -> None:
    broken = load_network(start)
    with torch.no_grad():
        broken.head.bias.fill_(torch.nan)
    (tmp_path / "broken").mkdir()
    write_vocoder(broken, tmp_path / "broken")
    with pytest.raises(FloatingPointError, match="for 20 steps"):
        train_vocoder([tone], tmp_path / "out", OPTIONS, tmp_path / "broken")
