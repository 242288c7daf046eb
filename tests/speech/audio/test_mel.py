from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from clock_attention.speech.audio.mel import MEL_PRESETS, MelConfig, MelSpectrogram

GOLDEN = Path(__file__).parents[3] / ".." / "shared" / "golden" / "torchaudio_mel.npz"

MELS = {name: MelSpectrogram(config) for name, config in MEL_PRESETS.items()}


@pytest.mark.skipif(not GOLDEN.exists(), reason="torchaudio's reference output is not part of the repository")
def test_paper_mel_is_torchaudios() -> None:
    golden = np.load(GOLDEN)
    mel = MelSpectrogram(MelConfig.preset("paper")).linear(golden["wave"]).T.numpy()
    expected = golden["mel"]
    assert mel.shape == expected.shape
    # Bins more than 110 dB below the loudest of their frame are the rounding noise of a float32 FFT.
    noise = 1e-11 * expected.max(axis=0, keepdims=True)
    assert (np.abs(mel - expected) <= 1e-4 * expected + noise).all()


def test_hifigan_mel_follows_its_definition() -> None:
    """The published definition, written out in numpy float64."""
    import librosa

    wave = np.random.default_rng(0).normal(0, 0.1, 22050).astype(np.float32)
    padded = np.pad(wave.astype(np.float64), 384, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, 1024)[::256]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(1024) / 1024)
    magnitude = np.sqrt(np.abs(np.fft.rfft(frames * window)) ** 2 + 1e-9)
    filters = librosa.filters.mel(sr=22050, n_fft=1024, n_mels=80, fmin=0, fmax=8000)
    expected = np.log(np.maximum(magnitude @ filters.T, 1e-5))
    mel = MelSpectrogram(MelConfig.preset("hifigan"))(wave)
    np.testing.assert_allclose(mel.numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("preset", MEL_PRESETS)
@given(samples=st.integers(513, 5000))
def test_frame_count_is_predictable_and_batches_agree(preset: str, samples: int) -> None:
    mel = MELS[preset]
    config = mel.config
    wave = torch.rand(2, samples) - 0.5
    batch = mel(wave)
    assert batch.shape == (2, config.frames(samples), 80)
    torch.testing.assert_close(mel(wave[1]), batch[1], rtol=1e-4, atol=1e-4)


def test_silence_is_finite() -> None:
    mel = MelSpectrogram(MelConfig.preset("paper"))(np.zeros(4000, np.float32))
    assert torch.allclose(mel, torch.tensor(1e-7).log())


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="100 samples are too few"):
        MelSpectrogram(MelConfig())(np.zeros(100, np.float32))


def test_config_survives_json_and_refuses_nonsense() -> None:
    config = MelConfig.preset("hifigan")
    assert MelConfig.model_validate_json(config.model_dump_json()) == config
    with pytest.raises(ValidationError, match="f_min < f_max"):
        MelConfig(f_max=20000.0)
    with pytest.raises(ValidationError):
        MelConfig.model_validate({"hop": 256})
    with pytest.raises(ValueError, match="paper, hifigan"):
        MelConfig.preset("tacotron")
