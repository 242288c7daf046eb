"""Measures: units after their numbers, percentages, degrees and dimensions."""

from __future__ import annotations

import re

from clock_attention.speech.text.number_words import cardinal, in_pairs
from clock_attention.speech.text.rules.sentence_endings import with_stop
from clock_attention.speech.text.rules.unit_names import UNIT_PATTERN, UNITS
from clock_attention.speech.text.tokens import (
    Kind,
    Reading,
    Rule,
    after_closely,
    before_closely,
    left_of,
    right_of,
    word_set,
)

RE_COUNTED = re.compile(
    r"(?P<number>\d(?:[\d.,]*\d)?[⁰¹²³⁴⁵⁶⁷⁸⁹]{0,3}|[½¼¾⅓⅔⅛⅜⅝⅞])"
    r"(?P<scale> (?:hundred|thousand|million|billion))?(?P<join>[ -]?)$"
)
RE_PART = re.compile(r"(?:^|[^\d\s/]|[^\d/]\s)(?:[½¼¾⅓⅔⅛⅜⅝⅞]|1/\d{1,2}|[23]/[3-9]|[3-9]/(?:[4-9]|1\d)) ?$")  # below one
RE_NUMBERED = re.compile(r"\b(?:Rte|Route|Hwy|Highway|Exit|Room|Rm|Apt|[Ss]eat|[Gg]ate|Row|Unit)\.? \d{1,4}$")
PRICED = word_set("oz lb hr yr gal kg bbl")
DESCRIBING = word_set("W V GHz MHz kg km GB MB oz ft mm cm")


def read_by(match: re.Match[str]) -> Reading:
    """The x in measures such as 4x4 and 10 cm x 20 cm."""
    return (
        "by"
        if re.search(r"\d(?: ?[a-z]{1,2})? ?$", left_of(match, 6)) and re.match(r"\s?\d", right_of(match, 2))
        else None
    )


def read_feet_and_inches(match: re.Match[str]) -> Reading:
    """A measure in feet and inches: 5'10"."""
    return f"{cardinal(int(match[1]))} foot {cardinal(int(match[2]))}"


def read_unit(match: re.Match[str]) -> Reading:
    """A unit of measure after its number, in the singular after 1 and before a noun: "a 5-km run"."""
    unit = match["unit"]
    one, several = UNITS[unit]
    if left_of(match, 1) == "/":
        return with_stop(match, one)
    if unit in PRICED and before_closely(match) in ("a", "an", "per"):
        return with_stop(match, one)
    counted = RE_COUNTED.search(left_of(match, 24))
    if counted is None or not fits(match, unit, glued=not counted["join"]):
        return None
    described = (
        before_article(match) and after_closely(match) and not match.group().endswith(".") and unit in DESCRIBING
    )
    singular = counted["number"] == "1" or RE_PART.search(left_of(match, 12)) or counted["join"] == "-" or described
    return with_stop(match, one if singular and not counted["scale"] else several)


def fits(match: re.Match[str], unit: str, *, glued: bool) -> bool:
    """Whether a short unit of measure can be meant; 4K, 14C and "5 in total" are something else."""
    numbered = glued and (unit == "A" or RE_NUMBERED.search(left_of(match, 24)))
    if len(unit) == 1 and (re.match(r"['&]", right_of(match, 1)) or numbered):
        return False
    followed = after_closely(match) or re.match(r" ?[$£€\d]", right_of(match, 2))  # 1 in 4
    return unit != "in" or match.group().endswith(".") or not (followed or glued)


def before_article(match: re.Match[str]) -> bool:
    """Whether the number of a measure follows an article, as in "a 5 km run"."""
    return re.search(r"\b[Aa]n? \d[\d.,]*[ -]?$", left_of(match, 20)) is not None


def read_degrees(match: re.Match[str]) -> Reading:
    """Measures in degrees, with Celsius, Fahrenheit or Kelvin."""
    counted = re.search(r"(\d[\d.,]*) ?$", left_of(match, 12))
    if not counted:
        return "degrees"
    scale = {"C": " Celsius", "F": " Fahrenheit", "K": " Kelvin"}.get(match[1] or "", "")
    return ("degree" if counted[1] == "1" else "degrees") + scale


def read_resolution(match: re.Match[str]) -> Reading:
    """Measures of screen resolution: 1080p, 720i."""
    return f"{in_pairs(match[1])} {match[2].upper()}."


def read_percent(match: re.Match[str]) -> Reading:
    """Measures in percent."""
    return "percent" if re.search(r"[\d½¼¾] ?$", left_of(match, 2)) else None


RULES = [
    Rule(Kind.NUMBER, "d", re.compile(r"(\d{3,4})([pi])(?!\w)"), read_resolution),
    Rule(Kind.UNIT, "d", re.compile(r"(\d)' ?(\d{1,2})(?:\"|'')"), read_feet_and_inches),
    Rule(Kind.UNIT, "l", re.compile(r"x(?= ?\d)"), read_by),
    Rule(Kind.UNIT, "s", re.compile(r"%"), read_percent),
    Rule(Kind.UNIT, "s", re.compile(r"° ?([CFK])?(?!\w)"), read_degrees),
    Rule(Kind.UNIT, "ls", re.compile(UNIT_PATTERN), read_unit),
]
