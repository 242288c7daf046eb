"""Gather recordings of any kind into an LJSpeech-format folder of short clips at one sample rate and one loudness.

Long recordings are cut at pauses, between words where the text is known. Recordings without a text are transcribed by
a recognizer and marked as such in `gathered.json`. The reason for leaving out a recording is in `left_out.jsonl`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from pydantic import TypeAdapter, ValidationError

from clock_attention.files import make_folder, write_atomically
from clock_attention.own_voice.written_words import written
from clock_attention.speech.audio.bandwidth import is_narrowband
from clock_attention.speech.audio.loudness import BLOCK, loudness, speech_above_noise, with_loudness
from clock_attention.speech.audio.sound_reading import (
    LONGEST,
    MOST_SAMPLES,
    audio_seconds,
    audio_size,
    full_seconds,
    load_audio,
    stream_audio,
)
from clock_attention.speech.audio.sound_writing import save_sound
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.corpus.cutting import LONGEST_PIECE, Cut, TimedWord, pieces_by_level, pieces_by_words
from clock_attention.speech.corpus.metadata import fitting_id
from clock_attention.speech.corpus.recording_checks import CheckBounds, Rejected, check_wave
from clock_attention.speech.corpus.sources import Source
from clock_attention.speech.corpus.store import Rejection, write_rows

LONGEST_CLIP = 20.0  # seconds; longer recordings are cut
LONGEST_SOURCE = 4 * 3600.0
SILENT = -70.0  # LUFS
LEFT_OUT, TRANSCRIPTS = "left_out.jsonl", "transcripts.jsonl"


class Transcriber(Protocol):
    """Transcribes the speech of gathered recordings."""

    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    def transcribe(self, wave: Wave, sample_rate: int) -> str: ...


FindWords = Callable[[Wave, int, str], list[TimedWord]]  # wave, rate, text of a long recording → timed words


@dataclass
class Gathered:
    """Contents of `gathered.json`: where the clips come from."""

    clips: int = 0
    seconds: float = 0.0
    seconds_found: float = 0.0  # total length of all sound files, used or not
    transcribed_by: str = ""  # the recognizer of machine-made texts; "" if there are none
    transcribed_clips: int = 0
    cut: int = 0  # number of long recordings that were cut
    loudness: list[float] = field(default_factory=list)  # LUFS before normalization: lowest, median, highest
    above_noise: float = 0.0  # dB, median
    narrowband: list[float] = field(default_factory=lambda: [0, 0.0])  # recordings, seconds: as from a telephone
    left_out: dict[str, list[float]] = field(default_factory=dict)  # reason → [recordings, seconds]
    table: str = ""  # digest of metadata.csv as written, to notice corrections by hand


class Gathering:
    """Gathers recordings: writes their clips into a folder, one recording at a time."""

    def __init__(
        self,
        out: Path,
        sample_rate: int,
        *,
        find_words: FindWords | None = None,
        recognizer: Callable[[], Transcriber] | None = None,
        memory: Path | None = None,
    ) -> None:
        """`memory`: a file of transcripts, so that an interrupted run does not have to transcribe again."""
        self.out, self.rate = out, sample_rate
        self.memory = Transcripts(memory)
        self.names: set[str] = set()  # taken by recordings and clips
        self.written: set[str] = set()
        self.find_words, self.make_recognizer = find_words, recognizer
        self._recognizer: Transcriber | None = None
        self.rows: list[str] = []
        self.left_out: list[Rejection] = []
        self.result = Gathered()
        self.levels: list[float] = []
        self.noise: list[float] = []
        make_folder(out / "wavs")

    def run(
        self,
        sources: Iterable[Source],
        rejected: Iterable[Rejection] = (),
        report: Callable[[int], None] = lambda done: None,
    ) -> Gathered:
        """Write all clips, then the tables."""
        for rejection in rejected:
            self.leave_out(rejection.id, rejection.reason, rejection.detail, 0.0)
        sources = list(sources)
        self.names |= {source.id.casefold() for source in sources}  # reserved: no other recording's clips may use them
        for number, source in enumerate(sources, start=1):
            self.add(source)
            report(number)
        if self.levels:
            self.result.loudness = [round(float(x), 1) for x in np.percentile(self.levels, [0, 50, 100])]
            self.result.above_noise = round(float(np.median(self.noise)), 1)
        write_rows(self.out / LEFT_OUT, [asdict(row) for row in self.left_out])
        table = "".join(self.rows)
        self.result.table = table_digest(table.encode())
        write_atomically(self.out / "gathered.json", json.dumps(asdict(self.result), indent=1, ensure_ascii=False))
        write_atomically(self.out / "metadata.csv", table)
        return self.result

    def add(self, source: Source) -> None:
        """Write the clips of one recording, or record why it is left out."""
        if source.fault:
            return self.leave_out_unread(source, source.reason, source.fault)
        try:
            wave = load_long_audio(source.path, self.rate)
        except ValueError as error:
            return self.leave_out_unread(source, "unreadable", str(error))
        seconds = len(wave) / self.rate
        self.result.seconds_found += seconds
        try:  # before loudness normalization, which hides clipping
            check_wave(wave, CheckBounds(silent_db=-math.inf, loudest=math.inf))
        except Rejected as rejected:
            return self.leave_out(source.id, rejected.reason, rejected.detail, seconds)
        if seconds <= BLOCK:
            return self.leave_out(source.id, "too short", f"{seconds:.2f} s, more than {BLOCK:g} s needed", seconds)
        level = loudness(wave, self.rate)
        if level < SILENT:
            return self.leave_out(
                source.id, "silent", f"{seconds:.1f} s without a sound above {SILENT:g} LUFS", seconds
            )
        self.levels.append(level)
        self.noise.append(speech_above_noise(wave, self.rate))
        if is_narrowband(wave, self.rate):
            count, total = self.result.narrowband
            self.result.narrowband = [count + 1, total + seconds]
        wave = with_loudness(wave, self.rate)
        try:
            pieces = list(self.pieces(source, wave))
        except ValueError as error:
            return self.leave_out(source.id, "not cut", str(error), seconds)
        for number, piece in enumerate(pieces):
            whole = len(pieces) == 1 and source.id.casefold() not in self.written
            name = source.id if whole else self.free_name(f"{fitting_id(source.id)}_{number:04d}")
            self.written.add(name.casefold())
            self.write(name, wave[round(piece.start * self.rate) : round(piece.end * self.rate)], piece.text)
        self.result.cut += len(pieces) > 1
        return None

    def free_name(self, name: str) -> str:
        """A clip name that is not in use, even on case-insensitive file systems."""
        while name.casefold() in self.names:
            name += "_"
        self.names.add(name.casefold())
        return name

    def pieces(self, source: Source, wave: Wave) -> Iterator[Cut]:
        seconds = len(wave) / self.rate
        if source.text is None:
            yield from pieces_by_level(wave, self.rate)
        elif seconds <= LONGEST_CLIP:
            yield Cut(0.0, seconds, source.text)
        elif self.find_words is None:
            raise ValueError(f"{seconds:.0f} s long, with a text: only `voice create` cuts recordings between words")
        else:
            words = self.find_words(wave, self.rate, source.text)
            if not words:
                raise ValueError(f"{seconds:.0f} s long, and none of the words of its text were found in it")
            yield from pieces_by_words(written(words, source.text), seconds, LONGEST_PIECE)

    def write(self, name: str, wave: Wave, text: str | None) -> None:
        seconds = len(wave) / self.rate
        if text is None:
            if self._recognizer is None:
                if self.make_recognizer is None:
                    return self.leave_out(name, "no text", "no .txt beside it, and no recognizer to write one", seconds)
                self._recognizer = self.make_recognizer()
                self.result.transcribed_by = self._recognizer.name
            text = self.memory.text(self._recognizer, wave, self.rate)
            if not any(c.isalpha() for c in text):
                return self.leave_out(name, "no words", "the recognizer found none", seconds)
            self.result.transcribed_clips += 1
        save_sound(self.out / "wavs" / f"{name}.flac", wave, self.rate)
        self.rows.append(f"{name}|{' '.join(text.replace('|', ',').split())}\n")
        self.result.clips += 1
        self.result.seconds += seconds
        return None

    def leave_out_unread(self, source: Source, reason: str, detail: str) -> None:
        seconds = full_seconds(source.path)
        self.result.seconds_found += seconds
        self.leave_out(source.id, reason, detail, seconds)

    def leave_out(self, name: str, reason: str, detail: str, seconds: float) -> None:
        self.left_out.append(Rejection(name, reason, detail))
        count, total = self.result.left_out.get(reason, [0, 0.0])
        self.result.left_out[reason] = [count + 1, total + seconds]


def refuse_among(recordings: Path, out: Path) -> None:
    """Refuse to gather into a folder inside the folder of recordings."""
    if out.resolve().is_relative_to(recordings.resolve()):
        raise ValueError(
            f"{out} is inside the folder of recordings, {recordings}, so the next run would take files written "
            "there for recordings: choose a folder outside"
        )


def refuse_inside(recordings: Path, written: Path) -> None:
    """Refuse to gather recordings from a folder that the command itself writes to and empties."""
    if recordings.resolve().is_relative_to(written.resolve()):
        raise ValueError(
            f"{recordings} is inside {written}, where this command writes its own files: move the recordings elsewhere"
        )


class Transcripts:
    """Transcripts of gathered clips, kept in a file between runs."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known: dict[str, str] = {}
        if path is not None and path.is_file():
            for line in path.read_text("utf-8").splitlines():
                with contextlib.suppress(ValueError):  # an incomplete last line
                    key, text = json.loads(line)
                    self.known[key] = text

    def text(self, recognizer: Transcriber, wave: Wave, rate: int) -> str:
        """The recognizer's transcript of a wave, from the file if it is there."""
        key = hashlib.sha256(f"{recognizer.fingerprint} {rate} ".encode() + wave.tobytes()).hexdigest()
        if key not in self.known:
            self.known[key] = recognizer.transcribe(wave, rate)
            if self.path is not None:
                with open(self.path, "a", encoding="utf-8") as file:
                    file.write("\n" + json.dumps([key, self.known[key]]))  # a new line even after an incomplete one
        return self.known[key]


