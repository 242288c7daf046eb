"""The small vocoder at work: a stream is the whole, blocks have no seams, any length works, pulses have the pitch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clock_attention.speech.audio.mel import MelSpectrogram
from clock_attention.speech.vocoder.harmonic import FFT, HOP, RATE
from clock_attention.speech.vocoder.harmonic_synthesis import (
    INPUT,
    OUTPUT,
    TAPS,
    HarmonicStream,
    HarmonicVocoder,
    excitation,
    overlap_add,
    resampling,
    spectrum_of_pulses,
)
from clock_attention.speech.vocoder.vocoder import FAST, load_vocoder
from tests.speech.vocoder.tiny_vocoder import MEL, tiny_vocoder, voiced_wave


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> HarmonicVocoder:
    return HarmonicVocoder(tiny_vocoder(tmp_path_factory.mktemp("tiny")))


def random_mel(frames: int) -> torch.Tensor:
    return torch.randn(frames, MEL.n_mels, generator=torch.Generator().manual_seed(frames)) - 4


@settings(deadline=None, max_examples=15)
@given(frames=st.integers(1, 420), piece=st.integers(1, 150))
def test_stream_is_the_whole(tiny: HarmonicVocoder, frames: int, piece: int) -> None:
    mel = random_mel(frames)
    whole = tiny(mel)
    assert whole.shape == (frames * MEL.hop_length,)
    np.testing.assert_array_equal(np.concatenate(list(tiny.stream(mel.split(piece)))), whole)


def test_blocks_have_no_seams(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one block or in many: the same wave, so that nothing is heard where blocks meet."""
    vocoder = load_vocoder("fast", MEL)
    mel = MelSpectrogram(MEL)(np.concatenate([voiced_wave(1.5), voiced_wave(1.0, 230.0)]))
    in_blocks = vocoder(mel)
    assert np.abs(in_blocks).max() > 0.1
    monkeypatch.setattr("clock_attention.speech.vocoder.harmonic_synthesis.FIRST_BLOCKS", (1000,))
    np.testing.assert_allclose(in_blocks, vocoder(mel), atol=1e-4)


def test_a_stream_yields_audio_early_and_keeps_bounded_state(tiny: HarmonicVocoder) -> None:
    synthesis = HarmonicStream(tiny)
    kept, spoken = [], []
    for piece in random_mel(1200).split(10):
        spoken.append(sum(len(wave) for wave in synthesis.push(piece)))
        kept.append(len(synthesis.mel) + len(synthesis.samples) / HOP)
    assert np.flatnonzero(spoken)[0] < 10
    assert max(kept) < 500


def test_pulses_have_the_pitch_that_was_asked_for() -> None:
    wave, cycles = excitation(torch.full((RATE // HOP + 2,), 200.0), torch.tensor(0.25, dtype=torch.float64))
    spectrum = torch.fft.rfft(wave.flatten()).abs()  # of one second
    harmonics = spectrum[200:10801:200]
    torch.testing.assert_close(harmonics, torch.full_like(harmonics, RATE / 2), rtol=0.03, atol=0)
    assert spectrum[100::200][:50].max() < 0.02 * RATE
    assert cycles[-1, -1].item() == pytest.approx(200.25)


def test_pulses_stop_where_there_is_no_voice() -> None:
    wave, _ = excitation(torch.tensor([150.0] * 4 + [0.0] * 6), torch.zeros((), dtype=torch.float64))
    assert wave[:2].abs().max() > 1
    assert not wave[4:].any()


def test_overlap_add_undoes_the_transform() -> None:
    wave, window = torch.randn(2, 20 * HOP, generator=torch.Generator().manual_seed(0)), torch.hann_window(FFT)
    again = overlap_add(spectrum_of_pulses(wave, window) * (FFT / 4), window)
    inner = slice(FFT, -FFT)
    torch.testing.assert_close(again[:, inner], wave[:, inner], atol=1e-5, rtol=0)


def test_resampling_keeps_a_tone_in_time_and_removes_what_does_not_fit() -> None:
    def resampled(hertz: float) -> np.ndarray:
        time = torch.arange(-TAPS, 20 * INPUT + TAPS, dtype=torch.float64) / RATE
        pieces = torch.cos(2 * torch.pi * hertz * time).float().unfold(0, INPUT + 2 * TAPS, INPUT)
        return (pieces @ resampling()).flatten().numpy()

    time = np.arange(20 * OUTPUT) / MEL.sample_rate
    for hertz in (50.0, 3000.0, 9500.0):
        np.testing.assert_allclose(resampled(hertz), np.cos(2 * np.pi * hertz * time), atol=2e-3)
    assert np.abs(resampled(11700.0)).max() < 0.01


def test_wrong_mels_are_refused(tiny: HarmonicVocoder) -> None:
    for shape in ((0, 80), (5, 40), (1, 5, 80)):
        with pytest.raises(ValueError, match="expected log-mel frames"):
            tiny(torch.zeros(shape))


def test_the_packaged_vocoder_copies_speech() -> None:
    """Its copy of a voiced sound has the mel that it was given, and the same each time."""
    vocoder = load_vocoder("fast", MEL)
    assert (FAST / "model.safetensors").stat().st_size < 15e6
    mel = MelSpectrogram(MEL)(voiced_wave(0.8))
    wave = vocoder(mel)
    assert (MelSpectrogram(MEL)(wave) - mel)[8:-8].abs().mean().item() < 0.8
    np.testing.assert_array_equal(vocoder(mel), wave)
