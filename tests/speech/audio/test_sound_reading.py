"""Reading sound files."""

import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile

from clock_attention.speech.audio.sound_reading import FOREIGN, audio_seconds, full_seconds, load_audio, stream_audio
from tests.speech.audio.test_wave import tone

ffmpeg = shutil.which("ffmpeg")
needs_ffmpeg = pytest.mark.skipif(ffmpeg is None, reason="needs ffmpeg")


def converted(path: Path, *options: str, seconds: float = 2.0) -> Path:
    """A tone, written by ffmpeg."""
    soundfile.write(path.with_suffix(".source.wav"), tone(seconds, 22050), 22050)
    command = [str(ffmpeg), "-v", "error", "-i", str(path.with_suffix(".source.wav")), *options, str(path)]
    subprocess.run(command, check=True)
    return path


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


@needs_ffmpeg
@pytest.mark.parametrize("suffix", [".m4a", ".m4b", ".mka", ".wv", ".au", ".caf", ".tta", ".mp2"])
def test_sound_of_other_programs_is_read_and_its_length_found(tmp_path: Path, suffix: str) -> None:
    path = converted(tmp_path / f"a{suffix}")
    assert suffix in FOREIGN
    assert audio_seconds(path) == 0
    assert full_seconds(path) == pytest.approx(2, abs=0.1)
    assert full_seconds(path) == pytest.approx(len(load_audio(path, 22050)) / 22050, abs=0.002)


@needs_ffmpeg
def test_the_length_is_found_where_no_header_or_suffix_tells_it(tmp_path: Path) -> None:
    whole = converted(tmp_path / "a.mka", "-c:a", "flac")
    with open(tmp_path / "piped.webm", "wb") as file:  # nothing goes back to fill in the length
        command = [str(ffmpeg), "-v", "error", "-i", str(whole), "-c", "copy", "-f", "matroska", "-"]
        subprocess.run(command, check=True, stdout=file)
    whole.rename(tmp_path / "renamed.mp3")
    for name in ("piped.webm", "renamed.mp3"):
        assert full_seconds(tmp_path / name) == pytest.approx(2, abs=0.1)


def test_the_length_of_what_cannot_be_read_or_believed_is_0(tmp_path: Path) -> None:
    for name in ("text.wav", "text.m4a"):
        (tmp_path / name).write_text("not audio")
        assert full_seconds(tmp_path / name) == 0
    soundfile.write(tmp_path / "slow.wav", tone(2, 22050), 22050)
    assert full_seconds(tmp_path / "slow.wav") == 2
    content = bytearray((tmp_path / "slow.wav").read_bytes())
    content[24:28] = struct.pack("<I", 1)  # Hz: twelve hours
    (tmp_path / "slow.wav").write_bytes(content)
    assert full_seconds(tmp_path / "slow.wav") == 0


def test_without_ffmpeg_the_length_of_what_it_reads_is_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    (tmp_path / "a.m4a").touch()
    assert full_seconds(tmp_path / "a.m4a") == 0
    with pytest.raises(ValueError, match=r"\.m4a needs the program ffmpeg: install it"):
        load_audio(tmp_path / "a.m4a", 22050)


@needs_ffmpeg
def test_blocks_of_what_only_ffmpeg_reads_join_to_the_whole(tmp_path: Path) -> None:
    path = converted(tmp_path / "a.m4a", seconds=5.0)
    blocks = list(stream_audio(path, 16000, seconds=1.3))
    assert [len(block) for block in blocks[:-1]] == [20800] * (len(blocks) - 1)
    np.testing.assert_array_equal(np.concatenate(blocks), load_audio(path, 16000))
    assert len(next(stream_audio(path, 16000, seconds=1.3))) == 20800  # the rest is not waited for


@needs_ffmpeg
def test_what_ffmpeg_cannot_read_or_is_too_long_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.m4a").write_text("not audio")
    with pytest.raises(ValueError, match=r"cannot read .*text\.m4a as audio"):
        list(stream_audio(tmp_path / "text.m4a", 16000))
    with pytest.raises(ValueError, match=r"a\.m4a: longer than 2 s"):
        load_audio(converted(tmp_path / "a.m4a", seconds=3.5), 16000, longest=2.0)


def test_a_flac_of_unknown_length_is_refused_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "piped.flac"
    soundfile.write(path, tone(0.5, 22050), 22050)
    content = bytearray(path.read_bytes())
    content[21] &= 0xF0  # the number of samples: 36 bits of the first block, which follows 8 bytes
    content[22:26] = bytes(4)
    path.write_bytes(content)
    for read in (audio_seconds, lambda name: load_audio(name, 22050)):
        with pytest.raises(ValueError, match=r"piped\.flac: its header does not say how long it is.*ffmpeg -i"):
            read(path)
