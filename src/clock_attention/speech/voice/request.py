"""A request to speak: text and options, checked once and split into sentences once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from clock_attention.speech.text.characters import plain
from clock_attention.speech.text.controls import (
    NEUTRAL,
    UNCONTROLLED,
    Controls,
    Mark,
    Prosody,
    Stretch,
    WordControl,
)
from clock_attention.speech.text.lexicon import Lexicon, built_in
from clock_attention.speech.text.sentences import Sentence, in_parts, sentences, sentences_of
from clock_attention.speech.text.ssml import SsmlDocument, SsmlError, parse_ssml
from clock_attention.speech.text.tokens import Kind, Token
from clock_attention.speech.voice.pacing import PAUSE, Pacing, parse_duration
from clock_attention.speech.voice.timeline import Timeline

SHORTEST_MARKED = 0.1  # seconds; breaks of at least this length are read like a comma

Keep = Literal["pace", "total"]


@dataclass(frozen=True)
class Request:
    """A request to speak: a text in sentences, its pace or duration, pauses, seed, and controls of single words."""

    text: str
    sentences: tuple[Sentence, ...]
    pacing: Pacing
    pause: float  # seconds between sentences at natural pace; longer between paragraphs
    seed: int  # random seed for the vocoder and the decoder
    most_seconds: float | None = None  # reject texts that would last longer, before any of it is spoken
    lexicon: Lexicon | None = None  # words used to read the sentences, besides the built-in names
    prosody: Prosody = NEUTRAL  # pitch and energy of the whole text
    controls: Controls = UNCONTROLLED
    keep: Keep = "pace"  # what stays the same: the pace of words without controls, or the total duration
    timeline: Timeline | None = None
    document: SsmlDocument | None = None  # the SSML that the text was taken from
    words: Mapping[int, WordControl] | None = None  # controls of single words by number

    @classmethod
    def of(
        cls,
        text: str | None = None,
        *,
        ssml: str | None = None,
        pace: float | None = None,
        mpr: float | None = None,
        duration: float | str | None = None,
        pitch: float = 0.0,
        energy: float = 0.0,
        words: Mapping[int, WordControl | Mapping[str, Any]] | None = None,
        keep: Keep = "pace",
        timeline: Any = None,
        pause: float = PAUSE,
        seed: int = 0,
        most_seconds: float | None = None,
        lexicon: Lexicon | None = None,
    ) -> Request:
        """Build a request from the options of `Voice.stream`."""
        pacing = Pacing.of(pace, mpr, duration)
        if not 0 <= pause <= 10:
            raise ValueError(f"pause: got {pause:g}, expected 0 … 10 seconds between sentences")
        if (text is None) == (ssml is None):
            raise ValueError("expected a text or SSML, and not both")
        if keep not in ("pace", "total"):
            raise ValueError(f"keep: got {keep!r}, expected 'pace' or 'total'")
        if timeline is not None and (words or pace is not None or mpr is not None or duration is not None):
            raise ValueError("timeline was given together with pace, mpr, duration or words; it sets every length")
        document = None if ssml is None else parse_ssml(well_formed(ssml))
        request = cls(
            text=document.text if document is not None else well_formed(text or ""),
            sentences=(),
            pacing=pacing,
            pause=pause,
            seed=seed,
            most_seconds=most_seconds,
            prosody=Prosody(1.0, pitch, energy),
            keep=keep,
            timeline=None if timeline is None else Timeline.of(timeline),
            document=document,
            words={int(number): word_control(control) for number, control in (words or {}).items()},
        )
        return request._read(lexicon)

    def read_with(self, lexicon: Lexicon | None) -> Request:
        """The same request, read with the words of a lexicon."""
        return self if lexicon is self.lexicon else self._read(lexicon)

    def _read(self, lexicon: Lexicon | None) -> Request:
        known = built_in().extended(lexicon)
        if self.document is None:
            found, controls = tuple(short_sentences(sentences(self.text, known))), UNCONTROLLED
        else:
            found, controls = read_document(self.document, known)
        controls = with_words(controls, self.words or {})
        controls.check(sum(map(count_words, found)))
        return replace(self, sentences=found, controls=controls, lexicon=lexicon)

    @property
    def timed(self) -> bool:
        """Whether the request changes the length of single words or silences."""
        return self.timeline is not None or self.controls.timed

    @property
    def controlled(self) -> bool:
        """Whether the request needs a voice whose words can be controlled individually."""
        return self.timeline is not None or not self.controls.neutral or self.prosody != NEUTRAL


def well_formed(text: str) -> str:
    """The text of a request without lone UTF-16 surrogates, which badly decoded input has and no file can store."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def short_sentences(found: Iterable[Sentence]) -> Iterator[Sentence]:
    """Sentences of a request; those that are too long to be read at once are split into parts."""
    for sentence in found:
        yield from in_parts(sentence)


