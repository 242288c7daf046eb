"""The small vocoder: a stream is the whole, any length works, damaged folders are refused, training makes one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clock_attention.speech.audio.mel import MelConfig, MelSpectrogram
from clock_attention.speech.vocoder.analysis import analyse
from clock_attention.speech.vocoder.harmonic import HarmonicConfig, HarmonicNetwork, minimum_phase, pitch_of
from clock_attention.speech.vocoder.harmonic_synthesis import (
    HarmonicVocoder,
    Synthesis,
    overlap_add,
    pulses,
    short_time,
)
from clock_attention.speech.vocoder.losses import likelihood, noise_variance
from clock_attention.speech.vocoder.training import (
    VocoderTraining,
    new_network,
    train_vocoder,
    write_vocoder,
)
from clock_attention.speech.vocoder.vocoder import FAST, VocoderError, load_vocoder

MEL = MelConfig.preset("hifigan")
TINY = HarmonicConfig(width=16, hidden=16, dilations=(1, 3), pitch_width=16, pitch_hidden=16, pitch_dilations=(1,))


def voiced_wave(seconds: float, hertz: float = 180.0) -> np.ndarray:
    """Harmonics that fall off, and a little noise."""
    time = np.arange(int(seconds * MEL.sample_rate)) / MEL.sample_rate
    tone = sum(np.cos(2 * np.pi * hertz * h * time) / h for h in range(1, 12))
    noise = np.random.default_rng(0).standard_normal(len(time))
    return (0.1 * tone + 0.003 * noise).astype(np.float32)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> HarmonicVocoder:
    folder = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    write_vocoder(new_network(TINY), folder)
    return HarmonicVocoder(folder)


def random_mel(frames: int) -> torch.Tensor:
    return torch.randn(frames, MEL.n_mels, generator=torch.Generator().manual_seed(frames)) - 4


@settings(deadline=None, max_examples=15)
@given(frames=st.integers(1, 420), piece=st.integers(1, 150))
def test_stream_is_the_whole(tiny: HarmonicVocoder, frames: int, piece: int) -> None:
    mel = random_mel(frames)
    whole = tiny(mel)
    streamed = np.concatenate(list(tiny.stream(mel.split(piece))))
    assert whole.shape == (frames * MEL.hop_length,)
    np.testing.assert_allclose(streamed, whole, atol=1e-4)


def test_blocks_have_no_seams(tiny: HarmonicVocoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one block or in many: the same wave, so that nothing is heard where blocks meet."""
    mel = random_mel(300)
    in_blocks = tiny(mel)
    monkeypatch.setattr("clock_attention.speech.vocoder.harmonic_synthesis.FIRST_BLOCKS", (1000,))
    np.testing.assert_allclose(in_blocks, tiny(mel), atol=1e-4)


def test_a_stream_speaks_before_its_end_and_forgets_what_it_said(tiny: HarmonicVocoder) -> None:
    synthesis = Synthesis(tiny)
    kept, spoken = [], []
    for piece in random_mel(1200).split(10):
        spoken.append(sum(len(wave) for wave in synthesis.push(piece)))
        kept.append(len(synthesis.frames) + len(synthesis.noise) / MEL.hop_length)
    assert np.flatnonzero(spoken)[0] < 6
    assert max(kept) < 250


def test_the_tone_has_the_pitch_that_was_asked_for() -> None:
    hertz = torch.full((1, MEL.sample_rate), 200.0)
    spectrum = torch.fft.rfft(pulses(torch.cumsum(hertz / MEL.sample_rate, -1), hertz)).abs()[0]
    harmonics = spectrum[200:10401:200]
    torch.testing.assert_close(harmonics, torch.full_like(harmonics, MEL.sample_rate / 2), rtol=0.02, atol=0)
    assert spectrum[100::200][:50].max() < 0.02 * MEL.sample_rate


@pytest.mark.parametrize("size", [256, 512])
def test_overlap_add_undoes_the_transform(size: int) -> None:
    wave, window = torch.randn(2, 4096, generator=torch.Generator().manual_seed(0)), torch.hann_window(size)
    spectrum = short_time(wave, window)
    torch.testing.assert_close(overlap_add(spectrum, window)[:, size:-size], wave[:, size:-size], atol=1e-5, rtol=0)
    assert spectrum.abs().square().mean().item() == pytest.approx(1, abs=0.05)


