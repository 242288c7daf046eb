"""Dates, in words and in figures (month first, as Americans write them)."""

from __future__ import annotations

import re

from clock_attention.speech.text.number_words import cardinal, ordinal, year
from clock_attention.speech.text.rules.sentence_endings import with_stop
from clock_attention.speech.text.tokens import (
    Kind,
    Part,
    Reading,
    Rule,
    before,
    before_closely,
    left_of,
    right_of,
    word_set,
)

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
DAYS = {"Mon": "Monday", "Tue": "Tuesday", "Tues": "Tuesday", "Wed": "Wednesday", "Thu": "Thursday", "Thur": "Thursday"}
DAYS |= {"Thurs": "Thursday", "Fri": "Friday", "Sat": "Saturday", "Sun": "Sunday"}
SHORT_MONTHS = {month[:3]: month for month in MONTHS if month != "May"} | {"Sept": "September"}
MONTH = "|".join([*MONTHS, *(f"{short}\\.?" for short in sorted(SHORT_MONTHS, key=len, reverse=True))])
DAY_ABBREVIATION = "|".join(sorted(DAYS, key=len, reverse=True))
MONTH_ABBREVIATION = "|".join(sorted(SHORT_MONTHS, key=len, reverse=True))
SUFFIX = r"(?:st|nd|rd|th)?"
NOT_A_DAY = r"(?![\d:%°$]|[.,/]\d|[stnr][tdh])"
DATED = word_set("on by until till before after since due from dated date through expires")


def month_name(written: str) -> str:
    """The full name of a month in a date."""
    return SHORT_MONTHS.get(written.rstrip("."), written)


def two_digit_year(written: str) -> int:
    """The year of a date written with two or four digits."""
    number = int(written)
    return number if len(written) == 4 else number + (1900 if number > 40 else 2000)


def read_month_day(match: re.Match[str]) -> Reading:
    """A date such as "March 5, 2021" or "March 5–7"."""
    month, first, last, full = match.group("month", "day", "last", "year")
    if not 1 <= int(first) <= 31 or (last and not int(first) < int(last) <= 31):
        return None
    parts = [Part(month, month_name(month)), Part(first + (match["suffix"] or ""), ordinal(int(first)))]
    if last:
        parts += [Part(match["dash"], "to", Kind.RANGE), Part(last, ordinal(int(last)))]
    if full:
        parts += [*([Part(",", ",", Kind.MARK)] if match["comma"] else []), Part(full, year(int(full)), Kind.YEAR)]
    return parts


def read_day_month(match: re.Match[str]) -> Reading:
    """A date: "5 March" is "the fifth of March"; "5th March" and "the 5th of March" are read as written."""
    day, suffix, of, month, full = match.group("day", "suffix", "of", "month", "year")
    if not 1 <= int(day) <= 31:
        return None
    article = "" if (suffix and not of) or before_closely(match).lower() == "the" else "the "
    parts = [Part(day + (suffix or ""), article + ordinal(int(day)))]
    if of:
        parts += [Part("of", "of", Kind.WORD), Part(month, month_name(month))]
    else:
        parts.append(Part(month, month_name(month) if suffix else f"of {month_name(month)}"))
    if full:
        parts += [*([Part(",", ",", Kind.MARK)] if match["comma"] else []), Part(full, year(int(full)), Kind.YEAR)]
    return parts


def in_words(month: int, day: int, full: int | None) -> str | None:
    """A date in words: month, ordinal day, year."""
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return f"{MONTHS[month - 1]} {ordinal(day)}" + (f" {year(full)}" if full is not None else "")


def read_slashes(match: re.Match[str]) -> Reading:
    """A date such as 3/5/2021, month first unless it cannot be."""
    first, second, full = int(match[1]), int(match[2]), two_digit_year(match[3])
    return in_words(first, second, full) if first <= 12 else in_words(second, first, full)


def read_iso(match: re.Match[str]) -> Reading:
    """A date such as 2021-03-05."""
    return in_words(int(match[2]), int(match[3]), int(match[1]))


def read_dots(match: re.Match[str]) -> Reading:
    """A date such as 5.3.2021, day first."""
    return in_words(int(match[2]), int(match[1]), int(match[3]))


def read_dashes(match: re.Match[str]) -> Reading:
    """A date such as 5-Mar-2021."""
    month = MONTHS.index(month_name(match[2].capitalize())) + 1
    return in_words(month, int(match[1]), two_digit_year(match[3]))


