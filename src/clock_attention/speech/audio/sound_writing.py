"""Sound files written incrementally, and renamed to their final name when complete."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import numpy as np

from clock_attention.files import check_writable, temporary_name
from clock_attention.speech.audio.wave import Wave

FORMATS = {".wav": "WAV", ".flac": "FLAC"}
UNKNOWN_LENGTH = 0xFFFFFFFF  # what readers of piped WAV expect if the length is not known yet
HEADER = 36  # bytes of a WAV header after its length field, without the samples


def check_sound_path(path: str | Path) -> Path:
    """Check that a sound file can be written to a path; the error says why not."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"{path}: expected a name ending in {' or '.join(FORMATS)}")
    return check_writable(path)


class SoundFile:
    """A .wav or .flac file that is written incrementally; an exception leaves nothing behind."""

    def __init__(self, path: str | Path, sample_rate: int, subtype: str = "PCM_16") -> None:
        import soundfile

        self.path = check_sound_path(path)
        self.samples = 0
        self._temporary = temporary_name(self.path)
        form = FORMATS[self.path.suffix.lower()]
        with self._clear_errors():
            self._file = soundfile.SoundFile(self._temporary, "w", sample_rate, 1, subtype, format=form)

    def write(self, wave: Wave) -> None:
        with self._clear_errors():
            self._file.write(np.clip(wave, -1, 1))
        self.samples += len(wave)

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        import soundfile

        try:
            yield
        except soundfile.LibsndfileError as error:
            raise OSError(f"{self.path}: cannot be written; is the disk full? ({error})") from None

    def _finish(self) -> None:
        """Count the samples that were written: libsndfile does not report a full disk at the end of a FLAC."""
        import soundfile

        with self._clear_errors():
            found = soundfile.info(self._temporary).frames
        if found != self.samples:
            raise OSError(f"{self.path}: only {found} of {self.samples} samples could be written; is the disk full?")
        os.replace(self._temporary, self.path)

    def __enter__(self) -> SoundFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._file.close()
            if kind is None:
                self._finish()
        finally:
            self._temporary.unlink(missing_ok=True)


class SoundPipe:
    """A WAV file written to a stream that cannot seek, playable while it is being written.

    The header needs the length. One block is held back: if it was the only one, the header is exact; otherwise it says
    that the length is unknown, as players that read from pipes expect.
    """

    def __init__(self, stream: BinaryIO, sample_rate: int) -> None:
        self._stream = stream
        self._rate = sample_rate
        self._held: bytes | None = None
        self._started = False

    def write(self, wave: Wave) -> None:
        if self._held is not None:
            self._send(UNKNOWN_LENGTH)
        self._held = (np.clip(wave, -1, 1) * 32767).round().astype("<i2").tobytes()

    def _send(self, length: int) -> None:
        if not self._started:
            self._stream.write(wav_header(self._rate, length))
            self._started = True
        self._stream.write(self._held or b"")
        self._stream.flush()
        self._held = None

    def __enter__(self) -> SoundPipe:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self._send(len(self._held or b""))


def wav_header(sample_rate: int, length: int) -> bytes:
    """Header of a WAV file with `length` bytes of mono 16-bit samples."""
    whole = min(length + HEADER, UNKNOWN_LENGTH)
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, sample_rate, 2 * sample_rate, 2, 16)
    return struct.pack("<4sI4s", b"RIFF", whole, b"WAVE") + form + struct.pack("<4sI", b"data", length)


def save_sound(path: str | Path, wave: Wave, sample_rate: int) -> None:
    """Write a whole sound file at once."""
    with SoundFile(path, sample_rate) as file:
        file.write(wave)
