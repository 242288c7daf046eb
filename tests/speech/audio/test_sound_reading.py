"""Reading sound files."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from clock_attention.speech.audio.sound_reading import load_audio
from tests.speech.audio.test_wave import tone


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
