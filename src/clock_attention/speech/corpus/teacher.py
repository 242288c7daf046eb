"""A synthetic teacher where no recordings are available: hibari's single voice reads any text.

It is synthetic speech, distilled from another model's voice: say so wherever results obtained with it are shown.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.corpus.metadata import check_row, names_speakers, read_table, spoken_text
from clock_attention.speech.corpus.phrase_splitting import split_phrases
from clock_attention.speech.corpus.splits import text_key
from clock_attention.speech.corpus.store import Rejection
from clock_attention.speech.text.hibari import HibariPhonemizer

TEACHER_RATE = 24000
SLOWEST_READING, FASTEST_READING = 0.5, 2.0
LONGEST_STEM = 40  # letters of a file's name in the ids of its lines


@dataclass(frozen=True)
class TeacherPhrase:
    """A phrase for the teacher to read. `group` is the key of the text that it was cut from."""

    id: str
    group: str
    text: str
    speed: float
    seed: int
    speaker: str = ""


@cache
def hibari_voice() -> Any:
    """The teacher's voice: hibari on one thread."""
    from hibari import Hibari

    return Hibari(threads=1)


class Teacher:
    """The teacher, hibari on one thread; the same reading always gives the same samples."""

    def __init__(self) -> None:
        self.reader = HibariPhonemizer()

    def __call__(self, reading: TeacherPhrase) -> Wave:
        """Samples at 24 kHz, float32; empty for a text with nothing to say."""
        parts = []
        for place, sentence in enumerate(self.reader.sentences(reading.text)):
            transcription = self.reader.transcription(sentence.tokens)
            parts.append(hibari_voice().from_phonemes(transcription, speed=reading.speed, seed=reading.seed + place))
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def read_lines(path: Path) -> tuple[list[tuple[str, str]], list[Rejection]]:
    """Texts for the teacher: (id, text) from plain text, one utterance per line, or from LJSpeech metadata.

    Also returns the rows that cannot be used, each with its reason.
    """
    stem = re.sub(r"[^\w-]+", "-", path.stem).strip("-")[:LONGEST_STEM] or "line"
    lines, rejected, known = [], [], set[str]()
    rows = list(read_table(path))
    for number, columns in rows:
        if len(columns) == 1:
            columns = [f"{stem}-{number:05d}", *columns]
        if rejection := check_row(number, columns, known, names_speakers(rows)):
            rejected.append(rejection)
        else:
            lines.append((columns[0], spoken_text(columns)))
    return lines, rejected


def plan_readings(
    lines: list[tuple[str, str]],
    *,
    seed: int,
    speeds: tuple[float, ...] = (1.0,),
    shortest: int = 15,
    longest: int = 120,
    limit: int | None = None,
) -> list[TeacherPhrase]:
    """Plan what the teacher reads: lines → phrases of varied length in shuffled order, each at one of the speeds.

    Depends only on the arguments, and the texts and their order do not depend on the speeds: two corpora with the same
    seed differ only in pace.
    """
    outside = [speed for speed in speeds if not SLOWEST_READING <= speed <= FASTEST_READING]
    if outside or not speeds:
        raise ValueError(f"the teacher's speeds lie in {SLOWEST_READING}…{FASTEST_READING}, got {speeds}")
    phrases = [
        (f"{name}.{place:02d}", text_key(text), phrase)
        for name, text in lines
        for place, phrase in enumerate(split_phrases(text, shortest, longest, seed=f"{seed}:{name}"))
    ]
    random.Random(f"order:{seed}").shuffle(phrases)
    draw = random.Random(f"speeds:{seed}")
    return [
        TeacherPhrase(
            id=f"{name}@{speed:g}" if speed != 1.0 else name, group=group, text=phrase, speed=speed, seed=seed
        )
        for name, group, phrase in phrases[:limit]
        for speed in [draw.choice(speeds)]
    ]


def generate_readings(
    text: Path | None,
    *,
    hours: float | None = None,
    limit: int | None = None,
    seed: int = 0,
    speeds: tuple[float, ...] = (1.0,),
    shortest: int = 15,
    longest: int = 120,
) -> tuple[list[TeacherPhrase], list[Rejection], str]:
    """What the teacher reads, from a text file or generated sentences; the rejected rows; a description of the corpus.

    Args:
        hours, limit: the amount wanted; it decides how many sentences are generated.
    """
    rejected: list[Rejection] = []
    if text is None:
        from clock_attention.speech.corpus.grammar import generate_sentences

        # An hour of speech takes about 1,250 of them at natural speed.
        lines = generate_sentences(limit or round(2000 * (hours or 0) * max(speeds)) + 200, seed)
    else:
        lines, rejected = read_lines(text)
    readings = plan_readings(lines, seed=seed, speeds=speeds, shortest=shortest, longest=longest, limit=limit)
    return readings, rejected, f"hibari-tts reading {text.name if text else f'generated sentences (seed {seed})'}"
