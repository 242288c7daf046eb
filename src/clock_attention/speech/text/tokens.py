"""Tokens of plain text and their kinds, found by rules that are tried in order at each position.

A rule is a pattern and a function from its match to a reading; if the function returns None, the next rule is tried.
Patterns look at a bounded number of characters, so reading takes time linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum


class Kind(str, Enum):
    """The kind of a token, which decides how it is read."""

    WORD = "word"
    NUMBER = "number"
    ORDINAL = "ordinal"
    YEAR = "year"
    DATE = "date"
    TIME = "time"
    MONEY = "money"
    UNIT = "unit"
    TELEPHONE = "telephone"
    URL = "url"
    EMAIL = "email"
    ABBREVIATION = "abbreviation"
    INITIALISM = "initialism"
    CODE = "code"
    FRACTION = "fraction"
    RANGE = "range"
    ROMAN = "roman numeral"
    MATH = "math"
    MARK = "mark"  # punctuation: `spoken` is the pause it stands for, or nothing
    BREAK = "break"  # the end of a line, or of a paragraph


PAUSE_MARKS = frozenset(",;:.!?…—")


@dataclass(frozen=True)
class Token:
    """A token: a span of text as written, and the words that are spoken for it.

    In `spoken`, words are separated by spaces; letters that are spelled out have dots ("F.B.I.").
    """

    kind: Kind
    text: str
    spoken: str
    start: int
    end: int
    ends_sentence: bool = False  # a mark after which a new sentence begins
    pronunciation: str = ""  # IPA from the lexicon or from the text


@dataclass(frozen=True)
class Part:
    """A part of the text that a token rule has matched, and how it is read; each part keeps its own times."""

    text: str
    spoken: str
    kind: Kind | None = None  # default: the kind of the rule
    ends_sentence: bool = False
    pronunciation: str = ""


Reading = str | Sequence[Part] | None


@dataclass(frozen=True)
class Rule:
    """A rule that finds tokens. `starts` says at which first characters to try it: d(igit), l(etter), s(ymbol)."""

    kind: Kind
    starts: str
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str]], Reading]


def first_kind(character: str) -> str:
    """The kind of a token's first character, for choosing rules: d(igit), l(etter), s(ymbol)."""
    if character.isdigit():
        return "d"
    return "l" if character.isalpha() else "s"


def scan(
    text: str,
    rules: Sequence[Rule],
    find: Callable[[str, int], Token | None] | None = None,
    fixed: Sequence[Token] = (),
) -> Iterator[Token]:
    """Tokens of a text in order, by the first rule that reads each position. Text that no rule reads is left out.

    Args:
        find: called at the beginning of every word, before the rules.
        fixed: tokens known beforehand.
    """
    by_start = {kind: [rule for rule in rules if kind in rule.starts] for kind in "dls"}
    waiting = sorted(fixed, key=lambda token: token.start, reverse=True)
    place, length = 0, len(text)
    while place < length:
        if text[place] == " ":
            place += 1
            continue
        if waiting and waiting[-1].start <= place:
            token = waiting.pop()
            yield token
            place = max(place, token.end)
            continue
        limit = waiting[-1].start if waiting else length
        if find is not None and not text[place - 1 : place].isalnum():
            known = find(text, place)
            if known is not None and known.end <= limit:
                yield known
                place = known.end
                continue
        for rule in by_start[first_kind(text[place])]:
            match = rule.pattern.match(text, place)
            if match is None or not place < match.end() <= limit:
                continue
            reading = rule.read(match)
            if reading is not None:
                yield from tokens_of(rule.kind, match, reading)
                place = match.end()
                break
        else:
            place += 1


def tokens_of(kind: Kind, match: re.Match[str], reading: str | Sequence[Part]) -> Iterator[Token]:
    """Tokens for the text that a rule has matched."""
    if isinstance(reading, str):
        yield Token(kind, match.group(), reading, match.start(), match.end())
        return
    place = match.start()
    for part in reading:
        found = match.string.find(part.text, place, match.end())
        start = found if found >= 0 else place
        place = min(start + len(part.text), match.end())
        yield Token(part.kind or kind, part.text, part.spoken, start, place, part.ends_sentence, part.pronunciation)


def word_set(words: str) -> frozenset[str]:
    """The set of words in a string, for token rules."""
    return frozenset(words.split())


# Context of a match: only this many characters are looked at.
NEARBY = 48
RE_WORD_BEFORE = re.compile(r"([^\W\d_][^\W\d_'.]{0,30})\.?[\s,:\"'(#-]{0,6}$")
RE_WORD_AFTER = re.compile(r"[\s,\"'()]{0,4}([^\W\d_][^\W\d_']{0,30})")
RE_ADJOINING = re.compile(r"[ ]{1,3}[\"'(]{0,2}([^\W\d_][^\W\d_']{0,30})")


def before(match: re.Match[str]) -> str:
    """The word before a token rule's match, with at most a few spaces or marks in between; "" if there is none."""
    found = RE_WORD_BEFORE.search(match.string[max(0, match.start() - NEARBY) : match.start()])
    return found[1] if found else ""


def before_closely(match: re.Match[str]) -> str:
    """The word before a token rule's match, with only spaces in between."""
    left = match.string[max(0, match.start() - NEARBY) : match.start()]
    found = re.search(r"([^\W\d_][^\W\d_'.]{0,30})\.?[ -]{1,2}$", left)
    return found[1] if found else ""


def after(match: re.Match[str]) -> str:
    """The word after a token rule's match; "" if something else follows."""
    found = RE_WORD_AFTER.match(match.string, match.end())
    return found[1] if found else ""


def after_closely(match: re.Match[str]) -> str:
    """The word after a token rule's match, with only spaces in between."""
    found = RE_ADJOINING.match(match.string, match.end())
    return found[1] if found else ""


def left_of(match: re.Match[str], characters: int = 12) -> str:
    """The given number of characters before a token rule's match."""
    return match.string[max(0, match.start() - characters) : match.start()]


def right_of(match: re.Match[str], characters: int = 12) -> str:
    """The given number of characters after a token rule's match."""
    return match.string[match.end() : match.end() + characters]
