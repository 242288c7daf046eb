"""Ranges of numbers (the dash between two of them), and the signs of numbers."""

from __future__ import annotations

import re

from clock_attention.speech.text.rules.dates import MONTH
from clock_attention.speech.text.tokens import Kind, Part, Reading, Rule, left_of, right_of, word_set

SCORED = word_set("won win wins lost lose loses beat beats winning losing score vote tied drew lead led leads")

RE_HOURS = re.compile(r"\b(?:[Ff]rom|[Oo]pen|[Hh]ours:?|[Ww]ork(?:s|ing|ed)?) \d{1,2}$")


def read_minus(match: re.Match[str]) -> Reading:
    """The minus sign of a number, not the dash of a range or within a word."""
    return "minus" if re.search(r"(^|[\s(\[=<>*/,×÷])$", left_of(match, 1)) else None


def read_plus(match: re.Match[str]) -> Reading:
    """The plus sign of a number."""
    return "plus"


def read_range(match: re.Match[str]) -> Reading:
    """A range: the dash between two numbers is read as "to", or is silent in a score."""
    left, right = left_of(match, 24), right_of(match, 24)
    number = r"(?:\d[\d,.]*|[A-Z])"
    if re.search(r"[\d½¼¾⅓⅔]\s?(?:%|[ap]\.?m\.?|°[CF]?)?$", left, re.I) and re.match(r"[$£€-]?[\d½¼¾⅓⅔]", right):
        if left.endswith(" ") and match.group().strip() == "-" and "=" in right:
            return "minus"
        scored = SCORED & set(re.findall(r"[a-z]+", left_of(match, 24).lower())[-2:])
        if (scored or falling(left, right)) and not RE_HOURS.search(left) and not high(left, right):
            return [Part(match.group(), "", Kind.MARK)]
        return "to"
    if re.search(rf"\b{number}$", left) and re.match(r"[A-Z]\b", right) and match.group() != "-":
        return "to"
    if re.search(r"[ap]\.?m\.?$", left, re.I) and re.match(r"\d", right):
        return "to"
    if re.search(r"(?:Mon|Tues?|Wed|Thu(?:rs)?|Fri|Sat|Sun)(?:day)?\.?$", left) and re.match(
        r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)", right
    ):
        return "to"
    if re.search(rf"\b(?:{MONTH})$", left) and re.match(rf"(?:{MONTH})(?!\w)", right):
        return "to"
    return None


def high(left: str, right: str) -> bool:
    """Whether both numbers of a range or score have three digits; 110-102 is read with "to" in a score too."""
    return re.search(r"(?<!\d)\d{3}$", left) is not None and re.match(r"\d{3}(?!\d)", right) is not None


def falling(left: str, right: str) -> bool:
    """Whether the first number of a range or score is no smaller than the second, as in 50-50."""
    previous = re.search(r"(?<![\d:.,])(\d{1,3}(?:\.\d{1,3})?)$", left)
    following = re.match(r"(\d{1,3}(?:\.\d{1,3})?)(?![\d:])", right)
    return previous is not None and following is not None and float(previous[1]) >= float(following[1])


def read_hyphen(match: re.Match[str]) -> Reading:
    """The hyphen of "3-year-old", which is not a range and is silent."""
    return [Part("-", "", Kind.MARK)] if left_of(match, 1).isdigit() else None


RULES = [
    Rule(Kind.MATH, "s", re.compile(r"-(?=[.$£€]?\d)"), read_minus),
    Rule(Kind.MATH, "s", re.compile(r"(?:(?<=\d)\+(?!\d)|\+(?=\d))"), read_plus),
    Rule(Kind.RANGE, "s", re.compile(r"[-–—] ?(?=[$£€\dA-Z-])"), read_range),
    Rule(Kind.MARK, "s", re.compile(r"-(?=[A-Za-z])"), read_hyphen),
]
