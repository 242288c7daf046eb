"""Fractions and mixed numbers."""

from __future__ import annotations

import re

from clock_attention.speech.text.number_words import cardinal, ordinal
from clock_attention.speech.text.tokens import Kind, Reading, Rule, left_of

FRACTIONS = {"½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5), "⅗": (3, 5)}
FRACTIONS |= {"⅘": (4, 5), "⅙": (1, 6), "⅚": (5, 6), "⅛": (1, 8), "⅜": (3, 8), "⅝": (5, 8), "⅞": (7, 8)}
VULGAR = "".join(FRACTIONS)
RE_RATED = re.compile(r"\b(?:got|scor(?:e|es|ed)|ratings?|rated?|gave|give)(?: (?:it|this|him|her|them))?:? $")
SIDE_BY_SIDE = {"24/7": "twenty four seven", "50/50": "fifty fifty", "20/20": "twenty twenty"}


def fraction(top: int, bottom: int) -> str | None:
    """A fraction in words: "two thirds"; None if it has no such name."""
    if bottom == 0 or top == 0 or bottom == 1:
        return None
    if bottom == 2:
        part = "half" if top == 1 else "halves"
    elif bottom == 4:
        part = "quarter" if top == 1 else "quarters"
    else:
        *head, last = ordinal(bottom).split()
        head = head[1:] if bottom in (100, 1000) else head
        part = " ".join([*head, last if top == 1 else last + "s"])
    return f"{cardinal(top)} {part}"


def read_fraction(match: re.Match[str]) -> Reading:
    """A fraction such as 2/3, a rating such as 4/5, or "x over y"."""
    if match.group() in SIDE_BY_SIDE:
        return SIDE_BY_SIDE[match.group()]
    top, bottom = int(match[1]), int(match[2])
    if bottom in (5, 10, 20, 100) and top <= bottom and RE_RATED.search(left_of(match, 24)):
        return f"{cardinal(top)} out of {cardinal(bottom)}"
    if bottom > 1000 or (bottom > 20 and bottom not in (32, 64, 100, 1000)) or top > 999:
        return f"{cardinal(top)} over {cardinal(bottom)}"
    return fraction(top, bottom) or f"{cardinal(top)} over {cardinal(bottom)}"


def read_mixed(match: re.Match[str]) -> Reading:
    """A mixed number with a fraction: 1 1/2, 2½."""
    whole, sign = match["whole"], match["sign"]
    top, bottom = FRACTIONS[sign] if sign else (int(match["top"]), int(match["bottom"]))
    if not whole:
        return fraction(top, bottom)
    if top >= bottom:
        return None
    part = fraction(top, bottom)
    if part and top == 1 and bottom in (2, 4):
        part = "a " + part.split()[-1]
    return f"{cardinal(int(whole))} and {part}" if part else None


WRITTEN = r"(?P<top>\d{1,3})/(?P<bottom>\d{1,4})(?![\d/])"
RULES = [
    Rule(Kind.FRACTION, "d", re.compile(rf"(?P<sign>)(?P<whole>\d{{1,4}})[ -]{WRITTEN}"), read_mixed),
    Rule(Kind.FRACTION, "ds", re.compile(rf"(?P<whole>\d{{0,6}}) ?(?P<sign>[{VULGAR}])"), read_mixed),
    Rule(Kind.FRACTION, "d", re.compile(r"(\d{1,4})/(\d{1,4})(?![\d/]|\.\d)"), read_fraction),
]
