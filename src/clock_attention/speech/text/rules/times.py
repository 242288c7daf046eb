"""Times of day, durations and ratios: everything written with a colon, and a.m. and p.m."""

from __future__ import annotations

import re

from clock_attention.speech.text.number_words import cardinal, decimal, digits, two_digits
from clock_attention.speech.text.rules.sentence_endings import with_stop
from clock_attention.speech.text.tokens import (
    Kind,
    Part,
    Reading,
    Rule,
    before_closely,
    left_of,
    right_of,
    word_set,
)

TIMED = word_set("at by until till from before after since around departs arrives")
SCRIPTURE = word_set(
    "Genesis Exodus Leviticus Numbers Deuteronomy Joshua Judges Ruth Samuel Kings Chronicles Ezra Nehemiah Job Psalm "
    "Psalms Proverbs Ecclesiastes Isaiah Jeremiah Ezekiel Daniel Hosea Micah Matthew Mark Luke John Acts Romans "
    "Corinthians Galatians Ephesians Philippians Colossians Thessalonians Timothy Titus Hebrews James Peter Revelation"
)


def read_time_of_day(match: re.Match[str]) -> Reading:
    """A time of day: 3:45, 15:00."""
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
    """A duration written as a time: 2:05:30."""
    named = ((int(match[1]), "hour"), (int(match[2]), "minute"), (int(match[3]), "second"))
    words = [f"{cardinal(count)} {unit}{'' if count == 1 else 's'}" for count, unit in named if count]
    return " and ".join([" ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words) or "zero seconds"


def read_split_time(match: re.Match[str]) -> Reading:
    """A runner's time: 3:43.13."""
    return f"{cardinal(int(match[1]))} {two_digits(int(match[2]))} point {digits(match[3])}"


def read_ratio(match: re.Match[str]) -> Reading:
    """A ratio, not a time: 16:9, 1.78:1; Matthew 5:3 is a chapter and a verse."""
    to = " " if before_closely(match) in SCRIPTURE else " to "
    return f"{decimal(match[1])}{to}{decimal(match[2])}"


def read_military(match: re.Match[str]) -> Reading:
    """Military time: at 0645, 1430 hours."""
    hours, minutes = match[1], int(match[2])
    named = re.match(r" (?:hours|hrs)\b", right_of(match)) is not None
    if int(hours) > 23 or not (named or (hours[0] == "0" and before_closely(match).lower() in TIMED)):
        return None
    return (
        f"{digits(hours) if hours[0] == '0' else cardinal(int(hours))} {two_digits(minutes) if minutes else 'hundred'}"
    )


def read_half_of_day(match: re.Match[str]) -> Reading:
    """The a.m. or p.m. of a time of day, only after a number; "am" alone is a verb."""
    if not re.search(r"\d\s?$", left_of(match, 2)):
        return None
    return with_stop(match, f"{match[1].upper()}.M.")


def read_hours_and_minutes(match: re.Match[str]) -> Reading:
    """A duration with units of time: 2h, 2h30m, 1h 5min 20s."""
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
    Rule(Kind.TIME, "d", re.compile(r"(\d{1,2}):([0-5]\d)\.(\d{1,3})(?!\d)"), read_split_time),
    Rule(Kind.TIME, "d", re.compile(r"(\d{1,2}):(\d{2})(?![\d:]|\.\d)"), read_time_of_day),
    Rule(Kind.NUMBER, "d", re.compile(r"(\d{1,4}(?:\.\d{1,3})?):(\d{1,4}(?:\.\d{1,3})?)(?![\d:])"), read_ratio),
    Rule(Kind.TIME, "d", re.compile(r"(\d{2})([0-5]\d)(?![\w-]|[.,:]\d)"), read_military),
    Rule(
        Kind.TIME,
        "d",
        re.compile(r"(\d{1,3})(h)(?: ?(\d{1,2})(m(?:in)?))?(?: ?(\d{1,2})(s(?:ec)?))?(?!\w)"),
        read_hours_and_minutes,
    ),
    Rule(Kind.TIME, "l", re.compile(r"([AaPp])(?:\.\s?[Mm]\.|[Mm])(?!\w)"), read_half_of_day),
]
