"""Made-up emissions: a text of random words is "spoken" with known boundaries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

CLASSES = 31  # silence is class 0


@dataclass(frozen=True)
class Spoken:
    words: list[list[int]]  # emission classes of each written word
    starts: np.ndarray  # first frame of each spoken word
    ends: np.ndarray
    emissions: np.ndarray  # (frames, CLASSES)


def random_words(count: int, draw: np.random.Generator) -> list[list[int]]:
    return [list(draw.integers(1, CLASSES, draw.integers(2, 8))) for _ in range(count)]


def speak(words: list[list[int]], draw: np.random.Generator, noise: float = 1.5) -> Spoken:
    """Phones of 3 … 12 frames, pauses after some words, and scores that are right on average only."""
    frames: list[int] = [0] * 30
    starts, ends = [], []
    for word in words:
        starts.append(len(frames))
        for phone in word:
            frames += [phone] * int(draw.integers(3, 13))
        ends.append(len(frames))
        if draw.random() < 0.2:
            frames += [0] * int(draw.integers(10, 60))
    frames += [0] * 30
    logits = noise * draw.standard_normal((len(frames), CLASSES)).astype(np.float32)
    logits[np.arange(len(frames)), frames] += 4.0
    emissions = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    return Spoken(words, np.array(starts), np.array(ends), emissions)
