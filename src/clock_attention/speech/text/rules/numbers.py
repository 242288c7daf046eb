"""Rules for whole and decimal numbers, ordinals and years, depending on the context."""

from __future__ import annotations

import re

from clock_attention.speech.text.number_words import (
    LONGEST_NUMBER,
    cardinal,
    decimal,
    digits,
    in_pairs,
    integer,
    ordinal,
    plural,
    year,
)
from clock_attention.speech.text.rules import fractions, measures, ranges
from clock_attention.speech.text.rules.unit_names import UNIT_PATTERN
from clock_attention.speech.text.tokens import (
    Kind,
    Part,
    Reading,
    Rule,
    after_closely,
    before,
    before_closely,
    left_of,
    right_of,
    word_set,
)

PAIRED = word_set(
    "room rm suite http status flight route highway hwy interstate error bus boeing airbus gate apartment apt studio "
    "extension channel train hotel"
)
SPELLED_OUT = word_set("code pin zip password passcode serial id account postcode zipcode box")
STREETS = (
    "Street|St|Avenue|Ave|Road|Rd|Drive|Dr|Lane|Ln|Boulevard|Blvd|Court|Ct|Place|Pl|Square|Sq|Way|Parkway|Pkwy|Terrace"
)
RE_STREET = re.compile(rf"[A-Z]? (?:(?:[NSEW]\.?|[A-Z][a-z]+|\d{{1,3}}(?:st|nd|rd|th)) ){{1,3}}(?:{STREETS})\b")
RE_HOUSE = re.compile(r" (?:(?:North|South|East|West)|[NSEW]\.?) [A-Z][a-z]+")  # after "at": 1026 North Beckley
HOUSED = word_set("at to near from")
RE_ERA = re.compile(r",? ?(?:B\.? ?C|A\.? ?D|C\.? ?E)\b")
RE_ERA_BEFORE = re.compile(r"\bA\.? ?D\.? $")
YEARS = range(1100, 2100)
COUNTED_WORDS = word_set("people men women children feet percent dollars hours minutes more or and of")
NAMED_YEARS = word_set("in since until during year circa")  # a year, whatever follows
LIKELY_YEARS = NAMED_YEARS | word_set("by from of before after around class summer winter spring fall the")
SCALED = {"k": "thousand", "m": "million", "b": "billion", "bn": "billion", "mn": "million"}
CALIBERS = frozenset((".22", ".38", ".44", ".45", ".50", ".357"))
PLAIN_NUMBER = r"(?:\d{1,3}(?:,\d{3}){1,5}(?!,?\d)|\d{1,60})"


def read_integer(match: re.Match[str]) -> Reading:
    """Rule for whole numbers, depending on the context: a year, a house number, a code, a count."""
    written = match.group()
    count = written.replace(",", "")
    if "," in written:
        return cardinal(int(count))
    previous = before_closely(match).lower() or before(match).lower()
    if count == "007":
        return "double oh seven"
    if len(count) > 1 and count[0] == "0":
        return digits(count)
    if len(count) >= 4 and spelled_out(match, previous):
        return digits(count)
    if len(count) in (3, 4) and (previous in PAIRED or is_house(match, previous)):
        return in_pairs(count)
    if len(count) in (3, 4) and (RE_ERA.match(right_of(match, 8)) or RE_ERA_BEFORE.search(left_of(match, 8))):
        return [Part(written, in_pairs(count), Kind.YEAR)]
    if len(count) == 4:
        return read_four_digits(match, int(count), previous)
    return integer(count)


def is_house(match: re.Match[str], previous: str) -> bool:
    """Whether a number is a house number."""
    right = right_of(match, 60)
    return RE_STREET.match(right) is not None or (previous in HOUSED and RE_HOUSE.match(right) is not None)


def spelled_out(match: re.Match[str], previous: str) -> bool:
    """Whether a number is to be read digit by digit, such as a code."""
    near = left_of(match, 24).lower().split()
    return previous in SPELLED_OUT or bool(SPELLED_OUT & {word.strip(".:,") for word in near[-3:]})


def read_four_digits(match: re.Match[str], value: int, previous: str) -> Reading:
    """Rule for four-digit numbers: a year, or a count."""
    following = after_closely(match)
    counted = following.islower() and (
        following in COUNTED_WORDS - {"or", "and", "of"}
        or (following.endswith("s") and following not in ("was", "is", "has", "its", "this", "as", "does"))
    )
    if (
        previous in NAMED_YEARS
        or (value in YEARS and not counted)
        or (previous == "the" and value in YEARS and value % 100)
    ):
        likely = True
    else:
        likely = previous in LIKELY_YEARS and not counted
    if likely and 1000 <= value < 2100:
        return [Part(match.group(), year(value), Kind.YEAR)]
    if counted or value in YEARS:
        return in_hundreds(value)
    return in_pairs(str(value)) if previous in ("the", "intel", "model") else cardinal(value)


