"""Read sound files of any kind as waveforms: headers are checked first, and truncated files are rejected."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

from clock_attention.speech.audio.wave import Wave, resample

# What a header may say about a recording. A header is trusted before its samples are read, and a few bytes can request
# all of the memory: an hour at 1 Hz becomes days of samples at 22,050.
LOWEST_RATE, HIGHEST_RATE = 4_000, 400_000
MOST_CHANNELS = 32
LONGEST = 900.0  # seconds
LONGEST_STREAM = 24 * 3600.0  # seconds, read in blocks
MOST_SAMPLES = 200_000_000  # of all channels, as float32 in memory
# Suffixes that need ffmpeg: from phones and browsers, from dictation machines, and from other sound collections.
FOREIGN = frozenset(
    {".m4a", ".m4b", ".aac", ".mp4", ".3gp", ".3g2", ".caf", ".webm", ".weba", ".mka", ".wma", ".amr", ".awb", ".dss"}
    | {".spx", ".wv", ".ape", ".tta", ".mpc", ".mp2", ".ac3", ".au", ".snd", ".aifc"}
)
COUNTED_RATE = 1000  # of samples that are only counted, one byte each
UNKNOWN_FRAMES = 0x7FFF_FFFF_FFFF_FFFF  # libsndfile's number of frames for a FLAC that does not say it
UNKNOWN_LENGTH = 0x7FFF0000  # or more: what programs that write to a pipe put in place of an unknown length


def load_audio(path: str | Path, sample_rate: int, *, longest: float = LONGEST) -> Wave:
    """Read a sound file that libsndfile (wav, flac, ogg, mp3) or ffmpeg supports, as one channel, resampled.

    Raises ValueError for files that cannot be read, are truncated, last longer than `longest` seconds, or whose
    header makes absurd claims.
    """
    import soundfile

    if Path(path).suffix.lower() in FOREIGN:
        return decode(Path(path), sample_rate, longest)
    try:
        with soundfile.SoundFile(str(path)) as file:
            check_header(path, file.samplerate, file.channels, file.frames, longest)
            promised, rate = file.frames, file.samplerate
            samples = file.read(dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, OSError, TypeError, RuntimeError) as error:
        raise ValueError(f"cannot read {path} as audio: {error}") from error
    check_complete(path, promised, len(samples))
    return resample(samples.mean(axis=1), rate, sample_rate)


def decode(path: Path, sample_rate: int, longest: float = LONGEST) -> Wave:
    """Read a sound file that libsndfile does not support (a phone's m4a), with the program ffmpeg."""
    return np.concatenate(list(stream_decoded(path, sample_rate, 60.0, longest)))


def stream_decoded(path: Path, sample_rate: int, seconds: float, longest: float = LONGEST_STREAM) -> Iterator[Wave]:
    """Read a sound file in blocks of `seconds` with the program ffmpeg."""
    received = 0
    # One second more than allowed, so that an excess is noticed.
    for block in ffmpeg_output(path, longest + 1, sample_rate, "f32le", 4 * round(seconds * sample_rate)):
        received += len(block) // 4
        if received > longest * sample_rate:
            raise ValueError(f"{path}: longer than {longest:g} s")
        yield np.frombuffer(block, dtype="<f4").astype(np.float32)


def ffmpeg_output(path: Path, longest: float, sample_rate: int, samples: str, size: int) -> Iterator[bytes]:
    """Decode a sound file to one channel with the program ffmpeg, in blocks of `size` bytes.

    `samples` is ffmpeg's name for the sample format.
    """
    program = shutil.which("ffmpeg")
    if program is None:
        raise ValueError(f"cannot read {path}: {path.suffix} needs the program ffmpeg: install it, or convert the file")
    # ffmpeg reads files only, never what a playlist in them names.
    source = ["-protocol_whitelist", "file,pipe", "-i", f"file:{path}"]
    target = ["-t", f"{longest:g}", "-ac", "1", "-ar", str(sample_rate), "-f", samples, "-"]
    command = [program, "-v", "error", "-nostdin", *source, *target]
    with TemporaryFile() as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors) as running:
        assert running.stdout is not None
        empty = True
        try:
            while block := running.stdout.read(size):
                empty = False
                yield block
        except BaseException:  # the caller needs no more
            running.kill()
            raise
        if running.wait() or empty:
            errors.seek(0)
            reason = errors.read().decode(errors="replace").strip().splitlines() or ["no audio in it"]
            raise ValueError(f"cannot read {path} as audio: {reason[-1]}")


