"""Phrases: cuts sentences into parts that a model speaks at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clock_attention.speech.text.phonemes import NO_WORD, PAUSES, WORD_BOUNDARY, Phonemes

# Share of the longest training utterance, in parallel decoding. Prompts of 49 to 64 phonemes, where 64 was the longest:
# trained with plain L1, 13.0 % word error [9.0, 17.3] in one piece, 6.2 % [3.3, 9.6] in two; with `warped_share`, 3.1 %
# both ways, but one "a" of the hard list (of 799 words) was given a single frame in one piece, and none in two.
PHRASE_SHARE = 0.75
LONGEST_PHRASE = 110  # phonemes, for a voice that does not say how long its training utterances were
LONGEST_ALIGNED = 220  # phonemes, for a voice trained along alignments, which do not blur with length
PHRASE_PAUSE = 0.1  # seconds after punctuation at which a very long sentence was cut
# Cost of cutting a sentence after these, as a fraction of a phrase's length.
CUT_COST = {".": 0.0, "!": 0.0, "?": 0.0, ",": 0.1, WORD_BOUNDARY: 1.0}


@dataclass(frozen=True)
class EncodedPhrase:
    """A phrase encoded by a model, with its natural length; computed once for both planning and synthesis."""

    frames: int  # at natural pace
    state: Any  # specific to the model
    durations: NDArray[Any] | None = None  # frames of the silence before, every token and the silence after (T + 2,)
    optional: NDArray[np.bool_] | None = None  # which of these may take no frames


@dataclass
class Phrase:
    """A phrase: tokens start … stop of a sentence, spoken at once, then `pause` seconds at natural pace."""

    phonemes: Phonemes
    start: int
    stop: int
    pause: float
    encoded: EncodedPhrase | None = field(default=None, compare=False, repr=False)  # set if planning needed its length


def cut_phrases(phonemes: Phonemes, pause: float, longest: int) -> list[Phrase]:
    """Cut a sentence into phrases of at most `longest` tokens and about equal length, the last with a `pause`.

    It cuts after punctuation if possible, otherwise between words, otherwise anywhere. A word boundary at a cut or at
    the end belongs to no phrase, because no training utterance ends with one.
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
    """Best length of the first phrase of a sentence: near an equal share, preferably ending after punctuation."""
    aim = len(tokens) / -(-len(tokens) // longest)

    def cost(length: int) -> float:
        return CUT_COST.get(tokens[length - 1], 5.0) + abs(length / aim - 1)

    return min(range(2, longest + 1), key=cost)


def part(phonemes: Phonemes, start: int, stop: int) -> Phonemes:
    """The phonemes of a phrase: tokens start … stop with their words, renumbered from 0."""
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
