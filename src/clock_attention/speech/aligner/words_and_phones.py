"""Words and phones with their times, from the positions that the aligner found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clock_attention.speech.aligner.positions import UnitPlaces
from clock_attention.speech.aligner.results import AlignedInterval, Flag, TokenTimes
from clock_attention.speech.aligner.transcript import OTHER, Transcript


def interval(found: UnitPlaces, edges: NDArray[np.float64], first: int, last: int, label: str) -> AlignedInterval:
    """Interval of a word or phone, from the start of one present unit to the end of another."""
    confidence = float(min(found.confidence[first], found.confidence[last + 1]))
    return AlignedInterval(edges[first], edges[last + 1], label, confidence)


def grouped(
    found: UnitPlaces, edges: NDArray[np.float64], keys: Sequence[object], labels: Sequence[str]
) -> tuple[AlignedInterval, ...]:
    """Group adjacent units with equal keys into intervals of words or phones; those without duration are left out."""
    out: list[AlignedInterval] = []
    begin = 0
    for place in range(1, len(keys) + 1):
        if place == len(keys) or keys[place] != keys[begin]:
            if edges[place] > edges[begin]:
                out.append(interval(found, edges, begin, place - 1, labels[begin]))
            begin = place
    return tuple(out)


def words_of(found: UnitPlaces, edges: NDArray[np.float64], script: Transcript) -> tuple[AlignedInterval, ...]:
    """The words that the aligner found, with their times."""
    keys = [int(script.word[unit]) for unit in found.units]
    return grouped(found, edges, keys, [script.phonemes.words[key] if key >= 0 else "" for key in keys])


def phones_of(found: UnitPlaces, edges: NDArray[np.float64], script: Transcript) -> tuple[AlignedInterval, ...]:
    """The phones that the aligner found, with their times."""
    keys = [int(unit) if script.is_phone(unit) else -1 for unit in found.units]
    labels = [
        script.phonemes.tokens[script.token[unit]] if key >= 0 else ""
        for key, unit in zip(keys, found.units, strict=True)
    ]
    return grouped(found, edges, keys, labels)


def flags_of(found: UnitPlaces, edges: NDArray[np.float64], script: Transcript) -> list[Flag]:
    """Flags for words that were left out and speech that was added, from the positions that the aligner found."""
    flags: list[Flag] = []
    for place, unit in enumerate(found.units):
        if script.kind[unit] == OTHER:
            flags.append(Flag("spoken-not-written", "", float(edges[place]), float(edges[place + 1])))
    spoken = set(script.word[found.units].tolist())
    for word, text in enumerate(script.phonemes.words):
        if word not in spoken:
            after = int(np.searchsorted(found.units, np.flatnonzero(script.word == word)[0]))
            flags.append(Flag("written-not-spoken", text, float(edges[after]), float(edges[after])))
    return sorted(flags, key=lambda flag: flag.start)


def token_posterior(posterior: NDArray[np.float32], script: Transcript) -> NDArray[np.float32]:
    """Probability of each phoneme token at each frame (frames, tokens); the remainder is silence around the text."""
    out = np.zeros((len(posterior), len(script.phonemes)), np.float32)
    for state, unit in enumerate(script.graph.unit):
        if script.token[unit] >= 0:
            out[:, script.token[unit]] += posterior[:, state]
    return out


def token_times(found: UnitPlaces, edges: NDArray[np.float64], script: Transcript, fits: bool) -> TokenTimes:
    """Start and end of every phoneme token, from the positions that the aligner found."""
    count = len(script.phonemes)
    starts, ends, confidence = np.full(count, np.nan), np.full(count, np.nan), np.ones(count)
    for place, unit in enumerate(found.units):
        if (token := script.token[unit]) >= 0:
            starts[token], ends[token] = edges[place], edges[place + 1]
            confidence[token] = min(found.confidence[place], found.confidence[place + 1])
    reached = float(edges[1]) if script.token[found.units[0]] < 0 else 0.0
    leading = reached
    for token in range(count):  # tokens without duration lie at the end of the previous one
        if np.isnan(starts[token]):
            starts[token] = ends[token] = reached
        reached = float(ends[token])
    return TokenTimes(starts, ends, confidence, leading, float(edges[-1]) - reached, found.score, fits)