def stream_audio(path: str | Path, sample_rate: int, seconds: float = 20.0) -> Iterator[Wave]:
    """Read a sound file of several hours in blocks of about `seconds`, as `load_audio` does, with the same errors."""
    import soundfile
    import soxr

    if Path(path).suffix.lower() in FOREIGN:
        yield from stream_decoded(Path(path), sample_rate, seconds)
        return
    try:
        with soundfile.SoundFile(str(path)) as file:
            check_header(path, file.samplerate, file.channels, file.frames, longest=LONGEST_STREAM)
            promised, rate, received = file.frames, file.samplerate, 0
            stream = None if rate == sample_rate else soxr.ResampleStream(rate, sample_rate, 1, "float32", "HQ")
            while len(samples := file.read(round(seconds * rate), dtype="float32", always_2d=True)):
                received += len(samples)
                block = np.ascontiguousarray(samples.mean(axis=1))
                yield block if stream is None else stream.resample_chunk(block)
            if stream is not None:
                yield stream.resample_chunk(np.zeros(0, dtype=np.float32), last=True)
    except (soundfile.LibsndfileError, OSError, TypeError, RuntimeError) as error:
        raise ValueError(f"cannot read {path} as audio: {error}") from error
    check_complete(path, promised, received)


def audio_seconds(path: str | Path) -> float:
    """Length of a sound file in seconds, according to its header; 0 for files that only ffmpeg can read."""
    return audio_size(path)[0]


def full_seconds(path: str | Path) -> float:
    """Length of any sound file in seconds, from its header or else by decoding it; 0 if neither can be trusted."""
    import soundfile

    if Path(path).suffix.lower() in FOREIGN:
        return decoded_seconds(path)
    try:
        header = soundfile.info(str(path))
    except (soundfile.LibsndfileError, OSError, TypeError, RuntimeError):
        return decoded_seconds(path)  # its suffix may be wrong
    try:
        check_header(path, header.samplerate, header.channels, header.frames, longest=LONGEST_STREAM)
    except ValueError:
        return 0.0  # ffmpeg would trust it
    return float(header.frames / header.samplerate)


def decoded_seconds(path: str | Path) -> float:
    """Length of a sound file in seconds, decoded by ffmpeg; 0 if that is not possible.

    An hour takes a few seconds. Headers are no help: browser recordings have no length in them, others only a guess.
    """
    try:
        return sum(map(len, ffmpeg_output(Path(path), LONGEST_STREAM, COUNTED_RATE, "u8", 2**20))) / COUNTED_RATE
    except ValueError:
        return 0.0


def audio_size(path: str | Path) -> tuple[float, int]:
    """Seconds and samples (of all channels) of a sound file, according to its header; 0 if only ffmpeg can read it."""
    import soundfile

    if Path(path).suffix.lower() in FOREIGN:
        return 0.0, 0

    try:
        header = soundfile.info(str(path))
    except (soundfile.LibsndfileError, OSError, TypeError, RuntimeError) as error:
        raise ValueError(f"cannot read {path} as audio: {error}") from error
    check_header(path, header.samplerate, header.channels, header.frames, longest=LONGEST_STREAM)
    return float(header.frames / header.samplerate), header.frames * header.channels


def check_complete(path: str | Path, promised: int, received: int) -> None:
    """Reject a truncated sound file."""
    cut_off = missing_bytes(Path(path))
    if received < promised or cut_off:
        lost = f"{cut_off} bytes" if cut_off else f"{promised - received} samples"
        raise ValueError(f"cannot read all of {path}: the file is cut off, {lost} are missing")


def check_header(path: str | Path, rate: int, channels: int, frames: int, longest: float = LONGEST) -> None:
    """Reject an implausible header of a sound file before anything of its size is allocated."""
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise ValueError(f"{path}: a sample rate of {rate} Hz, expected {LOWEST_RATE} … {HIGHEST_RATE}")
    if not 1 <= channels <= MOST_CHANNELS:
        raise ValueError(f"{path}: {channels} channels, expected 1 … {MOST_CHANNELS}")
    if frames == UNKNOWN_FRAMES:
        raise ValueError(
            f"{path}: its header does not say how long it is, as in a file that was written to a pipe: convert it, for "
            "example with `ffmpeg -i FILE NEW.flac`"
        )
    most = MOST_SAMPLES if longest < LONGEST_STREAM else MOST_CHANNELS * HIGHEST_RATE * round(longest)
    if not 0 <= frames <= longest * rate or frames * channels > most:
        raise ValueError(
            f"{path}: {frames / rate:.0f} s in {channels} channels at {rate} Hz, expected at most {longest:g} s and "
            f"{most:,} samples in all channels"
        )


def missing_bytes(path: Path) -> int:
    """How many bytes a RIFF file is shorter than its header says; libsndfile reads truncated files without an error."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        form = file.read(12)
        if form[:4] != b"RIFF" or form[8:] != b"WAVE":
            return 0
        while len(head := file.read(8)) == 8:
            length = int.from_bytes(head[4:], "little")
            if head[:4] == b"data":
                return 0 if length >= UNKNOWN_LENGTH else max(0, file.tell() + length - size)
            file.seek(length + length % 2, 1)
    return 0
