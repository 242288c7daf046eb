"""An aligner that needs no weights: every token takes the same time, and the score is what the test asks for."""

from __future__ import annotations

from dataclasses import dataclass

from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.text.phonemes import Phonemes


@dataclass(frozen=True)
class Times:
    starts: list[float]
    ends: list[float]
    score: float
    fits: bool


@dataclass(frozen=True)
class EvenAligner:
    """Refuses utterances that hold the word `unheard`; those with `doubtful` do not fit."""

    unheard: str = ""
    doubtful: str = ""

    def align_phonemes(self, wave: Wave, sample_rate: int, phonemes: Phonemes) -> Times:
        if self.unheard in phonemes.words:
            raise ValueError(f"{self.unheard} is not heard")
        seconds = len(wave) / sample_rate - 0.2
        edges = [0.1 + seconds * place / len(phonemes) for place in range(len(phonemes) + 1)]
        score = -1.0 if self.doubtful in phonemes.words else 1.0
        return Times(edges[:-1], edges[1:], score, score > 0)
