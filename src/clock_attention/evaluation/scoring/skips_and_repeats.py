"""Skipped and repeated words, from the alignment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clock_attention.alignment import FloatArray, IntArray, measure_quality
from clock_attention.speech.text.phonemes import NO_WORD, WORD_BOUNDARY, Phonemes

# Measures that are summed over a list of sentences; all others are averaged.
COUNTED = (
    *("word_skips", "word_skips_in_mean", "words_under_a_step", "word_repeats", "skipped", "repeated"),
    *("expected_violations", "argmax_violations", "hit_ceiling", "words", "keys", "queries"),
)


def measure_alignment(matrix: FloatArray, phonemes: Phonemes, heads: FloatArray | None = None) -> dict[str, float]:
    """Alignment measures of one utterance (steps, tokens), including its skipped and repeated words.

    A word is skipped if none of its phonemes is ever the most attended token in any of the `heads` (heads, steps,
    tokens), since a model reads with all of them. In `matrix`, their mean, a word of one phoneme, such as "a", can stay
    below its neighbours although it is read; `word_skips_in_mean` counts these too. Repeats are counted in the mean.

    Pauses, word boundaries and the end token of an autoregressive source need not be attended to.
    """
    spoken = [
        word != NO_WORD and token != WORD_BOUNDARY
        for token, word in zip(phonemes.tokens, phonemes.word_index, strict=True)
    ]
    extra = matrix.shape[1] - len(phonemes)
    required = np.array([*spoken, *[False] * extra])
    measures: dict[str, float] = {
        name: value if name in COUNTED else round(float(value), 6)
        for name, value in measure_quality(matrix, required).as_dict().items()
    }
    words = [word if says else NO_WORD for word, says in zip(phonemes.word_index, spoken, strict=True)]
    words += [NO_WORD] * extra
    skips, repeats = word_faults([words[token] for token in visits(matrix)], len(phonemes.words))
    read = {words[token] for head in (matrix[None] if heads is None else heads) for token in visits(head)}
    return {
        **measures,
        "words": len(phonemes.words),
        "word_skips": len(phonemes.words) - len(read - {NO_WORD}),
        "word_skips_in_mean": skips,
        "word_repeats": repeats,
    }


def words_under_a_step(phonemes: Phonemes, durations: IntArray, frames_per_step: int) -> int:
    """Number of words with less time in the alignment (frames of each token) than one decoder step: skipped in time."""
    spoken = [place for place, word in enumerate(phonemes.word_index) if word != NO_WORD]
    frames = np.bincount(np.array(phonemes.word_index)[spoken], durations[spoken], minlength=len(phonemes.words))
    return int((frames < frames_per_step).sum())


def visits(matrix: FloatArray) -> IntArray:
    """The most attended token at each step, for counting skips and repeats; empty rows are left out."""
    return matrix.argmax(1)[matrix.sum(1) > 0]


def word_faults(visited: Sequence[int], words: int) -> tuple[int, int]:
    """Counts (skips, repeats) of a path over word indices, −1 between words.

    A word is skipped if none of its phonemes is ever the most attended token, and repeated if the path returns to it
    from another word.
    """
    path = [word for word in visited if word != NO_WORD]
    arrivals = [word for place, word in enumerate(path) if place == 0 or path[place - 1] != word]
    counts = np.bincount(np.array(arrivals, dtype=np.int64), minlength=words)
    return int((counts == 0).sum()), int((counts > 1).sum())


def pooled_measures(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Skips and repeats summed, other alignment measures averaged, over the sentences that have an alignment."""
    aligned = [row for row in rows if row]
    if not aligned:
        return {}
    names = [name for name in aligned[0] if all(name in row for row in aligned)]
    pooled = {name: float(np.sum([row[name] for row in aligned])) for name in names if name in COUNTED}
    return pooled | {name: float(np.mean([row[name] for row in aligned])) for name in names if name not in COUNTED}
