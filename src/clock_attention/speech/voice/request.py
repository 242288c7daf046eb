"""What is to be said, and how: checked once, split into sentences once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from clock_attention.speech.text.cleaning import split_phrases, split_sentences
from clock_attention.speech.voice.pacing import PAUSE, Pacing

LONGEST_READING = 600  # letters read at once; longer sentences are cut before they are phonemized, to bound memory
LONGEST_WORD = 60  # letters; the longest in English dictionaries has 45
RE_LONG_RUN = re.compile(rf"\S{{{LONGEST_WORD},}}")


@dataclass(frozen=True)
class Request:
    """A text in sentences, its pace or duration, the pauses between sentences, and the seed."""

    text: str
    sentences: tuple[str, ...]
    pacing: Pacing
    pause: float  # seconds between sentences at natural pace
    seed: int  # of anything random in a vocoder or decoder
    most_seconds: float | None = None  # refuse texts that will last longer, before any of it is spoken

    @classmethod
    def of(
        cls,
        text: str,
        *,
        pace: float | None = None,
        mpr: float | None = None,
        duration: float | str | None = None,
        pause: float = PAUSE,
        seed: int = 0,
        most_seconds: float | None = None,
    ) -> Request:
        """The options are those of `Voice.stream`."""
        pacing = Pacing.of(pace, mpr, duration)
        if not 0 <= pause <= 10:
            raise ValueError(f"pause: got {pause:g}, expected 0 … 10 seconds between sentences")
        text = well_formed(text)
        return cls(text, tuple(short_sentences(text)), pacing, pause, seed, most_seconds)


def well_formed(text: str) -> str:
    """Without halves of UTF-16 pairs, which no file can hold: wrongly decoded input has them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def short_sentences(text: str) -> Iterator[str]:
    """Sentences, and parts of those that are too long to be read at once."""
    for sentence in split_sentences(text):
        if len(sentence) <= LONGEST_READING:
            yield sentence
        else:
            yield from split_phrases(without_long_runs(sentence), LONGEST_READING, LONGEST_READING)


def without_long_runs(sentence: str) -> str:
    """Runs of more characters than any word has are broken up: reading takes time cubic in their length."""
    return RE_LONG_RUN.sub(with_spaces, sentence)


def with_spaces(run: re.Match[str]) -> str:
    """Space after punctuation, and within what is still too long."""
    return re.sub(rf"\w{{{LONGEST_WORD}}}(?=\w)", r"\g<0> ", re.sub(r"[^\w\s]", r"\g<0> ", run.group()))