def is_word(token: Token) -> bool:
    """Whether a token counts as a word of a request."""
    return token.kind not in (Kind.MARK, Kind.BREAK)


def count_words(sentence: Sentence) -> int:
    """Number of words in a sentence of a request."""
    return sum(map(is_word, sentence.tokens))


def word_control(control: WordControl | Mapping[str, Any]) -> WordControl:
    """The controls of a word in a request, given as a `WordControl` or a dictionary."""
    if isinstance(control, WordControl):
        return control
    unknown = set(control) - {"pace", "pitch", "energy", "duration"}
    if unknown:
        raise ValueError(f"words: {', '.join(sorted(map(repr, unknown)))}, expected pace, pitch, energy or duration")
    return WordControl(**control)


def with_words(controls: Controls, words: Mapping[int, WordControl]) -> Controls:
    """A request's controls, merged with those of single words."""
    prosody = dict(controls.prosody)
    stretches = list(controls.stretches)
    for number, control in words.items():
        prosody[number] = control.within(prosody.get(number, NEUTRAL))
        if control.duration is not None:
            stretches.append(Stretch(number, number + 1, parse_duration(control.duration)))
    return replace(controls, prosody=prosody, stretches=tuple(stretches))


def read_document(document: SsmlDocument, lexicon: Lexicon) -> tuple[tuple[Sentence, ...], Controls]:
    """Read a request in SSML: sentences of the document, and its controls by word number."""
    found = list(short_sentences(sentences_of(document.text, document.given, lexicon)))
    origin = plain(document.text).origin
    starts = [token.start for sentence in found for token in sentence.tokens if is_word(token)]

    def number(place: int) -> int:
        """Number of the first word that starts at this position or later."""
        return bisect_left(starts, bisect_left(origin, place))

    prosody: dict[int, Prosody] = {}
    stretches: list[Stretch] = []
    for span in document.spans:
        first, stop = number(span.start), number(span.end)
        prosody.update((word, span.prosody) for word in range(first, stop))
        if span.seconds is not None:
            if first == stop:
                raise SsmlError(f"{span.where}: <prosody duration> has no word in it")
            stretches.append(Stretch(first, stop, span.seconds))
    breaks: dict[int, float] = {}
    order: list[int] = []  # the word after each break
    for place, seconds in document.breaks:
        order.append(number(place))
        breaks[order[-1]] = breaks.get(order[-1], 0.0) + seconds
    marks = []
    for place, name, earlier in document.marks:
        word = number(place)
        following = bisect_left(order, word, lo=earlier)
        marks.append(Mark(word, name, before_break=following < len(order) and order[following] == word))
    return tuple(with_pauses(found, breaks)), Controls(prosody, tuple(stretches), breaks, tuple(marks))


def with_pauses(found: Iterable[Sentence], breaks: Mapping[int, float]) -> Iterator[Sentence]:
    """A request's sentences with a comma at each longer break, so that the voice phrases them with a pause there."""
    number = 0
    for sentence in found:
        tokens: list[Token] = []
        for token in sentence.tokens:
            if is_word(token):
                if tokens and breaks.get(number, 0.0) >= SHORTEST_MARKED:
                    tokens.append(Token(Kind.MARK, "", ",", token.start, token.start))
                number += 1
            tokens.append(token)
        yield replace(sentence, tokens=tuple(tokens))
