"""A speech request as a task for a worker thread of the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clock_attention.speech.voice.request import Request
from clock_attention.speech.voice.voice import Voice

if TYPE_CHECKING:
    from clock_attention.speech.vocoder.vocoder import Vocoder
    from clock_attention.speech.voice.speech import Speech


@dataclass
class SpeechTask:
    """A text, a voice and options, as a task for the engine. It includes parsing the text, which also takes time."""

    voice: Voice
    vocoder: Vocoder
    text: str
    ssml: bool = False  # whether the text is an SSML document
    options: Mapping[str, Any] = field(default_factory=dict)  # of `Voice.stream`
    sentences: int | None = None  # number of sentences in the text, known once it has been parsed

    def __call__(self) -> Iterator[Speech]:
        text, ssml = (None, self.text) if self.ssml else (self.text, None)
        request = Request.of(text, ssml=ssml, lexicon=self.voice.lexicon, **self.options)
        self.sentences = len(request.sentences)
        return self.voice.perform(request, self.vocoder)
