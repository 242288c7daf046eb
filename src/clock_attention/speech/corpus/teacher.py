"""Speech to learn from where no recordings are at hand: hibari's single synthetic voice reads any text.

It is synthetic speech, distilled from another model's voice: say so wherever results obtained with it are shown.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.text.cleaning import split_phrases, split_sentences
from clock_attention.speech.text.hibari import HibariPhonemizer

TEACHER_RATE = 24000
SLOWEST, FASTEST = 0.5, 2.0


@dataclass(frozen=True)
class Reading:
    """A phrase for the teacher to read. `group` is the id of the line it was cut from."""

    id: str
    group: str
    text: str
    speed: float
    seed: int


@cache
def hibari_voice() -> Any:
    from hibari import Hibari

    return Hibari(threads=1)


class Teacher:
    """hibari on one thread; the same reading always gives the same samples."""

    def __init__(self) -> None:
        self.reader = HibariPhonemizer()

    def __call__(self, reading: Reading) -> Wave:
        """float32 at 24 kHz; nothing for a text with nothing to say."""
        parts = []
        for place, sentence in enumerate(split_sentences(reading.text)):
            transcription = self.reader.transcription(sentence)
            parts.append(hibari_voice().from_phonemes(transcription, speed=reading.speed, seed=reading.seed + place))
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """(id, text) from plain text, one utterance a line, or from LJSpeech metadata (`id|text[|normalized]`)."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter="|", quoting=csv.QUOTE_NONE)
        for number, row in enumerate(rows, start=1):
            if len(row) > 1:
                yield row[0], row[2] if len(row) > 2 and row[2].strip() else row[1]
            elif row and row[0].strip():
                yield f"{path.stem}-{number:05d}", row[0].strip()


def plan_readings(
    lines: list[tuple[str, str]],
    *,
    seed: int,
    speeds: tuple[float, ...] = (1.0,),
    shortest: int = 15,
    longest: int = 120,
    limit: int | None = None,
) -> list[Reading]:
    """Lines → phrases of varied length in shuffled order, each given one of the speeds.

    Depends on the arguments only, and the texts and their order not on the speeds: two corpora with the same seed
    differ in pace alone.
    """
    outside = [speed for speed in speeds if not SLOWEST <= speed <= FASTEST]
    if outside or not speeds:
        raise ValueError(f"the teacher's speeds lie in {SLOWEST}…{FASTEST}, got {speeds}")
    phrases = [
        (f"{group}.{place:02d}", group, phrase)
        for group, text in lines
        for place, phrase in enumerate(split_phrases(text, shortest, longest, seed=f"{seed}:{group}"))
    ]
    random.Random(f"order:{seed}").shuffle(phrases)
    draw = random.Random(f"speeds:{seed}")
    return [
        Reading(id=f"{name}@{speed:g}" if speed != 1.0 else name, group=group, text=phrase, speed=speed, seed=seed)
        for name, group, phrase in phrases[:limit]
        for speed in [draw.choice(speeds)]
    ]
