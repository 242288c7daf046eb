"""Times of day, durations and ratios: all that is written with a colon, and a.m. and p.m."""

from __future__ import annotations

import re

from clock_attention.speech.text.numbers import cardinal, two_digits
from clock_attention.speech.text.rules.endings import with_stop
from clock_attention.speech.text.tokens import Kind, Part, Reading, Rule, left_of, right_of


def read_time_of_day(match: re.Match[str]) -> Reading:
    hours, minutes = int(match[1]), int(match[2])
    if hours > 24 or minutes > 59:
        return None
    if minutes:
        return f"{cardinal(hours)} {two_digits(minutes)}"
    if hours > 12 or hours == 0:
        return f"{cardinal(hours)} hundred"
    noon = re.match(r"\s?[AaPp]\.?\s?[Mm]\b", right_of(match))
    return cardinal(hours) + ("" if noon else " o'clock")


def read_stopwatch(match: re.Match[str]) -> Reading:
    """2:05:30 as a duration."""
    named = ((int(match[1]), "hour"), (int(match[2]), "minute"), (int(match[3]), "second"))
    words = [f"{cardinal(count)} {unit}{'' if count == 1 else 's'}" for count, unit in named if count]
    return " and ".join([" ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words) or "zero seconds"


def read_ratio(match: re.Match[str]) -> Reading:
    return f"{cardinal(int(match[1]))} to {cardinal(int(match[2]))}"


def read_half_of_day(match: re.Match[str]) -> Reading:
    """a.m. or p.m., after a number only; "am" alone is a verb."""
    if not re.search(r"\d\s?$", left_of(match, 2)):
        return None
    return with_stop(match, f"{match[1].upper()}.M.")


def read_hours_and_minutes(match: re.Match[str]) -> Reading:
    parts = []
    for count, unit, name in (
        (match[1], match[2], "hour"),
        (match[3], match[4], "minute"),
        (match[5], match[6], "second"),
    ):
        if count:
            parts += [Part(count, cardinal(int(count))), Part(unit, name + ("" if int(count) == 1 else "s"), Kind.UNIT)]
    return parts


RULES = [
    Rule(Kind.TIME, "d", re.compile(r"(\d{1,2}):([0-5]\d):([0-5]\d)(?![\d:])"), read_stopwatch),
    Rule(Kind.TIME, "d", re.compile(r"(\d{1,2}):(\d{2})(?![\d:])"), read_time_of_day),
    Rule(Kind.NUMBER, "d", re.compile(r"(\d{1,4}):(\d{1,4})(?![\d:])"), read_ratio),
    Rule(
        Kind.TIME,
        "d",
        re.compile(r"(\d{1,3})(h)(?: ?(\d{1,2})(m(?:in)?))?(?: ?(\d{1,2})(s(?:ec)?))?(?!\w)"),
        read_hours_and_minutes,
    ),
    Rule(Kind.TIME, "l", re.compile(r"([AaPp])(?:\.\s?[Mm]\.|[Mm])(?!\w)"), read_half_of_day),
]
