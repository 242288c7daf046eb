"""Phrases: sentences cut into pieces that a model speaks in one go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clock_attention.speech.text.phonemes import NO_WORD, PAUSES, WORD_BOUNDARY, Phonemes

# Of the longest utterances in training, decoded in parallel. Prompts of 49 to 64 phonemes, where 64 was the longest:
# trained with plain L1, 13.0 % word error [9.0, 17.3] in one piece, 6.2 % [3.3, 9.6] in two; with `warped_share`, 3.1 %
# both ways, but one "a" of the hard list (of 799 words) was given a single frame in one piece, and none in two.
PHRASE_SHARE = 0.75
LONGEST_PHRASE = 110  # phonemes, where a voice does not say how long the utterances were that it has learned from
LONGEST_ALIGNED = 220  # phonemes of a voice that was trained along alignments, which do not blur with length
PHRASE_PAUSE = 0.1  # seconds after punctuation at which a very long sentence had to be cut
# What it costs to cut a sentence after these, in shares of a phrase's length.
CUT_COST = {".": 0.0, "!": 0.0, "?": 0.0, ",": 0.1, WORD_BOUNDARY: 1.0}


@dataclass(frozen=True)
class EncodedPhrase:
    """A phrase as a model encodes it, with its natural length: made once, for planning and for synthesis."""

    frames: int  # at natural pace
    state: Any  # the model's own
    durations: NDArray[Any] | None = None  # frames of the silence before, every token and the silence after (T + 2,)
    optional: NDArray[np.bool_] | None = None  # which of them may take no frames


@dataclass
class Phrase:
    """A phrase: tokens start … stop of a sentence, spoken in one go; then `pause` seconds at natural pace."""

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