def load_long_audio(path: str, rate: int) -> Wave:
    """Load a recording to gather; long ones in blocks, since all channels at the source rate may not fit in memory."""
    seconds, samples = audio_size(path)
    if seconds > LONGEST_SOURCE:
        raise ValueError(f"{path}: {seconds / 3600:.1f} h long, at most {LONGEST_SOURCE / 3600:g}: split it")
    if seconds > LONGEST or samples > MOST_SAMPLES:
        return np.concatenate(list(stream_audio(path, rate)))
    return load_audio(path, rate, longest=LONGEST_SOURCE)


def length_of(path: str) -> float:
    """Length in seconds of a recording to gather, from its header; 0 if it cannot be read."""
    try:
        return audio_seconds(path)
    except ValueError:
        return 0.0


def table_digest(table: bytes) -> str:
    """Digest of the table of gathered texts, to notice corrections made by hand."""
    return hashlib.sha256(table).hexdigest()[:16]


def is_corrected(folder: Path) -> bool:
    """Whether the texts in a folder of gathered clips may have been corrected by hand."""
    table, gathered = folder / "metadata.csv", read_gathered(folder)
    return table.is_file() and (gathered is None or gathered.table != table_digest(table.read_bytes()))


def why_left_out(folder: Path) -> str:
    """What was left out when a folder of clips was gathered: each reason with an example; empty if nothing was."""
    path = folder / LEFT_OUT
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []
    reasons = []
    for reason in dict.fromkeys(row["reason"] for row in rows):
        some = [row for row in rows if row["reason"] == reason]
        reasons.append(f"{len(some)} {reason} ({some[0]['id']}: {some[0]['detail']})")
    return "; ".join(reasons) + (f"; all in {path}" if rows else "")


def read_gathered(folder: Path) -> Gathered | None:
    """Read `gathered.json` from a folder of gathered clips; None for any other folder."""
    path = folder / "gathered.json"
    if not path.is_file():
        return None
    try:
        return TypeAdapter(Gathered).validate_json(path.read_bytes())
    except ValidationError:
        raise ValueError(
            f"{path} is damaged or from another program; expected the file in which `corpus transcribe` marks "
            "machine-made texts: restore it, or remove it if people wrote all texts"
        ) from None