def test_minimum_phase_of_a_pole() -> None:
    """1 / (1 - 0.9 z⁻¹) is minimum-phase, so its magnitude tells its phase."""
    frequency = torch.arange(257) * torch.pi / 256
    response = 1 / (1 - 0.9 * torch.exp(-1j * frequency))
    torch.testing.assert_close(minimum_phase(response.abs().log()), response.angle(), atol=1e-3, rtol=0)


def test_likelihood_is_best_at_the_right_amount_of_noise() -> None:
    noise = 0.1 * torch.randn(4, 16384, generator=torch.Generator().manual_seed(0))
    levels = (0.03, 0.1, 0.3)
    found = [likelihood(noise, torch.zeros_like(noise), torch.full((4, 256, 129), np.log(x))).item() for x in levels]
    assert found[1] < min(found[0], found[2])
    assert noise_variance(torch.zeros(1, 64, 129), 2048).shape == (1, 8, 1025)


def test_analysis_finds_pitch_and_phase() -> None:
    excitation = analyse(voiced_wave(0.6), MEL)
    inner = slice(8, -8)
    assert excitation.voiced[inner].mean() > 0.9
    np.testing.assert_allclose(excitation.hertz[inner], 180, rtol=0.005)
    time = np.arange(len(excitation.wave)) / MEL.sample_rate
    turned = np.exp(2j * np.pi * (excitation.phase - 180 * time))[4000:-4000]
    assert np.abs(turned.mean()) > 0.99  # the phase is the fundamental's, but for a constant
    assert abs(np.angle(turned.mean())) < 0.1  # which is none: both are cosines


def test_pitch_between_classes() -> None:
    logits = -(torch.arange(192.0) - 100.5).square() / 2
    assert pitch_of(logits).item() == pytest.approx(60 * 10 ** (100.5 / 191), rel=1e-3)


def test_training_learns_resumes_and_leaves_a_vocoder(tmp_path: Path) -> None:
    import soundfile

    soundfile.write(tmp_path / "tone.wav", voiced_wave(1.2), MEL.sample_rate)
    options = VocoderTraining(steps=60, likelihood_steps=50, batch=2, frames=24, learning_rate=3e-3, save_every=20)
    measured: list[dict[str, float]] = []
    out = tmp_path / "out"
    train_vocoder([tmp_path / "tone.wav"], out, options, TINY, max_minutes=0)
    assert (out / "training.pt").exists()
    with pytest.raises(ValueError, match="--resume"):
        train_vocoder([tmp_path / "tone.wav"], out, options, TINY)
    train_vocoder(
        [tmp_path / "tone.wav"], out, options, TINY, resume=True, report=lambda _, values: measured.append(values)
    )
    assert len(measured) == 60
    assert np.mean([m["likelihood"] for m in measured[40:50]]) < np.mean([m["likelihood"] for m in measured[:10]]) - 1
    assert "discriminator" in measured[-1]
    vocoder = load_vocoder(out, MEL)
    assert np.isfinite(vocoder(MelSpectrogram(MEL)(voiced_wave(0.3)))).all()


def test_damaged_folders_are_refused(tiny: HarmonicVocoder, tmp_path: Path) -> None:
    folder = tmp_path / "vocoder"
    shutil.copytree(tiny.folder, folder)
    config = json.loads((folder / "config.json").read_text())
    for change, message in (({"width": 10**9}, "width"), ({"dilations": []}, "dilations"), ({"depth": 3}, "depth")):
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


def test_wrong_mels_are_refused(tiny: HarmonicVocoder) -> None:
    with pytest.raises(VocoderError, match="does not understand this mel"):
        load_vocoder(tiny.folder, MelConfig.preset("paper"))
    for shape in ((0, 80), (5, 40), (1, 5, 80)):
        with pytest.raises(ValueError, match="expected log-mel frames"):
            tiny(torch.zeros(shape))


def test_the_packaged_vocoder_copies_speech() -> None:
    """Its copy of a voiced sound has the mel that it was given, and the noise is the seed's."""
    vocoder = load_vocoder("fast", MEL)
    assert (FAST / "model.safetensors").stat().st_size < 15e6
    mel = MelSpectrogram(MEL)(voiced_wave(0.8))
    wave = vocoder(mel)
    distance = (MelSpectrogram(MEL)(wave) - mel)[8:-8].abs().mean().item()
    assert distance < 1.0
    np.testing.assert_array_equal(vocoder(mel), wave)
    assert isinstance(vocoder, HarmonicVocoder)
    assert isinstance(vocoder.network, HarmonicNetwork)
