"""Recordings of any kind as an LJSpeech-format folder of short clips at one rate and one loudness.

Long recordings are cut at pauses, between words where the text is known. What has no text is written down by a
recognizer, and `gathered.json` says so. Nothing is left out without a reason in `left_out.jsonl`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from clock_attention.files import make_folder, write_atomically
from clock_attention.speech.audio.loudness import loudness, speech_above_noise, with_loudness
from clock_attention.speech.audio.sound_reading import load_audio
from clock_attention.speech.audio.sound_writing import save_sound
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.corpus.cutting import LONGEST_PIECE, Cut, TimedWord, pieces_by_level, pieces_by_words
from clock_attention.speech.corpus.sources import Source
from clock_attention.speech.corpus.store import Rejection, write_rows

LONGEST_CLIP = 20.0  # seconds of a recording that is left in one piece
LONGEST_SOURCE = 4 * 3600.0
SILENT = -70.0  # LUFS


class Transcriber(Protocol):
    """Transcribes the speech of gathered recordings."""

    @property
    def name(self) -> str: ...
    def transcribe(self, wave: Wave, sample_rate: int) -> str: ...


FindWords = Callable[[Wave, int, str], list[TimedWord]]  # of a long recording: wave, rate, text → where each word is


@dataclass
class Gathered:
    """Contents of `gathered.json`: what the clips are made of."""

    clips: int = 0
    seconds: float = 0.0
    seconds_found: float = 0.0
    transcribed_by: str = ""  # the recognizer of machine-made texts; "" where there are none
    transcribed_clips: int = 0
    cut: int = 0  # long recordings that were cut
    loudness: list[float] = field(default_factory=list)  # LUFS before: lowest, median, highest
    above_noise: float = 0.0  # dB, median
    left_out: dict[str, list[float]] = field(default_factory=dict)  # reason → [recordings, seconds]


class Gathering:
    """Gathers recordings: writes clips into a folder, one recording after the other."""

    def __init__(
        self,
        out: Path,
        sample_rate: int,
        *,
        find_words: FindWords | None = None,
        recognizer: Callable[[], Transcriber] | None = None,
    ) -> None:
        self.out, self.rate = out, sample_rate
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
        for number, source in enumerate(sources, start=1):
            self.add(source)
            report(number)
        if self.levels:
            self.result.loudness = [round(float(x), 1) for x in np.percentile(self.levels, [0, 50, 100])]
            self.result.above_noise = round(float(np.median(self.noise)), 1)
        write_rows(self.out / "left_out.jsonl", [asdict(row) for row in self.left_out])
        write_atomically(self.out / "metadata.csv", "".join(self.rows))
        write_atomically(self.out / "gathered.json", json.dumps(asdict(self.result), indent=1, ensure_ascii=False))
        return self.result

    def add(self, source: Source) -> None:
        """Write the clips of one recording, or why there are none."""
        try:
            wave = load_audio(source.path, self.rate, longest=LONGEST_SOURCE)
        except ValueError as error:
            return self.leave_out(source.id, "unreadable", str(error), 0.0)
        seconds = len(wave) / self.rate
        self.result.seconds_found += seconds
        if source.fault:
            return self.leave_out(source.id, "unreadable text", source.fault, seconds)
        if not np.isfinite(wave).all():
            return self.leave_out(source.id, "unreadable", "samples that are not finite", seconds)
        level = loudness(wave, self.rate)
        if level < SILENT:
            return self.leave_out(
                source.id, "silent", f"{seconds:.1f} s without a sound above {SILENT:g} LUFS", seconds
            )
        self.levels.append(level)
        self.noise.append(speech_above_noise(wave, self.rate))
        wave = with_loudness(wave, self.rate)
        try:
            pieces = list(self.pieces(source, wave))
        except ValueError as error:
            return self.leave_out(source.id, "not cut", str(error), seconds)
        for number, piece in enumerate(pieces):
            name = source.id if len(pieces) == 1 else f"{source.id}_{number:04d}"
            self.write(name, wave[round(piece.start * self.rate) : round(piece.end * self.rate)], piece.text)
        self.result.cut += len(pieces) > 1
        return None

    def pieces(self, source: Source, wave: Wave) -> Iterator[Cut]:
        seconds = len(wave) / self.rate
        if source.text is None:
            yield from pieces_by_level(wave, self.rate)
        elif seconds <= LONGEST_CLIP:
            yield Cut(0.0, seconds, source.text)
        elif self.find_words is None:
            raise ValueError(f"{seconds:.0f} s long, and nothing here can find its words to cut it")
        else:
            words = self.find_words(wave, self.rate, source.text)
            yield from pieces_by_words(written(words, source.text), seconds, LONGEST_PIECE)

    def write(self, name: str, wave: Wave, text: str | None) -> None:
        seconds = len(wave) / self.rate
        if text is None:
            if self._recognizer is None:
                if self.make_recognizer is None:
                    return self.leave_out(name, "no text", "no .txt beside it, and no recognizer to write one", seconds)
                self._recognizer = self.make_recognizer()
                self.result.transcribed_by = self._recognizer.name
            text = self._recognizer.transcribe(wave, self.rate)
            if not any(c.isalpha() for c in text):
                return self.leave_out(name, "no words", "the recognizer found none", seconds)
            self.result.transcribed_clips += 1
        save_sound(self.out / "wavs" / f"{name}.flac", wave, self.rate)
        self.rows.append(f"{name}|{' '.join(text.replace('|', ',').split())}\n")
        self.result.clips += 1
        self.result.seconds += seconds
        return None

    def leave_out(self, name: str, reason: str, detail: str, seconds: float) -> None:
        self.left_out.append(Rejection(name, reason, detail))
        count, total = self.result.left_out.get(reason, [0, 0.0])
        self.result.left_out[reason] = [count + 1, total + seconds]


def written(words: list[TimedWord], text: str) -> list[TimedWord]:
    """Gathered words as they stand in the text, with the punctuation between them, which says where to pause."""
    places, reached = [], 0
    for word in words:
        place = text.find(word.text, reached)
        if place < 0:
            return words  # the text was normalised: the words are all there is
        places.append(place)
        reached = place + len(word.text)
    ends = [*places[1:], len(text)]
    return [
        TimedWord(word.start, word.end, text[place:end].strip())
        for word, place, end in zip(words, places, ends, strict=True)
    ]


def read_gathered(folder: Path) -> Gathered | None:
    """What `gathered.json` says of a folder of clips; None for any other folder."""
    path = folder / "gathered.json"
    if not path.is_file():
        return None
    table: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return Gathered(**table)