def in_hundreds(value: int) -> str:
    """A number read in hundreds: 1500 → "fifteen hundred"; 1234 → "one thousand two hundred thirty four"."""
    return f"{cardinal(value // 100)} hundred" if value % 100 == 0 and value % 1000 else cardinal(value)


def read_decimal(match: re.Match[str]) -> Reading:
    """Rule for decimal numbers."""
    return decimal(match.group())


def read_point(match: re.Match[str]) -> Reading:
    """Rule for decimal numbers without a digit before the point: .5; a .45 is a pistol."""
    if left_of(match, 1).isalnum():
        return None
    weapon = after_closely(match).lower() in ("caliber", "rifle", "pistol", "revolver", "special", "magnum")
    if match.group() in CALIBERS and (weapon or before_closely(match).lower() in ("a", "the")):
        return in_pairs(match.group()[1:])
    return decimal(match.group())


def read_ordinal(match: re.Match[str]) -> Reading:
    """Rule for ordinal numbers: 42nd."""
    return ordinal(int(match[1].replace(",", ""))) + (match[3] or "").lower()


def read_decade(match: re.Match[str]) -> Reading:
    """Rule for numbers in the plural: decades 1990s, '90s, 20s; single digits: two 6s."""
    number = match[2]
    if len(number) == 4:
        words = year(int(number))
    elif match[1] and len(number) == 2 and not match[3]:
        return cardinal(int(number)) if before(match) else None
    else:
        words = cardinal(int(number))
    return [Part(match.group(), plural(words), Kind.YEAR if len(number) == 4 else None)]


def read_short_year(match: re.Match[str]) -> Reading:
    """Rule for two-digit years: the class of '68."""
    return cardinal(int(match[1])) if int(match[1]) >= 10 else f"oh {cardinal(int(match[1]))}"


def read_scaled(match: re.Match[str]) -> Reading:
    """Rule for numbers with a scale: 2.5k, 3M, 1.2bn. A capital K or B after a whole number is a letter: 4K."""
    if match[2] in "KB" and "." not in match[1] and not after_closely(match).islower():
        return None
    return f"{decimal(match[1])} {SCALED[match[2].lower()]}"


def read_times(match: re.Match[str]) -> Reading:
    """Rule for numbers with x for "times": 4x faster; in 3x + 5 = 11, x is an unknown."""
    if re.match(r" ?[-+=<>] ?\d", right_of(match, 4)):
        return [Part(match[1], decimal(match[1])), Part("x", "X.", Kind.MATH)]
    return [Part(match[1], decimal(match[1])), Part("x", "times", Kind.MATH)]


RULES = [
    Rule(
        Kind.ORDINAL, "d", re.compile(r"(\d{1,3}(?:,\d{3}){1,4}|\d{1,9})(st|nd|rd|th)(s)?(?![\w])", re.I), read_ordinal
    ),
    Rule(Kind.NUMBER, "ds", re.compile(r"(')?(\d{4}|\d{1,2})('?s)(?!\w)"), read_decade),
    Rule(Kind.YEAR, "s", re.compile(r"'(\d{2})(?![\w'])(?![.,]\d)"), read_short_year),
    *fractions.RULES,
    *measures.RULES,
    *ranges.RULES,
    Rule(Kind.NUMBER, "d", re.compile(rf"({PLAIN_NUMBER}(?:\.\d{{1,30}})?)(k|K|M|B|bn|mn)(?!\w)"), read_scaled),
    Rule(Kind.NUMBER, "d", re.compile(r"(\d{1,4}(?:\.\d{1,3})?)x(?!\w|\s?\d)"), read_times),
    Rule(Kind.NUMBER, "d", re.compile(rf"{PLAIN_NUMBER}\.\d{{1,60}}(?![a-zA-Z]{{2,20}}-|[a-zA-Z]?\d)"), read_decimal),
    Rule(Kind.NUMBER, "s", re.compile(r"\.\d{1,30}(?![.\d])"), read_point),
    Rule(Kind.NUMBER, "d", re.compile(rf"\d{{{LONGEST_NUMBER + 1},60}}"), lambda match: digits(match.group())),
    Rule(Kind.NUMBER, "d", re.compile(rf"{PLAIN_NUMBER}(?![a-zA-Z\d])(?!-[A-Z0-9]{{0,8}}[A-Z])"), read_integer),
    Rule(Kind.NUMBER, "d", re.compile(rf"{PLAIN_NUMBER}(?=x\d|[AaPp]\.?[Mm]\b|(?:{UNIT_PATTERN}))"), read_integer),
]
# Numbers that no other rule has read.
LEFT_OVER = [Rule(Kind.NUMBER, "d", re.compile(r"\d{1,15}"), lambda match: integer(match.group()))]