def read_month_slash_day(match: re.Match[str]) -> Reading:
    """A date without a year: 9/11 is always that day; other pairs are dates only where one is expected."""
    if match.group() == "9/11":
        return "nine eleven"
    dated = (
        before(match).lower() in DATED or before(match) in {*DAYS, *DAYS.values()} or "0" in (match[1][0], match[2][0])
    )
    return in_words(int(match[1]), int(match[2]), None) if dated else None


def read_season(match: re.Match[str]) -> Reading:
    """Dates of seasons: 2010-11; the second year is read with two digits."""
    first, last = int(match[1]), int(match[3])
    if not 1000 <= first < 2100 or last <= first % 100:
        return None
    to = [Part(match[2], "to", Kind.RANGE)] if match[2] != "/" else []
    return [Part(match[1], year(first), Kind.YEAR), *to, Part(match[3], cardinal(last), Kind.YEAR)]


def read_day_name(match: re.Match[str]) -> Reading:
    """Day of a date: "Sat." or "Mon, Jan 3" or "Mon–Fri"; without a stop or a date next to it, it is another word."""
    dated = re.match(rf",? (?:{MONTH}|\d)|[-–](?:{DAY_ABBREVIATION})\b", right_of(match))
    ranged = re.search(rf"(?:{DAY_ABBREVIATION})\.?[-–]$", left_of(match))
    if not (dated or ranged) and (not match.group().endswith(".") or before_closely(match).lower() in ("the", "a")):
        return None
    return with_stop(match, DAYS[match[1]])


def read_month_name(match: re.Match[str]) -> Reading:
    """Month of a date: "Nov. 2016", "Aug 2019"."""
    if not match.group().endswith(".") and not re.match(r",? \d{4}(?!\d)", right_of(match)):
        return None
    return with_stop(match, month_name(match[1]))


RULES = [
    Rule(
        Kind.DATE,
        "l",
        re.compile(
            rf"\b(?P<month>{MONTH}) (?P<day>\d{{1,2}})(?P<suffix>{SUFFIX}){NOT_A_DAY}"
            rf"(?:(?P<dash>[-–])(?P<last>\d{{1,2}}){NOT_A_DAY})?(?P<comma>,?)(?: (?P<year>\d{{4}})(?!\d|[.,]\d))?"
            r"(?(year)|(?<!,))"
        ),
        read_month_day,
    ),
    Rule(
        Kind.DATE,
        "l",
        re.compile(
            rf"\b(?P<month>{MONTH}) (?P<day>\d{{1,2}})(?P<suffix>{SUFFIX}){NOT_A_DAY}"
            r"(?P<dash>)(?P<last>)(?P<comma>)(?P<year>)"
        ),
        read_month_day,
    ),
    Rule(
        Kind.DATE,
        "d",
        re.compile(
            rf"(?P<day>\d{{1,2}})(?P<suffix>{SUFFIX})(?P<of> of)? (?P<month>{MONTH})(?!\w)"
            r"(?:(?P<comma>,?) (?P<year>\d{4})(?!\d|[.,]\d))?"
        ),
        read_day_month,
    ),
    Rule(Kind.DATE, "d", re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4}|\d{2})(?![\d/])"), read_slashes),
    Rule(Kind.DATE, "d", re.compile(r"(\d{4})[-/.](\d{2})[-/.](\d{2})(?![\d/-])"), read_iso),
    Rule(Kind.DATE, "d", re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(?!\.?\d)"), read_dots),
    Rule(Kind.DATE, "d", re.compile(rf"(\d{{1,2}})-({MONTH_ABBREVIATION})-(\d{{4}}|\d{{2}})(?!\d)", re.I), read_dashes),
    Rule(Kind.DATE, "d", re.compile(r"(\d{1,2})/(\d{1,2})(?![\d/%])"), read_month_slash_day),
    Rule(Kind.YEAR, "d", re.compile(r"(\d{4})([-–/])(\d{2})(?![\d-])"), read_season),
    Rule(Kind.DATE, "l", re.compile(rf"\b({DAY_ABBREVIATION})(?:\.|(?!\w))"), read_day_name),
    Rule(Kind.DATE, "l", re.compile(rf"\b({MONTH_ABBREVIATION})(?:\.|(?!\w))"), read_month_name),
]
