"""Tracking a long recording in its text, frame by frame: Viterbi search in a moving band with a fixed lag.

The states of the whole text form a sequence: silence, other speech, the phones of a word, silence, and so on. States
between words are optional; other speech, which is not in the text, has a cost; and from one silence the path may jump
to a later one, at a cost for the words that it skips. So a passage that is missing from the text or from the recording
has a fixed cost and does not shift everything after it.

Only states near the best one are tracked, and frames older than the lag are decided: paths that disagree with the
decision are dropped, so that the results are consistent. Memory is band × lag, whatever the length; time is linear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

from clock_attention.arrays import Float32Array

Integers = NDArray[np.int32]

SILENCE, OTHER = -1, -2  # between words
BEAM = 500.0  # nats below the best; worse paths never recover


@dataclass(frozen=True)
class Prices:
    """Costs in tracking, in nats, of deviations from the transcript."""

    aside: float = 30.0  # starting speech that is not in the text: more than a word that happens to fit would save
    unwritten: float = 1.0  # each frame of such speech, relative to the best phone's score
    jump: float = 25.0  # skipping words
    word: float = 2.0  # each word that is skipped


@dataclass(frozen=True)
class TextStates:
    """States for tracking a long text: emission class of each state, or SILENCE or OTHER, and its word or the next."""

    classes: Integers  # (S,)
    words: Integers  # (S,)

    @classmethod
    def of(cls, words: Sequence[Sequence[int]]) -> TextStates:
        """Build the states from the emission classes of each word."""
        classes, owners = [SILENCE, OTHER], [0, 0]
        for number, phones in enumerate(words):
            classes += [*phones, SILENCE, OTHER]
            owners += [number] * len(phones) + [number + 1] * 2
        return cls(np.array(classes, dtype=np.int32), np.array(owners, dtype=np.int32))

    def __len__(self) -> int:
        return len(self.classes)


class Follower:
    """Tracks a long recording in its text: takes emissions block by block and returns frames' states once decided.

    Args:
        silence: the class of silence in the emissions; all others are speech.
        band: number of states that are tracked at a time.
        lag: number of frames after which a frame's state is decided.
    """

    def __init__(
        self, states: TextStates, silence: int, *, band: int = 4000, lag: int = 4000, prices: Prices | None = None
    ) -> None:
        self.states, self.silence, self.lag = states, silence, lag
        self.band = min(band, len(states))
        self.prices = prices or Prices()
        self._scores = np.full(len(states), -np.inf, dtype=np.float32)
        self._scores[0] = 0.0  # before the first frame, where all paths start
        self._back = np.zeros((0, self.band), dtype=np.int16)  # back pointers of undecided frames
        self._lows = np.zeros(0, dtype=np.int32)  # first tracked state of each of these frames
        self.decided = 0

    def feed(self, emissions: Float32Array) -> Integers:
        """Add emissions (log-probabilities, (frames, classes)); returns the states of frames that are now decided."""
        back = np.empty((len(emissions), self.band), dtype=np.int16)
        lows = np.empty(len(emissions), dtype=np.int32)
        low = int(self._lows[-1]) if len(self._lows) else 0
        prices = self.prices
        _advance(
            np.ascontiguousarray(emissions, dtype=np.float32),
            self.states.classes,
            self.states.words,
            self.silence,
            (prices.aside, prices.unwritten, prices.jump, prices.word),
            low,
            self._scores,
            back,
            lows,
        )
        self._back = np.concatenate([self._back, back])
        self._lows = np.concatenate([self._lows, lows])
        return self._decide(len(self._lows) - self.lag)

    def _decide(self, frames: int) -> Integers:
        """Decide this many of the oldest undecided frames."""
        if frames <= 0:
            return np.zeros(0, dtype=np.int32)
        path = _trace(self._back, self._lows, int(np.argmax(self._scores)))
        at = path[frames - 1]
        low = int(self._lows[-1])
        _drop_others(self._back, self._lows, frames - 1, int(at), self._scores[low : low + self.band])
        self._back, self._lows = self._back[frames:].copy(), self._lows[frames:].copy()
        self.decided += frames
        return path[:frames]

    def finish(self) -> Integers:
        """States of all remaining frames; remaining words at the end of the text are skipped."""
        if not len(self._lows):
            return np.zeros(0, dtype=np.int32)
        prices, words = self.prices, self.states.words
        last = len(self.states) - 1
        ends = self._scores.copy()  # of paths that end in each state and skip the remaining words
        left_out = words[last] - words
        ends -= np.where(left_out > 0, prices.jump + prices.word * left_out, 0.0).astype(np.float32)
        inside = self.states.classes >= 0
        inside[:-1] &= self.states.classes[1:] >= 0  # not the last phone of a word
        ends[inside] -= 10 * prices.jump
        path = _trace(self._back, self._lows, int(np.argmax(ends)))
        self.decided += len(path)
        self._back, self._lows = self._back[:0], self._lows[:0]
        return path


@numba.njit(cache=True, nogil=True)
def _advance(emissions, classes, words, silence, prices, low, scores, back, lows):  # type: ignore[no-untyped-def]
    """Advance tracking by these frames: updates scores in place, fills in back pointers and each frame's band."""
    aside, unwritten, jump, per_word = prices
    states, band = len(classes), back.shape[1]
    for frame in range(len(emissions)):
        row = emissions[frame]
        speech = -np.inf
        for place in range(len(row)):
            if place != silence and row[place] > speech:
                speech = row[place]
        other = max(row[silence], speech) - unwritten
        high = low + band
        # In descending order, because a state needs its predecessors' scores from the previous frame.
        for state in range(high - 1, low - 1, -1):
            kind = classes[state]
            best, came = scores[state], 0
            price = aside if kind == OTHER else 0.0
            # The first phone of a word may follow other speech, silence, or the last phone of the previous word.
            reach = 2 if kind == OTHER else 3 if kind >= 0 and state > 0 and classes[state - 1] == OTHER else 1
            for step in range(1, min(reach, state - low) + 1):
                if scores[state - step] - price > best:
                    best, came = scores[state - step] - price, step
            back[frame, state - low] = came
            scores[state] = best + (row[kind] if kind >= 0 else row[silence] if kind == SILENCE else other)
        # Jumps, within the frame, to a later silence.
        source, carried = -1, -np.inf
        top, best = low, -np.inf
        for state in range(low, high):
            if classes[state] < 0:
                if source >= 0:
                    landing = carried - per_word * (words[state] - words[source])
                    if classes[state] == SILENCE and landing > scores[state] and words[state] > words[source]:
                        scores[state] = landing
                        back[frame, state - low] = source - state
                leaving = scores[state] - jump
                if source < 0 or leaving > carried - per_word * (words[state] - words[source]):
                    source, carried = state, leaving
            if scores[state] > best:
                top, best = state, scores[state]
        lows[frame] = low
        for state in range(low, high):  # keep numbers small
            scores[state] -= best
        # The best state stays in the first third of the band, because the text to track is ahead of it, not behind.
        moved = min(max(low, top - band // 3), states - band)
        scores[low:moved] = -np.inf
        low = moved


@numba.njit(cache=True, nogil=True)
def _trace(back, lows, state):  # type: ignore[no-untyped-def]
    """Backtrace of tracking: the state of each frame on the path that ends in `state`."""
    path = np.empty(len(back), dtype=np.int32)
    for frame in range(len(back) - 1, -1, -1):
        path[frame] = state
        came = back[frame, state - lows[frame]]  # number of states back; negative: a jump within the frame
        if came < 0:  # a jump continues from the state that it left
            state += came
            came = back[frame, state - lows[frame]]
        state -= came
    return path


@numba.njit(cache=True, nogil=True)
def _drop_others(back, lows, decided, at, scores):  # type: ignore[no-untyped-def]
    """Drop tracked states of the last frame whose path is not in state `at` at frame `decided`."""
    low = lows[len(lows) - 1]
    for place in range(len(scores)):
        if scores[place] < -BEAM:
            scores[place] = -np.inf
            continue
        state = low + place
        for frame in range(len(back) - 1, decided, -1):
            came = back[frame, state - lows[frame]]
            if came < 0:
                state += came
                came = back[frame, state - lows[frame]]
            state -= came
        if state != at:
            scores[place] = -np.inf


def runs(path: Integers) -> Iterator[tuple[int, int, int]]:
    """Runs of equal states in tracking: (state, first frame, one past the last frame)."""
    edges = np.flatnonzero(np.diff(path)) + 1
    for start, end in zip([0, *edges], [*edges, len(path)], strict=True):
        if end > start:
            yield int(path[start]), int(start), int(end)
