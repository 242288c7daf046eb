"""Parse SSML into text with given readings, prosody, durations, breaks and marks.

This is a subset of the W3C's Speech Synthesis Markup Language 1.1, see `ELEMENTS`. Anything else is rejected with
its line and column, never silently skipped. Document types and custom entities are rejected, so nothing can be
expanded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from xml.parsers import expat

from clock_attention.speech.text.characters import composed
from clock_attention.speech.text.controls import LONGEST_BREAK, NEUTRAL, Prosody
from clock_attention.speech.text.ipa import phones
from clock_attention.speech.text.say_as import read_as
from clock_attention.speech.text.tokens import Kind, Token

LONGEST = 2_000_000  # bytes of a document
DEEPEST = 40  # nested elements
LONGEST_READING = 500  # characters that an element can give to be spoken in place of its text
COMMON_ATTRIBUTES = frozenset(("xml:lang", "xml:base", "xml:space", "id"))
ELEMENTS = {
    "speak": {"version", "xmlns", "xmlns:xsi", "xsi:schemaLocation", "xmlns:amazon", "xmlns:mstts"},
    "p": set(),
    "s": set(),
    "break": {"time", "strength"},
    "prosody": {"rate", "duration", "pitch", "volume"},
    "emphasis": {"level"},
    "sub": {"alias"},
    "say-as": {"interpret-as", "format", "detail"},
    "phoneme": {"ph", "alphabet"},
    "mark": {"name"},
}
TEXT_ONLY = ("sub", "say-as", "phoneme")
EMPTY = ("break", "mark")
BREAKS = {"none": 0.0, "x-weak": 0.1, "weak": 0.2, "medium": 0.35, "strong": 0.6, "x-strong": 1.0}
RATES = {"x-slow": 0.6, "slow": 0.8, "medium": 1.0, "default": 1.0, "fast": 1.25, "x-fast": 1.6}
PITCHES = {"x-low": -5.0, "low": -2.5, "medium": 0.0, "default": 0.0, "high": 2.5, "x-high": 5.0}
VOLUMES = {"silent": -60.0, "x-soft": -12.0, "soft": -6.0, "medium": 0.0, "default": 0.0, "loud": 4.0, "x-loud": 8.0}
EMPHASES = {
    "strong": Prosody(0.8, 2.0, 3.0),
    "moderate": Prosody(0.9, 1.0, 1.5),
    "none": NEUTRAL,
    "reduced": Prosody(1.15, -1.0, -3.0),
}
NUMBER = r"[+-]?(?:\d{1,6}(?:\.\d{0,6})?|\.\d{1,6})"
RE_TIME = re.compile(rf"({NUMBER})\s*(ms|s)")
RE_PERCENT = re.compile(rf"({NUMBER})%")
RE_FACTOR = re.compile(NUMBER)
RE_SEMITONES = re.compile(rf"({NUMBER})st")
RE_DECIBELS = re.compile(rf"({NUMBER})dB", re.I)


Choice = TypeVar("Choice")


class SsmlError(ValueError):
    """Raised for SSML that cannot be spoken; says what is wrong, at which line and column."""


@dataclass(frozen=True)
class Span:
    """A span of an SSML document: characters start … end of the text, how they are spoken, and how long they last."""

    start: int
    end: int
    prosody: Prosody = NEUTRAL  # combined with that of the elements around it
    seconds: float | None = None
    where: str = ""  # line and column, for errors


@dataclass(frozen=True)
class SsmlDocument:
    """The text of an SSML document, and what its elements say about it. Positions count characters of `text`."""

    text: str
    given: tuple[Token, ...] = ()
    spans: tuple[Span, ...] = ()  # outer ones before inner ones
    breaks: tuple[tuple[int, float], ...] = ()  # position, seconds
    marks: tuple[tuple[int, str, int], ...] = ()  # position, name, number of breaks before it


@dataclass
class Open:
    """An SSML element that is still open."""

    name: str
    attributes: dict[str, str]
    start: int
    where: str
    prosody: Prosody
    span: int | None = None  # its index in the spans


def parse_ssml(source: str) -> SsmlDocument:
    """Read an SSML document.

    Raises:
        SsmlError: with line and column, if the XML is not well-formed or not in the supported subset.
    """
    content = source.encode("utf-8", "replace")
    if len(content) > LONGEST:
        raise SsmlError(
            f"SSML of {len(content):,} bytes, expected at most {LONGEST:,}: split it into several documents"
        )
    return Parser(content).parse()


@dataclass
class Parser:
    """Parser for an SSML document, in one pass of expat."""

    content: bytes
    pieces: list[str] = field(default_factory=list)
    length: int = 0
    last: str = ""  # the last character written
    lines: int = 0  # line ends after the last word
    opened: list[Open] = field(default_factory=list)
    given: list[Token] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    breaks: list[tuple[int, float]] = field(default_factory=list)
    marks: list[tuple[int, str, int]] = field(default_factory=list)

    def parse(self) -> SsmlDocument:
        self.expat: Any = expat.ParserCreate("utf-8")
        self.expat.buffer_text = True
        self.expat.StartElementHandler = self.start
        self.expat.EndElementHandler = self.end
        self.expat.CharacterDataHandler = self.characters
        self.expat.StartDoctypeDeclHandler = self.refuse_doctype
        try:
            self.expat.Parse(self.content, True)
        except expat.ExpatError as error:
            where = self.position(self.expat.ErrorByteIndex)
            reason = expat.ErrorString(error.code)
            raise SsmlError(f"{where}: not well-formed XML ({reason}); write & as &amp; and < as &lt;") from None
        return SsmlDocument(
            "".join(self.pieces), tuple(self.given), tuple(self.spans), tuple(self.breaks), tuple(self.marks)
        )

    def refuse_doctype(self, *_: object) -> None:
        self.fail("a document type (<!DOCTYPE …>) is not accepted; remove it")

    def fail(self, message: str) -> None:
        raise SsmlError(f"{self.position(self.expat.CurrentByteIndex)}: {message}")

    def position(self, byte: int) -> str:
        before = self.content[: max(byte, 0)]
        line_start = before.rfind(b"\n") + 1
        line, column = before.count(b"\n") + 1, len(before[line_start:].decode("utf-8", "replace")) + 1
        return f"line {line}, column {column}"

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.check(name, attributes)
        outer = self.opened[-1].prosody if self.opened else NEUTRAL
        where = f"line {self.expat.CurrentLineNumber}, column {self.expat.CurrentColumnNumber + 1}"
        here = Open(name, attributes, self.length, where, outer)
        if name in ("p", "s"):
            self.end_line(2 if name == "p" else 1)
            here.start = self.length
        with self.clear_errors(name):
            if name == "break":
                self.breaks.append((self.length, break_seconds(attributes)))
            elif name == "mark":
                self.marks.append((self.length, attributes["name"], len(self.breaks)))
            elif name == "prosody":
                self.open_span(here, prosody_of(attributes), attributes.get("duration"))
            elif name == "emphasis":
                self.open_span(here, chosen(EMPHASES, attributes.get("level", "moderate"), "level"), None)
        self.opened.append(here)

    def check(self, name: str, attributes: dict[str, str]) -> None:
        if name not in ELEMENTS:
            self.fail(f"<{name[:40]}> is not supported; expected one of {', '.join(ELEMENTS)}")
        if not self.opened and name != "speak":
            self.fail(f"the document begins with <{name}>, expected <speak>")
        if self.opened and name == "speak":
            self.fail("<speak> inside another element, expected it only around the whole document")
        if len(self.opened) >= DEEPEST:
            self.fail(f"elements nested more than {DEEPEST} deep")
        if self.opened and self.opened[-1].name in (*TEXT_ONLY, *EMPTY):
            self.fail(f"<{name}> inside <{self.opened[-1].name}>, expected no element there")
        for attribute in attributes:
            if attribute not in ELEMENTS[name] and attribute not in COMMON_ATTRIBUTES:
                allowed = ", ".join(sorted(ELEMENTS[name])) or "none"
                self.fail(f'{attribute[:40]}="…" of <{name}> is not supported; expected {allowed}')
        required = {"sub": "alias", "say-as": "interpret-as", "phoneme": "ph", "mark": "name"}.get(name)
        if required is not None and not attributes.get(required, "").strip():
            self.fail(f'<{name}> without {required}="…"')

    def open_span(self, element: Open, prosody: Prosody, duration: str | None) -> None:
        element.prosody = prosody.within(element.prosody)
        seconds = None if duration is None else seconds_of(duration, "duration")
        if seconds == 0:
            raise ValueError('duration="0s": expected a positive time')
        element.span = len(self.spans)
        self.spans.append(Span(self.length, self.length, element.prosody, seconds, element.where))

    def characters(self, data: str) -> None:
        inside = self.opened[-1].name
        if inside in EMPTY and data.strip():
            self.fail(f"text inside <{inside}>, expected none")
        text = re.sub(r"\s+", " ", composed(data))
        self.write(text.lstrip(" ") if self.last in ("", " ", "\n") else text)

    def write(self, text: str) -> None:
        if text:
            self.pieces.append(text)
            self.length += len(text)
            self.last = text[-1]
            self.lines = 0

    def end_line(self, lines: int) -> None:
        """Begin a new sentence, or with two lines a new paragraph."""
        if self.length and lines > self.lines:
            self.write("\n" * (lines - self.lines))
            self.lines = lines

    def end(self, name: str) -> None:
        element = self.opened.pop()
        if element.span is not None:
            span = self.spans[element.span]
            self.spans[element.span] = Span(span.start, self.length, span.prosody, span.seconds, span.where)
        if name in ("p", "s"):
            self.end_line(2 if name == "p" else 1)
        if name in TEXT_ONLY:
            with self.clear_errors(name):
                self.given.append(self.token(element))

    def token(self, element: Open) -> Token:
        """The text of an element as one word, with its reading."""
        written = self.tail(element.start)
        start = element.start + len(written) - len(written.lstrip())
        written = written.strip()
        if not written:
            raise ValueError("there is no text inside")
        end, attributes = start + len(written), element.attributes
        for name in ("ph", "alias"):
            if len(attributes.get(name, "")) > LONGEST_READING:
                raise ValueError(f"{name} of {len(attributes[name])} characters, expected at most {LONGEST_READING}")
        if element.name == "phoneme":
            alphabet = attributes.get("alphabet", "ipa")
            if alphabet != "ipa":
                raise ValueError(f'alphabet="{alphabet[:40]}", expected ipa')
            phones(attributes["ph"])  # rejects anything that is not IPA
            return Token(Kind.WORD, written, written, start, end, pronunciation=attributes["ph"])
        if element.name == "sub":
            spoken = read_as(attributes["alias"], "text", "")
        else:
            spoken = read_as(written, attributes["interpret-as"], attributes.get("format", ""))
        return Token(Kind.WORD, written, spoken, start, end)

    def tail(self, start: int) -> str:
        """The text from an offset that is near its end."""
        pieces: list[str] = []
        reached = self.length
        for piece in reversed(self.pieces):
            if reached <= start:
                break
            pieces.append(piece)
            reached -= len(piece)
        return "".join(reversed(pieces))[start - reached :]

    @contextmanager
    def clear_errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except SsmlError:
            raise
        except ValueError as error:
            self.fail(f"<{name}>: {error}")


def chosen(choices: Mapping[str, Choice], given: str, name: str) -> Choice:
    """The value of an SSML attribute that takes one name from a list."""
    if given not in choices:
        raise ValueError(f'{name}="{given[:40]}", expected one of {", ".join(choices)}')
    return choices[given]


def seconds_of(given: str, name: str) -> float:
    """An SSML time, "800ms" or "1.5s", in seconds."""
    match = RE_TIME.fullmatch(given.strip())
    seconds = float(match[1]) / (1000 if match[2] == "ms" else 1) if match else -1.0
    if not 0 <= seconds <= 3600:
        raise ValueError(f'{name}="{given[:40]}", expected a time such as 800ms or 1.5s')
    return seconds


def break_seconds(attributes: Mapping[str, str]) -> float:
    """Seconds of an SSML `break`."""
    if "time" not in attributes:
        return chosen(BREAKS, attributes.get("strength", "medium"), "strength")
    seconds = seconds_of(attributes["time"], "time")
    if seconds > LONGEST_BREAK:
        raise ValueError(f'time="{attributes["time"]}", expected at most {LONGEST_BREAK:g} s')
    return seconds


def prosody_of(attributes: Mapping[str, str]) -> Prosody:
    """The prosody that an SSML `prosody` element requests."""
    if not attributes.keys() & ELEMENTS["prosody"]:
        raise ValueError("none of rate, duration, pitch and volume is given")
    return Prosody(
        pace_of(attributes.get("rate", "default").strip()),
        semitones_of(attributes.get("pitch", "default").strip()),
        decibels_of(attributes.get("volume", "default").strip()),
    )


def pace_of(rate: str) -> float:
    """SSML rate as a multiple of the natural pace, from a name, "120%", "+20%" or "1.2"."""
    if rate in RATES:
        return RATES[rate]
    if match := RE_PERCENT.fullmatch(rate):
        return float(match[1]) / 100 + (1 if match[1][0] in "+-" else 0)
    if RE_FACTOR.fullmatch(rate):
        return float(rate)
    raise ValueError(f'rate="{rate[:40]}", expected {", ".join(RATES)}, or a percentage such as 80% or +20%')


def semitones_of(pitch: str) -> float:
    """SSML pitch in semitones, from a name, "+2st", or "+10%" of the frequency."""
    if pitch in PITCHES:
        return PITCHES[pitch]
    if match := RE_SEMITONES.fullmatch(pitch):
        return float(match[1])
    if (match := RE_PERCENT.fullmatch(pitch)) and match[1][0] in "+-" and float(match[1]) > -100:
        return 12 * math.log2(1 + float(match[1]) / 100)
    raise ValueError(f'pitch="{pitch[:40]}", expected {", ".join(PITCHES)}, semitones such as +2st, or +10%')


def decibels_of(volume: str) -> float:
    """SSML volume in decibels, from a name, or "+6dB"."""
    if volume in VOLUMES:
        return VOLUMES[volume]
    if match := RE_DECIBELS.fullmatch(volume):
        return float(match[1])
    raise ValueError(f'volume="{volume[:40]}", expected {", ".join(VOLUMES)}, or decibels such as -6dB')
