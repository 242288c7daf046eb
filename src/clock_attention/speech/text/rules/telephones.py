"""Telephone numbers and others to be copied down: digit by digit, with a pause between the groups."""

from __future__ import annotations

import re

from clock_attention.speech.text.number_words import digits
from clock_attention.speech.text.tokens import Kind, Part, Reading, Rule, after_closely, before, word_set

SEPARATOR = r"[ .-]"
SHORT_NUMBERS = "911|999|988|112|211|311|411|511|611|711|811"
CALLING = word_set("call calls called calling dial dials dialed dialing dialled phone phoned ring rang text texted")
ANSWERING = word_set("operator operators dispatcher dispatchers call calls caller callers emergency service")
COUNTED_FROM = word_set("from between pages page years lines about around of approximately roughly some over")


def groups(match: re.Match[str]) -> list[Part]:
    """A telephone number's groups of digits, with commas between them."""
    written = re.findall(r"\+?\(?\d+\)?", match.group())
    parts: list[Part] = []
    for place, group in enumerate(written):
        if parts:
            parts.append(Part("", ",", Kind.MARK))
        spoken = "eight hundred" if place == 1 and written[0] == "1" and group.strip("()") == "800" else digits(group)
        parts.append(Part(group, ("plus " if group[0] == "+" else "") + spoken))
    return parts


def read_international(match: re.Match[str]) -> Reading:
    """An international telephone number."""
    return groups(match) if sum(character.isdigit() for character in match.group()) >= 8 else None


def read_local(match: re.Match[str]) -> Reading:
    """A local telephone number: 555-0123, unless both are round or something is counted: 500-1000."""
    first, last = match.group().split("-")
    is_round = last[0] != "0" and int(first) % 10 == int(last) % 10 == 0
    return None if is_round or before(match).lower() in COUNTED_FROM else groups(match)


def read_short(match: re.Match[str]) -> Reading:
    """An emergency telephone number; 911 is always one, unless something is counted."""
    called = before(match).lower() in CALLING or after_closely(match).lower() in ANSWERING
    counted = after_closely(match).islower() and after_closely(match).endswith(("s", "people", "men", "women"))
    alone = match.group() == "911" and not counted and before(match) != "Porsche"
    return digits(match.group()) if called or alone else None


RULES = [
    Rule(Kind.TELEPHONE, "s", re.compile(r"\+\d{1,3}(?:[ .-]{0,1}\(?\d{1,4}\)?){2,6}(?!\d)"), read_international),
    Rule(
        Kind.TELEPHONE,
        "ds",
        re.compile(rf"(?:1{SEPARATOR}?)?\(\d{{3}}\){SEPARATOR}?\d{{3}}{SEPARATOR}\d{{4}}(?!\d)"),
        groups,
    ),
    Rule(Kind.TELEPHONE, "s", re.compile(r"\(\d{3}\) ?\d{3}-"), groups),
    Rule(
        Kind.TELEPHONE,
        "d",
        re.compile(rf"(?:1{SEPARATOR})?\d{{3}}({SEPARATOR})\d{{3}}\1\d{{4}}(?![\d-]|{SEPARATOR}\d)"),
        groups,
    ),
    Rule(Kind.TELEPHONE, "d", re.compile(r"0\d{2,4}([ -])\d{3,4}\1\d{3,4}(?![\d-])"), groups),
    Rule(Kind.TELEPHONE, "d", re.compile(r"\d{3}-\d{4}(?![\d-])"), read_local),
    # Numbers to be copied down: social security, ISBN, cards.
    Rule(Kind.CODE, "d", re.compile(r"\d{3}-\d{2}-\d{4}(?![\d-])"), groups),
    Rule(Kind.CODE, "d", re.compile(r"\d{1,5}(?:-\d{1,7}){3}-[\dX](?![\w-])"), groups),
    Rule(Kind.CODE, "d", re.compile(r"\d{4}([ -])\d{4}\1\d{4}\1\d{4}(?![\d-])"), groups),
    Rule(Kind.TELEPHONE, "d", re.compile(rf"(?:{SHORT_NUMBERS})(?![\d%°]|[.,:/-]\d)"), read_short),
]
