"""What is to be said, and how: checked once, split into sentences once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from clock_attention.speech.text.lexicon import Lexicon, built_in
from clock_attention.speech.text.sentences import Sentence, in_parts, sentences
from clock_attention.speech.voice.pacing import PAUSE, Pacing

LONGEST_READING = 600  # letters read at once; longer sentences are cut before they are phonemized, to bound memory


@dataclass(frozen=True)
class Request:
    """A text in sentences, its pace or duration, the pauses between sentences, and the seed."""

    text: str
    sentences: tuple[Sentence, ...]
    pacing: Pacing
    pause: float  # seconds between sentences at natural pace; between paragraphs there are more
    seed: int  # of anything random in a vocoder or decoder
    most_seconds: float | None = None  # refuse texts that will last longer, before any of it is spoken
    lexicon: Lexicon | None = None  # whose words, besides the built-in names, the sentences have been read with

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
        lexicon: Lexicon | None = None,
    ) -> Request:
        """The options are those of `Voice.stream`."""
        pacing = Pacing.of(pace, mpr, duration)
        if not 0 <= pause <= 10:
            raise ValueError(f"pause: got {pause:g}, expected 0 … 10 seconds between sentences")
        text = well_formed(text)
        return cls(text, tuple(short_sentences(text, lexicon)), pacing, pause, seed, most_seconds, lexicon)

    def read_with(self, lexicon: Lexicon | None) -> Request:
        """The same request with the words of a lexicon."""
        if lexicon is self.lexicon:
            return self
        return replace(self, sentences=tuple(short_sentences(self.text, lexicon)), lexicon=lexicon)


def well_formed(text: str) -> str:
    """Without halves of UTF-16 pairs, which no file can hold: wrongly decoded input has them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def short_sentences(text: str, lexicon: Lexicon | None = None) -> Iterator[Sentence]:
    """Sentences, and parts of those that are too long to be read at once."""
    for sentence in sentences(text, built_in().extended(lexicon)):
        yield from in_parts(sentence, LONGEST_READING)
