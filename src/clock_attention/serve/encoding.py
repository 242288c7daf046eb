"""Encode speech in an audio format, sentence by sentence."""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass

import numpy as np
import soundfile
import soxr

from clock_attention.speech.audio.sound_writing import UNKNOWN_LENGTH, wav_header
from clock_attention.speech.audio.wave import Wave

MP3_COMPRESSION = 0.6  # 0 … 1; this is about 64 kbit/s, transparent for a single voice at 22.05 kHz


@dataclass(frozen=True)
class AudioFormat:
    """An audio format of the server's responses. Formats without a libsndfile container are raw 16-bit samples."""

    media_type: str
    container: str | None = None
    subtype: str = "PCM_16"
    sample_rate: int | None = None  # None: the voice's


AUDIO_FORMATS = {
    "mp3": AudioFormat("audio/mpeg", "MP3", "MPEG_LAYER_III"),
    "opus": AudioFormat("audio/ogg", "OGG", "OPUS", 24000),  # Opus supports five rates, not including 22.05 kHz
    "flac": AudioFormat("audio/flac", "FLAC"),
    "wav": AudioFormat("audio/wav"),
    "pcm": AudioFormat("audio/pcm", sample_rate=24000),  # as OpenAI's: 24 kHz, little-endian, no header
}


class Encoder:
    """Encodes sentences in an audio format, and returns the bytes that are ready.

    Lengths in headers are only known at the end: only `whole` has them. In a stream, the header declares an unknown
    length (WAV) or omits it (MP3, where players compute it from the constant bit rate); Opus has none. Many readers
    reject FLAC without a length, so all of it is returned at the end.
    """

    def __init__(self, name: str, sample_rate: int) -> None:
        self.format = AUDIO_FORMATS[name]
        self.name = name
        self.rate = self.format.sample_rate or sample_rate
        self._resampler = soxr.ResampleStream(sample_rate, self.rate, 1) if self.rate != sample_rate else None
        self._lock = threading.Lock()  # a response may be aborted while a thread encodes it
        self._buffer = io.BytesIO()
        self._sent = 0
        self._file: soundfile.SoundFile | None = None
        if self.format.container:
            options = {"bitrate_mode": "CONSTANT", "compression_level": MP3_COMPRESSION} if name == "mp3" else {}
            self._file = soundfile.SoundFile(
                self._buffer, "w", self.rate, 1, self.format.subtype, format=self.format.container, **options
            )
        elif name == "wav":
            self._buffer.write(wav_header(self.rate, UNKNOWN_LENGTH))

    def write(self, wave: Wave) -> bytes:
        """Encode a sentence; returns the bytes that can be sent."""
        with self._lock:
            return self._write(wave, False)

    def _write(self, wave: Wave, last: bool) -> bytes:
        if self._resampler is not None:
            wave = self._resampler.resample_chunk(wave, last=last)
        wave = np.clip(wave, -1.0, 1.0)
        if self._file is not None:
            self._file.write(wave)
        else:
            self._buffer.seek(0, io.SEEK_END)
            self._buffer.write((wave * 32767).round().astype("<i2").tobytes())
        return self._fresh()

    def finish(self) -> bytes:
        """Finish encoding; returns the remaining bytes."""
        with self._lock:
            rest = b"" if self._resampler is None else self._write(np.zeros(0, np.float32), True)
            if self._file is not None:
                self._file.close()
            return rest + self._fresh()

    def close(self) -> None:
        """Release the encoder, after `finish` or instead of it."""
        with self._lock:
            if self._file is not None:
                self._file.close()

    def whole(self) -> bytes:
        """All bytes, with exact lengths in the header; call after `finish`."""
        content = self._buffer.getvalue()
        if self.name == "wav":
            header = wav_header(self.rate, 0)
            content = wav_header(self.rate, len(content) - len(header)) + content[len(header) :]
        return content

    def _fresh(self) -> bytes:
        content = self._buffer.getvalue()
        if self.name == "flac" and self._file is not None and not self._file.closed:
            return b""
        if self.name == "mp3" and self._sent == 0:  # skip the empty frame reserved for the length
            self._sent = max(content.find(b"\xff", 4), 0)
        fresh = content[self._sent :]
        self._sent += len(fresh)
        return fresh
