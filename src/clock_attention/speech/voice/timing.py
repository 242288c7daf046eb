"""Timing of every phoneme, silence and pause in whole frames: words, stretches and breaks are exact, the rest adapts.

A text is one row of entries: for each phrase the silence before it, its tokens, the silence after it, and the pause.
Words and the gaps between them are runs of entries, so every request is "these entries together last n frames".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from clock_attention.arrays import FloatArray, IntArray
from clock_attention.speech.text.controls import Controls, Prosody
from clock_attention.speech.text.phonemes import NO_WORD

LEAD = 3  # frames of a gap between sentences that belong to the later one, as in a voice's natural speech
TINY = 1e-6  # replaces natural durations of 0, so that a word boundary can fill its gap if it must last


@dataclass(frozen=True)
class PhraseTiming:
    """Natural timing of a phrase: frames of silence before, tokens, silence after."""

    natural: FloatArray  # (T + 2,)
    least: IntArray  # 1 for phonemes, 0 for entries that may take no frames (T + 2,)
    words: tuple[int, ...]  # the number of each token's word in the whole text, −1 for boundaries (T,)
    pause: float  # natural frames after it


@dataclass(frozen=True)
class Fixed:
    """A fixed timing: entries start … stop last `frames` together."""

    start: int
    stop: int
    frames: int
    what: str  # description for error messages


@dataclass
class TimingRow:
    """The timing of one or more sentences: a row of entries."""

    sentences: Sequence[Sequence[PhraseTiming]]
    frame_seconds: float
    natural: FloatArray = field(init=False)
    least: IntArray = field(init=False)
    owner: IntArray = field(init=False)  # word of each entry, −1 for silences
    ends: list[int] = field(init=False)  # one past the last entry of each sentence
    words: dict[int, tuple[int, int]] = field(init=False)  # first and one past the last entry of each word
    numbers: list[int] = field(init=False)  # of the words, in order

    def __post_init__(self) -> None:
        phrases = [phrase for sentence in self.sentences for phrase in sentence]
        none = np.array([NO_WORD])
        self.natural = np.concatenate([np.append(phrase.natural, phrase.pause) for phrase in phrases])
        self.least = np.concatenate([np.append(phrase.least, 0) for phrase in phrases]).astype(np.int64)
        self.owner = np.concatenate([np.concatenate([none, phrase.words, none, none]) for phrase in phrases])
        sizes = [sum(len(phrase.natural) + 1 for phrase in sentence) for sentence in self.sentences]
        self.ends = np.cumsum(sizes).tolist()
        self.words = {}
        for entry in np.flatnonzero(self.owner != NO_WORD).tolist():
            word = int(self.owner[entry])
            self.words[word] = (self.words.get(word, (entry,))[0], entry + 1)
        self.numbers = sorted(self.words)

    def frames(self, seconds: float) -> int:
        return int(np.floor(seconds / self.frame_seconds + 0.5))

    def natural_total(self, pace: float) -> int:
        """Total frames if no single words are controlled."""
        phrases = [phrase for sentence in self.sentences for phrase in sentence]
        return sum(round(float(phrase.natural.sum()) / pace) + round(phrase.pause / pace) for phrase in phrases)

    def gaps(self, word: int) -> list[tuple[int, int]]:
        """Entries between a word and the one before it: one run, or two if a sentence ends between them.

        Before the first word and after the last one, they are the entries at the edge of the row.
        """
        following = bisect_left(self.numbers, word)
        before = self.words[self.numbers[following - 1]][1] if following else 0
        after = self.words[self.numbers[following]][0] if following < len(self.numbers) else len(self.natural)
        place = bisect_left(self.ends, before)
        edge = self.ends[place] if place < len(self.ends) and self.ends[place] <= after else None
        if edge is None or edge in (0, len(self.natural)):
            return [(before, after)]
        return [(before, edge), (edge, after)]

    def silence(self, word: int, frames: int, what: str, *, opens: bool = True, closes: bool = True) -> list[Fixed]:
        """Fix the gap before a word to this many frames.

        If it crosses the end of a sentence, the later one takes `LEAD` frames of it. `opens` and `closes` say whether
        the row starts and ends the text: if not, a gap at its edge is shared with the neighbour in the same way.
        """
        runs = self.gaps(word)
        lead = min(LEAD, frames)
        if len(runs) == 2:
            return [Fixed(*runs[0], frames - lead, what), Fixed(*runs[1], lead, what)]
        (start, stop) = runs[0]
        if start == 0 and not opens:
            frames = lead
        elif stop == len(self.natural) and not closes:
            frames = frames - lead
        return [Fixed(start, stop, frames, what)]


def requests(row: TimingRow, controls: Controls, *, opens: bool = True, closes: bool = True) -> list[Fixed]:
    """Fixed timings of a row: its breaks and stretches."""
    fixed: list[Fixed] = []
    for word, seconds in controls.breaks.items():
        fixed += row.silence(word, row.frames(seconds), f"break of {seconds:g} s", opens=opens, closes=closes)
    for stretch in controls.stretches:
        spoken = [row.words[word] for word in range(stretch.first, stretch.stop) if word in row.words]
        if not spoken:
            raise ValueError(f"duration of {stretch.seconds:g} s: there is nothing to say in it")
        count = stretch.stop - stretch.first
        what = f"duration of {stretch.seconds:g} s for {'word' if count == 1 else 'words'} {stretch.first}"
        if count > 1:
            what += f" … {stretch.stop - 1}"
        fixed.append(Fixed(spoken[0][0], spoken[-1][1], row.frames(stretch.seconds), what))
    return fixed


def paced(row: TimingRow, controls: Mapping[int, Prosody], pace: float) -> FloatArray:
    """Timing at a pace: natural frames, divided by the pace and those of single words."""
    factor = np.full(len(row.natural), pace)
    for word, prosody in controls.items():
        if word in row.words:
            start, stop = row.words[word]
            factor[start:stop] *= prosody.pace
    return row.natural / factor


def solve(row: TimingRow, wanted: FloatArray, fixed: Sequence[Fixed], total: int | None) -> IntArray:
    """Solve the timing in whole frames: fixed entries exactly, others as wanted or as the total allows."""
    durations = np.zeros(len(wanted), np.int64)
    free = np.ones(len(wanted), bool)
    for request in sorted(fixed, key=lambda request: request.stop - request.start):  # inner ones first
        inside = slice(request.start, request.stop)
        left = request.frames - int(durations[inside].sum())
        mine = np.flatnonzero(free[inside]) + request.start
        durations[mine] = fit(wanted[mine], row.least[mine], left, request.what, row.frame_seconds)
        free[inside] = False
    rest = np.flatnonzero(free)
    if total is None:
        left = max(int(np.floor(wanted[rest].sum() + 0.5)), int(row.least[rest].sum()))
    else:
        left = total - int(durations.sum())
    durations[rest] = fit(wanted[rest], row.least[rest], left, "what is left of the text", row.frame_seconds)
    return durations


def fit(wanted: FloatArray, least: IntArray, frames: int, what: str, frame_seconds: float) -> IntArray:
    """Fit timing to whole frames that sum to `frames` exactly, in proportion to the wanted ones.

    If there are fewer than wanted, each entry gives up the same share above its minimum, so no phoneme disappears.
    """
    fewest = int(least.sum())
    if frames < fewest or (not len(wanted) and frames):
        if not len(wanted) and frames > 0:
            raise ValueError(f"{what}: the durations inside are {frames * frame_seconds:.3f} s shorter; leave one open")
        raise ValueError(
            f"{what}: {max(frames, 0)} frames are left for {fewest} phonemes, expected at least one each "
            f"({fewest * frame_seconds:.3f} s, with the fixed durations inside)"
        )
    if not len(wanted):
        return np.zeros(0, np.int64)
    natural = np.maximum(wanted, least) + TINY
    whole = float(natural.sum())
    if frames >= whole:
        share = natural * (frames / whole)
    else:
        share = least + (natural - least) * ((frames - fewest) / (whole - fewest))
    ends = np.floor(np.cumsum(share) + 0.5 - 1e-9).astype(np.int64)
    ends = np.minimum(ends, frames)
    ends[-1] = frames
    return np.diff(ends, prepend=0)


def edges(starts: NDArray[np.int64], ends: NDArray[np.int64], least: IntArray, total: int) -> tuple[IntArray, IntArray]:
    """Timing edges: starts and ends in frames, in order, moved as little as the units' minimums require.  (N,)"""
    starts, ends = starts.copy(), ends.copy()
    reached = 0
    for unit in range(len(starts)):
        starts[unit] = max(starts[unit], reached)
        ends[unit] = reached = max(ends[unit], starts[unit] + least[unit])
    reached = total
    for unit in reversed(range(len(starts))):
        ends[unit] = min(ends[unit], reached)
        starts[unit] = reached = min(starts[unit], ends[unit] - least[unit])
    return starts, ends


def split(row: TimingRow, durations: IntArray) -> list[list[tuple[IntArray, int]]]:
    """Split timing by sentence and phrase: frames of tokens with enclosing silences (T + 2,), and of the pause."""
    found, reached = [], 0
    for sentence in row.sentences:
        phrases = []
        for phrase in sentence:
            size = len(phrase.natural)
            phrases.append((durations[reached : reached + size], int(durations[reached + size])))
            reached += size + 1
        found.append(phrases)
    return found
