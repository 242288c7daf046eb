"""Joins the alignments of a long recording's pieces into one."""

from __future__ import annotations

from collections.abc import Iterable

from clock_attention.speech.aligner.emissions import LOWEST
from clock_attention.speech.aligner.results import AlignedInterval, AlignedRecording, Flag

FOUND = 0.5  # minimum share of words found; below it the text does not match the recording, however well the rest fits


class Joined:
    """Joins the alignments of a long recording's pieces, which must be added in order of time."""

    def __init__(self, words: tuple[str, ...], threshold: float) -> None:
        self._text, self._threshold = words, threshold
        self._words: list[AlignedInterval] = []
        self._phones: list[AlignedInterval] = []
        self._flags: list[Flag] = []
        self._next = 0  # next word of the text
        self._score = self._weight = 0.0

    def add(self, piece: AlignedRecording, start: float, first: int, stop: int) -> None:
        """Add a piece that starts at `start` seconds and contains the words `first` … `stop`−1."""
        self._left_out(first, start)
        extend(self._words, piece.words, start)
        extend(self._phones, piece.phones, start)
        for flag in piece.flags:
            self._flag(flag._replace(start=flag.start + start, end=flag.end + start))
        self._score += piece.score * piece.duration
        self._weight += piece.duration
        self._next = stop

    def add_wordless(self, start: float, end: float, first: int, *, speech: bool) -> None:
        """Add a stretch without words of the text, before word `first`."""
        self._left_out(first, start)
        for tier in (self._words, self._phones):
            extend(tier, [AlignedInterval(0.0, end - start, "")], start)
        if speech:
            self._flag(Flag("spoken-not-written", "", start, end))

    def recording(self, duration: float) -> AlignedRecording:
        self._left_out(len(self._text), duration)
        missing = sum(flag.kind == "written-not-spoken" for flag in self._flags)
        score = self._score / self._weight if self._weight else LOWEST
        return AlignedRecording(
            duration=duration,
            words=ended(self._words, duration),
            phones=ended(self._phones, duration),
            score=score,
            fits=score >= self._threshold and missing <= (1 - FOUND) * len(self._text),
            flags=self._flags,
        )

    def _left_out(self, until: int, time: float) -> None:
        """Flag the words before `first` that were in no piece."""
        for word in range(self._next, until):
            self._flag(Flag("written-not-spoken", self._text[word], time, time))
        self._next = max(self._next, until)

    def _flag(self, flag: Flag) -> None:
        last = self._flags[-1] if self._flags else None
        if last and last.kind == flag.kind == "spoken-not-written" and flag.start - last.end < 0.01:
            self._flags[-1] = last._replace(end=flag.end)
        else:
            self._flags.append(flag)


def extend(tier: list[AlignedInterval], piece: Iterable[AlignedInterval], start: float) -> None:
    """Append shifted intervals when joining pieces; a silence that continues across pieces stays one silence."""
    for interval in piece:
        begin, end = interval.start + start, interval.end + start
        if tier and not tier[-1].label and not interval.label:
            tier[-1] = AlignedInterval(tier[-1].start, end, "", min(tier[-1].confidence, interval.confidence))
        else:
            begin = tier[-1].end if tier else begin  # exactly the same time, to the last digit
            tier.append(AlignedInterval(begin, max(begin, end), interval.label, interval.confidence))


def ended(tier: list[AlignedInterval], duration: float) -> tuple[AlignedInterval, ...]:
    """Make intervals of joined pieces end where the recording ends; its last frame may be incomplete."""
    out = [interval for interval in tier if interval.start < duration]
    if out:
        last = out[-1]
        out[-1] = AlignedInterval(last.start, duration, last.label, last.confidence)
    return tuple(out)
