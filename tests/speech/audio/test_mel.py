import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from clock_attention.files import temporary_name
from clock_attention.speech.audio.mel import PRESETS, MelConfig, MelSpectrogram
from clock_attention.speech.audio.sound_file import save_sound
from clock_attention.speech.audio.wave import load_audio, trim_silence

GOLDEN = Path(__file__).parents[3] / ".." / "shared" / "golden" / "torchaudio_mel.npz"

MELS = {name: MelSpectrogram(config) for name, config in PRESETS.items()}


def tone(seconds: float, rate: int, frequency: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


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


@pytest.mark.parametrize("preset", PRESETS)
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


@pytest.mark.parametrize(("name", "rate", "channels"), [("a.wav", 16000, 1), ("b.flac", 48000, 2), ("c.ogg", 22050, 1)])
def test_audio_of_any_rate_and_format_is_read(tmp_path: Path, name: str, rate: int, channels: int) -> None:
    wave = tone(0.5, rate)
    soundfile.write(tmp_path / name, np.stack([wave] * channels, axis=1), rate)
    loaded = load_audio(tmp_path / name, 22050)
    assert loaded.dtype == np.float32
    assert abs(len(loaded) - 11025) <= 2
    middle = slice(2000, 9000)
    np.testing.assert_allclose(loaded[middle], tone(0.5, 22050)[: len(loaded)][middle], atol=0.05)


def test_unreadable_audio_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("not audio")
    with pytest.raises(ValueError, match=r"text\.wav"):
        load_audio(tmp_path / "text.wav", 22050)


@given(st.floats(0, 0.5), st.floats(0, 0.5), st.sampled_from([16000, 22050]))
def test_trimming_leaves_at_most_the_margin(lead: float, trail: float, rate: int) -> None:
    silence = [np.zeros(round(seconds * rate), np.float32) for seconds in (lead, trail)]
    speech = tone(0.3, rate)
    trimmed = trim_silence(np.concatenate([silence[0], speech, silence[1]]), rate, keep=0.05)
    expected = 0.3 + min(lead, 0.05) + min(trail, 0.05)
    assert abs(len(trimmed) / rate - expected) < 0.011


def test_trimming_keeps_quiet_ends_and_inner_pauses() -> None:
    rate = 22050
    speech = np.concatenate([tone(0.3, rate), np.zeros(rate // 2, np.float32), 0.01 * tone(0.2, rate)])  # 40 dB lower
    padded = np.concatenate([np.zeros(rate, np.float32), speech, np.zeros(rate, np.float32)])
    assert abs(len(trim_silence(padded, rate)) / rate - 1.1) < 0.011
    flat = np.zeros(1000, np.float32)
    assert len(trim_silence(flat, rate)) == 1000


def test_a_sound_file_removes_what_a_killed_process_left_of_it(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    mine = temporary_name(tmp_path / "x.wav")
    left = mine.with_name(mine.name.replace(f"-{os.getpid()}.", f"-{process.pid}."))
    left.write_bytes(b"half of a sentence")
    save_sound(tmp_path / "x.wav", np.zeros(100, np.float32), 22050)
    assert [path.name for path in tmp_path.iterdir()] == ["x.wav"]
