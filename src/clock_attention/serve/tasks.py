"""A request as something the engine can run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clock_attention.speech.voice.request import Request
from clock_attention.speech.voice.voice import Voice

if TYPE_CHECKING:
    from clock_attention.speech.vocoder.vocoder import Vocoder
    from clock_attention.speech.voice.speech import Speech


@dataclass
class SpeechTask:
    """A text, a voice and a pace. Called in a worker's thread: reading the text takes time, too."""

    voice: Voice
    vocoder: Vocoder
    text: str
    pace: float | None = None
    duration: float | None = None
    most_seconds: float | None = None
    sentences: int | None = None  # of the text, known once it has been read

    def __call__(self) -> Iterator[Speech]:
        request = Request.of(
            self.text,
            pace=self.pace,
            duration=self.duration,
            most_seconds=self.most_seconds,
            lexicon=self.voice.lexicon,
        )
        self.sentences = len(request.sentences)
        return self.voice.perform(request, self.vocoder)
