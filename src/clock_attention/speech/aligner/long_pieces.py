"""Cuts a long recording into pieces, in silences between words that have been located."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clock_attention.speech.aligner.long_tracking import TextStates, runs

# In steps of 10 ms.
SHORTEST, GOOD, LONGEST = 300, 800, 2500  # lengths of pieces: preferred minimum, sufficient, maximum
PAUSE = 30  # silence long enough for a good cut
UNWRITTEN = 200  # speech between two words that becomes a separate piece
MARGIN = 15  # part of the gap between two words that stays with each of them
LEFT_OUT = 3  # skipped words in a row that the alignment of a piece tries again; longer runs are skipped for good

Path = NDArray[np.int32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Piece:
    """A piece of a long recording: steps `start` … `end` with words `first` … `stop`−1, or other speech."""

    start: int
    end: int
    first: int
    stop: int
    speech: bool = True


@dataclass(frozen=True)
class Gap:
    """A gap between two words of a long recording: its steps, and the best position to cut into pieces."""

    start: int
    end: int
    before: int  # the word that ends here
    after: int  # the word that starts here
    place: int
    silence: int  # steps of silence around that position
    speech: int  # steps of anything else

    @property
    def is_hole(self) -> bool:
        """Whether so much text or speech is unmatched that the gap is kept out of the surrounding pieces."""
        return self.speech >= UNWRITTEN or self.after - self.before - 1 > LEFT_OUT


def gaps(path: Path, silent: Mask, states: TextStates, before: int) -> tuple[list[Gap], int]:
    """Gaps where a long recording can be cut, before each word that starts in `path`; and where the last word ends."""
    found: list[Gap] = []
    ended = 0
    for state, start, end in runs(path):
        if states.classes[state] < 0:
            continue
        word = int(states.words[state])
        if word != before:
            found.append(gap(silent, ended, start, before, word))
            before = word
        ended = end
    return found, ended


def gap(silent: Mask, start: int, end: int, before: int, after: int) -> Gap:
    """One gap between words of a long recording, cut in the middle of its longest silence."""
    place, longest = start, 0
    for quiet, first, stop in runs(silent[start:end].astype(np.int32)):
        if quiet and stop - first > longest:
            place, longest = start + (first + stop) // 2, stop - first
    return Gap(start, end, before, after, place, longest, int((~silent[start:end]).sum()))


class Cutter:
    """Cuts a long recording: takes decided states in order and returns pieces as soon as their ends are known."""

    def __init__(self, states: TextStates) -> None:
        self.states = states
        self._path: Path = np.zeros(0, dtype=np.int32)  # states of the steps that are not in a piece yet
        self._silent: Mask = np.zeros(0, dtype=bool)
        self._start = 0  # the first of these steps
        self._first = 0  # the first word that is not in a piece yet

    def cut(self, path: Path, silent: Mask) -> Iterator[Piece]:
        """Add steps and yield completed pieces; `silent` says for each step whether silence fits better than speech."""
        self._path = np.concatenate([self._path, path])
        self._silent = np.concatenate([self._silent, silent])
        while len(self._path) and (pieces := self._next()):
            yield from pieces

    def finish(self) -> Iterator[Piece]:
        """Yield the rest; if many words follow the last one found, they are in no piece."""
        yield from self.cut(self._path[:0], self._silent[:0])
        found, _ = gaps(self._path, self._silent, self.states, self._first - 1)
        words = int(self.states.words[-1])
        stop = found[-1].after + 1 if found else self._first
        if words - stop <= LEFT_OUT:
            stop = words
        if len(self._path):
            yield self._take(len(self._path), stop, stop)

    def _next(self) -> list[Piece]:
        """The next piece or two, or none if more steps are needed first."""
        found, ended = gaps(self._path, self._silent, self.states, self._first - 1)
        best = None
        for between in found:
            if between.is_hole:
                return self._around(between)
            if between.place >= SHORTEST:
                if between.silence >= PAUSE and between.place >= GOOD:
                    return [self._take(between.place, between.before + 1, between.before + 1)]
                if best is None or between.silence > best.silence:
                    best = between
        known = len(self._path)
        if known <= LONGEST:
            return []
        if best is not None:
            return [self._take(best.place, best.before + 1, best.before + 1)]
        if not found and ended == 0:  # no word for a long time: nothing to align
            return [self._take(known - MARGIN, self._first, self._first)]
        if known - ended > LONGEST // 2:  # also after the last word
            last = found[-1].after if found else self._first - 1
            return [self._take(ended + MARGIN, last + 1, last + 1)]
        return []

    def _around(self, hole: Gap) -> list[Piece]:
        """The piece before a hole, and the hole; the next piece starts with the words after it."""
        again = hole.after if hole.after - hole.before - 1 > LEFT_OUT else hole.before + 1
        margin = min(MARGIN, (hole.end - hole.start) // 3)
        pieces = []
        if hole.before + 1 > self._first:
            pieces.append(self._take(hole.start + margin, hole.before + 1, hole.before + 1))
        end = hole.end - margin - (pieces[0].end - pieces[0].start if pieces else 0)
        if end > 0:
            pieces.append(self._take(end, hole.before + 1, again))
        self._first = again
        return pieces

    def _take(self, steps: int, stop: int, following: int) -> Piece:
        """Take a piece with the words up to `stop`; the next one starts with word `following`."""
        speech = int((~self._silent[:steps]).sum()) >= UNWRITTEN
        piece = Piece(self._start, self._start + steps, min(self._first, stop), stop, speech)
        self._path, self._silent = self._path[steps:], self._silent[steps:]
        self._start, self._first = self._start + steps, following
        return piece
