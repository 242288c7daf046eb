"""Pace and duration: validation, exact distribution of frames, sentences cut into phrases.

All lengths are whole mel frames, so that a requested duration is met exactly.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clock_attention.speech.text.phonemes import NO_WORD, PAUSES, WORD_BOUNDARY, Phonemes

SLOWEST, FASTEST = 0.5, 2.0  # pace: 2 is twice as fast
# Fewest and most frames per phoneme: below one it cannot sound; no corpus has the highest value.
FEWEST_FRAMES, MOST_FRAMES = 1, 50
# Of the longest utterances in training, decoded in parallel. Prompts of 49 to 64 phonemes, where 64 was the longest:
# trained with plain L1, 13.0 % word error [9.0, 17.3] in one piece, 6.2 % [3.3, 9.6] in two; with `warped_share`, 3.1 %
# both ways, but one "a" of the hard list (of 799 words) was given a single frame in one piece, and none in two.
PHRASE_SHARE = 0.75
LONGEST_PHRASE = 110  # phonemes, where a voice does not say how long the utterances were that it has learned from
LONGEST_ALIGNED = 220  # phonemes of a voice that was trained along alignments, which do not blur with length
PAUSE = 0.45  # seconds between sentences at natural pace, beside the short silences that a phrase ends with
PARAGRAPH = 2.5  # pauses between paragraphs, in those between sentences
PHRASE_PAUSE = 0.1  # seconds after punctuation at which a very long sentence had to be cut
# What it costs to cut a sentence after these, in shares of a phrase's length.
CUT_COST = {".": 0.0, "!": 0.0, "?": 0.0, ",": 0.1, WORD_BOUNDARY: 1.0}
RE_DURATION = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*(ms|s|)\s*")


@dataclass(frozen=True)
class Pacing:
    """Pacing of a request, at most one of three: relative pace, frames per phoneme, or the duration in seconds."""

    pace: float | None = None
    mpr: float | None = None
    duration: float | None = None

    @classmethod
    def of(cls, pace: float | None, mpr: float | None, duration: float | str | None) -> Pacing:
        given = [name for name, value in (("pace", pace), ("mpr", mpr), ("duration", duration)) if value is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} were given together; each of them sets the length: choose one")
        if pace is not None and not SLOWEST <= pace <= FASTEST:
            raise ValueError(
                f"pace: got {pace:g}, expected {SLOWEST:g} … {FASTEST:g} times natural speed (2 is twice as fast); "
                "mpr and duration go further"
            )
        if mpr is not None and not FEWEST_FRAMES <= mpr <= MOST_FRAMES:
            raise ValueError(
                f"mpr: got {mpr:g}, expected {FEWEST_FRAMES} … {MOST_FRAMES} mel frames per phoneme (natural speech "
                "has about 6)"
            )
        return cls(pace, mpr, None if duration is None else parse_duration(duration))

    def speed(self, natural_mpr: float) -> float:
        """How many times as fast as natural; what pauses are divided by."""
        return natural_mpr / self.mpr if self.mpr is not None else self.pace or 1.0


def parse_duration(duration: float | str) -> float:
    """A duration: seconds of 3.2, "3.2", "3.2s" or "3200ms"."""
    match = RE_DURATION.fullmatch(duration if isinstance(duration, str) else repr(float(duration)))
    seconds = float(match[1]) / (1000 if match[2] == "ms" else 1) if match else math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"duration: got {duration!r}, expected a positive time such as 3.2, 3.2s or 3200ms")
    return seconds


def share(total: int, weights: Sequence[int]) -> list[int]:
    """Pacing in whole numbers: in proportion to the weights, with exactly this total."""
    whole, reached, given, shares = sum(weights), 0, 0, []
    for weight in weights:
        reached += weight
        end = (2 * total * reached + whole) // (2 * whole)  # rounded, without a float in between
        shares.append(end - given)
        given = end
    return shares


def share_frames(total: int, natural: Sequence[int], fewest: Sequence[int]) -> list[int]:
    """Pacing in frames: of each part (speech or pause) of a whole that lasts exactly `total`.

    Longer than natural, every part is stretched alike. Shorter, each gives up the same share of what lies above
    its minimum, so that pauses, whose minimum is 0, shrink a little faster than speech and nothing disappears.
    """
    natural = [max(frames, least) for frames, least in zip(natural, fewest, strict=True)]
    if total < sum(fewest):
        raise ValueError(f"got {total} frames, expected at least {sum(fewest)}")
    if total >= sum(natural):
        return share(total, natural)
    spare = [frames - least for frames, least in zip(natural, fewest, strict=True)]
    extra = share(total - sum(fewest), spare)
    return [least + more for least, more in zip(fewest, extra, strict=True)]


def check_duration(seconds: float, frames: int, phonemes: int, natural: int, frame_seconds: float) -> None:
    """Refuse durations that are too short or too long for the text."""
    fewest, most = FEWEST_FRAMES * phonemes, MOST_FRAMES * phonemes
    if not fewest <= frames <= most:
        raise ValueError(
            f"duration: got {seconds:g} s, expected {fewest * frame_seconds:.2f} … {most * frame_seconds:.1f} s for "
            f"this text ({phonemes} phonemes, {FEWEST_FRAMES} … {MOST_FRAMES} frames each); its natural duration is "
            f"{natural * frame_seconds:.2f} s"
        )


@dataclass(frozen=True)
class EncodedPhrase:
    """A phrase as a model encodes it, with its natural length: made once, for pacing and for synthesis."""

    frames: int  # at natural pace
    state: Any  # the model's own
    durations: NDArray[Any] | None = None  # frames of the silence before, every token and the silence after (T + 2,)
    optional: NDArray[np.bool_] | None = None  # which of them may take no frames


@dataclass
class Phrase:
    """A phrase to be paced: tokens start … stop of a sentence, in one go; then `pause` seconds at natural pace."""

    phonemes: Phonemes
    start: int
    stop: int
    pause: float
    encoded: EncodedPhrase | None = field(default=None, compare=False, repr=False)  # where planning needed its length


def cut_phrases(phonemes: Phonemes, pause: float, longest: int) -> list[Phrase]:
    """Cut a sentence into phrases of at most `longest` tokens and about equal length, the last with a `pause`.

    Cut after punctuation where possible, else between words, else anywhere. A word boundary at a cut or at the
    end belongs to no phrase, because no training utterance ends with one.
    """
    phrases, start = [], 0
    while len(phonemes) - start > longest:
        stop = start + best_cut(phonemes.tokens[start:], longest)
        boundary = phonemes.tokens[stop - 1]
        within = stop - 1 if boundary == WORD_BOUNDARY else stop
        short = PHRASE_PAUSE if boundary in PAUSES else 0.0
        phrases.append(Phrase(part(phonemes, start, within), start, within, short))
        start = stop
    stop = len(phonemes) - (phonemes.tokens[-1] == WORD_BOUNDARY)
    return [*phrases, Phrase(part(phonemes, start, stop), start, stop, pause)]


def best_cut(tokens: Sequence[str], longest: int) -> int:
    """Cutting into phrases: length of the first, near an equal share of all, preferably after punctuation."""
    aim = len(tokens) / -(-len(tokens) // longest)

    def cost(length: int) -> float:
        return CUT_COST.get(tokens[length - 1], 5.0) + abs(length / aim - 1)

    return min(range(2, longest + 1), key=cost)


def part(phonemes: Phonemes, start: int, stop: int) -> Phonemes:
    """The phonemes of a phrase: tokens start … stop with their words, counted from 0 again."""
    if (start, stop) == (0, len(phonemes)):
        return phonemes
    index = phonemes.word_index[start:stop]
    words = sorted({word for word in index if word != NO_WORD})
    place = {word: number for number, word in enumerate(words)}
    return Phonemes(
        phonemes.tokens[start:stop],
        tuple(place.get(word, NO_WORD) for word in index),
        tuple(phonemes.words[word] for word in words),
    )
