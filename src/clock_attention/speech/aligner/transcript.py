"""A text as a graph of units: its sounds, optional silences between words, and what may be missing or added."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clock_attention.speech.aligner.emissions import OTHER_COLUMN
from clock_attention.speech.aligner.phone_classes import VOWELS, Sound, is_boundary, sounds
from clock_attention.speech.aligner.search_graph import SearchGraph, Unit, build
from clock_attention.speech.text.phonemes import NO_WORD, Phonemes

PHONE, PAUSE, OTHER = 0, 1, 2
SILENCE_COLUMN = 0
SILENCE_ENTRY = 1.0
OTHER_ENTRY = 50.0
SKIPPED_WORD = 45.0
# Sounds that readers may leave out: "(h)is", "an(d)", "sudd(e)n".
OMITTED = {"h": 12.0, "t": 12.0, "d": 12.0, "ə": 12.0}
SHORTEST_VOWEL_HALF, SHORTEST_HALF = 3, 2  # frames: no vowel is shorter than 30 ms, no other sound than 20 ms


@dataclass(frozen=True)
class Transcript:
    """The graph of a text, with the kind, token and word of each of its units."""

    phonemes: Phonemes
    graph: SearchGraph
    kind: NDArray[np.int8]  # (units,)
    token: NDArray[np.int64]  # (units,) −1 if it is none
    word: NDArray[np.int64]  # (units,) −1 between words
    clock: NDArray[np.float32]  # (tokens,) sounds counted up to and including each token
    readings: NDArray[np.float32]  # (states,) the same in the middle of every state of the graph

    def is_phone(self, unit: int) -> bool:
        return bool(self.kind[unit] == PHONE)


def transcript(phonemes: Phonemes, *, tolerant: bool) -> Transcript:
    """Build the graph of a text; `tolerant` lets words be missing or added, and often omitted sounds be missing."""
    units: list[Unit] = []
    rows: list[tuple[int, int, int]] = []
    jumps: list[tuple[int, int, float]] = []

    def add(unit: Unit, kind: int, token: int, word: int) -> None:
        units.append(unit)
        rows.append((kind, token, word))

    def gap(token: int) -> None:
        """Silence between words, which may contain speech that is not in the text."""
        add(Unit((SILENCE_COLUMN,), skip=0.0, entry=SILENCE_ENTRY), PAUSE, token, NO_WORD)
        if tolerant:
            add(Unit((OTHER_COLUMN,), skip=0.0, entry=OTHER_ENTRY), OTHER, -1, NO_WORD)
            add(Unit((SILENCE_COLUMN,), skip=0.0, entry=SILENCE_ENTRY), PAUSE, -1, NO_WORD)

    classes = sounds(phonemes.tokens, phonemes.word_index)
    sizes = Counter(phonemes.word_index)
    started: dict[int, int] = {}
    ended: dict[int, int] = {}
    gap(-1)
    for place, (token, sound) in enumerate(zip(phonemes.tokens, classes, strict=True)):
        word = phonemes.word_index[place]
        if sound is None or is_boundary(token):
            if word == NO_WORD:
                gap(place)
            else:
                add(Unit((SILENCE_COLUMN,), skip=0.0, entry=SILENCE_ENTRY), PAUSE, place, word)
            continue
        started.setdefault(word, len(units))
        skip = OMITTED.get(sound.name, np.inf) if tolerant and omissible(sound, sizes[word]) else np.inf
        add(Unit(columns(sound), skip=skip), PHONE, place, word)
        ended[word] = len(units)
    if not phonemes.tokens or not is_boundary(phonemes.tokens[-1]):
        gap(-1)
    if tolerant:
        jumps = [(started[word], ended[word], SKIPPED_WORD) for word in started]
    kind, owner, word_of = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    clock = np.cumsum([sound is not None for sound in classes]).astype(np.float32)
    graph = build(units, jumps)
    readings = state_readings(graph, kind)
    return Transcript(phonemes, graph, kind.astype(np.int8), owner, word_of, clock, readings)


def columns(sound: Sound) -> tuple[int, ...]:
    """A sound's halves as emission columns for a transcript, each repeated for its minimum number of frames."""
    shortest = SHORTEST_VOWEL_HALF if sound.name in VOWELS else SHORTEST_HALF
    return tuple(column for column in sound.states for _ in range(shortest))


def state_readings(graph: SearchGraph, kind: NDArray[np.int64]) -> NDArray[np.float32]:
    """A transcript's source clock in the middle of every state: sounds before it, plus the part passed."""
    ends = np.cumsum(kind == PHONE)
    sizes = np.bincount(graph.unit, minlength=len(kind))
    within = np.arange(len(graph.unit)) - np.searchsorted(graph.unit, graph.unit)
    passed = np.where(kind == PHONE, 1.0, 0.0)[graph.unit] * (1 - (within + 0.5) / sizes[graph.unit])
    return (ends[graph.unit] - passed).astype(np.float32)


def omissible(sound: Sound, word_size: int) -> bool:
    """Whether a transcript's sound may be left out; not if it is a word's only one or part of an r-coloured vowel."""
    return len(sound.halves) == 2 and word_size > 1
