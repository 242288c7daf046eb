"""Numbers, ordinals, fractions, ranges and what is counted in units."""

from __future__ import annotations

import re

from clock_attention.speech.text.numbers import cardinal, decimal, digits, in_pairs, integer, ordinal, plural, year
from clock_attention.speech.text.rules.endings import with_stop
from clock_attention.speech.text.rules.units import UNIT_PATTERN, UNITS
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
)

PAIRED = frozenset(
    "room rm suite flight route highway hwy interstate error bus boeing airbus gate apartment apt studio extension "
    "channel train hotel".split()
)
SPELLED_OUT = frozenset("code pin zip password passcode serial id account postcode zipcode box".split())
STREETS = "Street|St|Avenue|Ave|Road|Rd|Drive|Dr|Lane|Ln|Boulevard|Blvd|Court|Ct|Place|Pl|Square|Sq|Way|Parkway|Pkwy|Terrace"
RE_STREET = re.compile(rf"[A-Z]? (?:(?:[NSEW]\.?|[A-Z][a-z]+|\d{{1,3}}(?:st|nd|rd|th)) ){{1,3}}(?:{STREETS})\b")
YEARS = range(1100, 2100)
COUNTED_WORDS = frozenset("people men women children feet percent dollars hours minutes more or and of".split())
NAMED_YEARS = frozenset("in since until during year circa".split())  # a year, whatever follows
LIKELY_YEARS = NAMED_YEARS | frozenset("by from of before after around class summer winter spring fall the".split())
FRACTIONS = {"½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4), "⅕": (1, 5), "⅖": (2, 5), "⅗": (3, 5)}
FRACTIONS |= {"⅘": (4, 5), "⅙": (1, 6), "⅚": (5, 6), "⅛": (1, 8), "⅜": (3, 8), "⅝": (5, 8), "⅞": (7, 8)}
VULGAR = "".join(FRACTIONS)
SIDE_BY_SIDE = {"24/7": "twenty four seven", "50/50": "fifty fifty", "20/20": "twenty twenty"}
SCALED = {"k": "thousand", "m": "million", "b": "billion", "bn": "billion", "mn": "million"}
CALIBERS = frozenset((".22", ".38", ".44", ".45", ".50", ".357"))
PLAIN_NUMBER = r"(?:\d{1,3}(?:,\d{3}){1,5}(?![\d,]*\d)|\d{1,60})"
SCORED = frozenset("won win wins lost lose loses beat beats winning losing score vote tied drew lead led leads".split())


def read_integer(match: re.Match[str]) -> Reading:
    """A run of digits, by what stands around it: a year, a house, a code, a count."""
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
    if len(count) in (3, 4) and (previous in PAIRED or RE_STREET.match(right_of(match, 60))):
        return in_pairs(count)
    if len(count) == 4:
        return read_four_digits(match, int(count), previous)
    return integer(count)


def spelled_out(match: re.Match[str], previous: str) -> bool:
    near = left_of(match, 24).lower().split()
    return previous in SPELLED_OUT or bool(SPELLED_OUT & {word.strip(".:,") for word in near[-3:]})


def read_four_digits(match: re.Match[str], value: int, previous: str) -> Reading:
    following = after_closely(match)
    counted = following.islower() and (
        following in COUNTED_WORDS - {"or", "and", "of"}
        or (following.endswith("s") and following not in ("was", "is", "has", "its", "this", "as", "does"))
    )
    if previous in NAMED_YEARS or (value in YEARS and not counted) or (previous == "the" and value in YEARS and value % 100):
        likely = True
    else:
        likely = previous in LIKELY_YEARS and not counted
    if likely and 1000 <= value < 2100:
        return [Part(match.group(), year(value), Kind.YEAR)]
    if counted or value in YEARS:
        return in_hundreds(value)
    return in_pairs(str(value)) if previous in ("the", "intel", "model") else cardinal(value)


def in_hundreds(value: int) -> str:
    """1500 → "fifteen hundred"; 1234 → "one thousand two hundred thirty four"."""
    return f"{cardinal(value // 100)} hundred" if value % 100 == 0 and value % 1000 else cardinal(value)


def read_decimal(match: re.Match[str]) -> Reading:
    return decimal(match.group())


def read_point(match: re.Match[str]) -> Reading:
    """.5, where no digit stands before the point; a .45 is a pistol."""
    if left_of(match, 1).isalnum():
        return None
    weapon = after_closely(match).lower() in ("caliber", "rifle", "pistol", "revolver", "special", "magnum")
    if match.group() in CALIBERS and (weapon or before_closely(match).lower() in ("a", "the")):
        return in_pairs(match.group()[1:])
    return decimal(match.group())


def read_minus(match: re.Match[str]) -> Reading:
    """The sign of a number, not a dash within a word or a range."""
    return "minus" if re.search(r"(^|[\s(\[=<>*/,×÷])$", left_of(match, 1)) else None


def read_plus(match: re.Match[str]) -> Reading:
    return "plus"


def read_ordinal(match: re.Match[str]) -> Reading:
    return ordinal(int(match[1].replace(",", ""))) + (match[3] or "").lower()


def read_decade(match: re.Match[str]) -> Reading:
    """1990s, '90s, 20s; and single figures in the plural: two 6s."""
    number = match[2]
    if len(number) == 4:
        words = year(int(number))
    elif match[1] and len(number) == 2 and not match[3]:
        return cardinal(int(number)) if before(match) else None
    else:
        words = cardinal(int(number))
    return [Part(match.group(), plural(words), Kind.YEAR if len(number) == 4 else None)]


def read_short_year(match: re.Match[str]) -> Reading:
    """The class of '68."""
    return cardinal(int(match[1])) if int(match[1]) >= 10 else f"oh {cardinal(int(match[1]))}"


def read_scaled(match: re.Match[str]) -> Reading:
    """2.5k, 3M, 1.2bn. A capital K or B after a whole number is a letter: 4K, 221B."""
    if match[2] in "KB" and "." not in match[1] and not after_closely(match).islower():
        return None
    return f"{decimal(match[1])} {SCALED[match[2].lower()]}"


def fraction(top: int, bottom: int) -> str | None:
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
    if match.group() in SIDE_BY_SIDE:
        return SIDE_BY_SIDE[match.group()]
    top, bottom = int(match[1]), int(match[2])
    if bottom > 1000 or (bottom > 20 and bottom not in (32, 64, 100, 1000)) or top > 999:
        return f"{cardinal(top)} over {cardinal(bottom)}"
    return fraction(top, bottom) or f"{cardinal(top)} over {cardinal(bottom)}"


def read_mixed(match: re.Match[str]) -> Reading:
    """1 1/2, 2½."""
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


def read_range(match: re.Match[str]) -> Reading:
    """The dash between two numbers: "to", or nothing in a score."""
    left, right = left_of(match, 24), right_of(match, 24)
    number = r"(?:\d[\d,.]*|[A-Z])"
    if re.search(r"\d\s?(?:%|[ap]\.?m\.?|°[CF]?)?$", left, re.I) and re.match(r"[$£€-]?\d", right):
        if re.search(r"\s$", left) or match.group().startswith(" "):
            if match.group().strip() == "-" and re.search(r"=", right):
                return "minus"
        scored = SCORED & set(re.findall(r"[a-z]+", left_of(match, 24).lower())[-2:])
        if scored or falling(left, right):
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
    return None


def falling(left: str, right: str) -> bool:
    """Whether the number before a dash is no smaller than the one after it, as in 50-50: a score, not a range."""
    previous = re.search(r"(?<![\d:.,])(\d{1,3}(?:\.\d{1,3})?)$", left)
    following = re.match(r"(\d{1,3}(?:\.\d{1,3})?)(?![\d:])", right)
    return previous is not None and following is not None and float(previous[1]) >= float(following[1])


def read_by(match: re.Match[str]) -> Reading:
    """The x of 4x4 and 10 cm x 20 cm."""
    return "by" if re.search(r"\d(?: ?[a-z]{1,2})? ?$", left_of(match, 6)) and re.match(r"\s?\d", right_of(match, 2)) else None


def read_times(match: re.Match[str]) -> Reading:
    """4x faster."""
    return [Part(match[1], decimal(match[1])), Part("x", "times", Kind.MATH)]


def read_feet_and_inches(match: re.Match[str]) -> Reading:
    return f"{cardinal(int(match[1]))} foot {cardinal(int(match[2]))}"


def read_unit(match: re.Match[str]) -> Reading:
    """A unit after its number, in the singular after 1 and in front of a noun: "a 5-km run"."""
    counted = re.search(r"(?P<number>\d(?:[\d.,]*\d)?[⁰¹²³⁴⁵⁶⁷⁸⁹]{0,3}|[½¼¾⅓⅔⅛⅜⅝⅞])(?P<scale> (?:hundred|thousand|million|billion))?(?P<join>[ -]?)$", left_of(match, 24))
    per = re.search(r"/$", left_of(match, 1))
    if not counted and not per:
        return None
    unit = match["unit"]
    one, several = UNITS[unit]
    if per:
        return with_stop(match, one)
    join, glued = counted["join"], not counted["join"]
    if len(unit) == 1 and unit in "mgshVWLtlAJNKCF" and (glued and unit in "KCFA" or re.match(r"['&]", right_of(match, 1))):
        return None
    if unit == "in" and not match.group().endswith(".") and (after_closely(match) or glued):
        return None
    singular = counted["number"] in ("1", "½", "¼") or counted["number"] == "1." or (join == "-") or match["slash"] == "-"
    singular = singular and not counted["scale"]
    if before_article(match) and after_closely(match) and not match.group().endswith("."):
        singular = singular or unit in ("W", "V", "GHz", "MHz", "kg", "km", "GB", "MB", "oz", "ft", "mm", "cm")
    return with_stop(match, one if singular else several)


def before_article(match: re.Match[str]) -> bool:
    return re.search(r"\b[Aa]n? \d[\d.,]*[ -]?$", left_of(match, 20)) is not None


def read_degrees(match: re.Match[str]) -> Reading:
    counted = re.search(r"(\d[\d.,]*) ?$", left_of(match, 12))
    if not counted:
        return "degrees"
    scale = {"C": " Celsius", "F": " Fahrenheit", "K": " Kelvin"}.get(match[1] or "", "")
    return ("degree" if counted[1] == "1" else "degrees") + scale


def read_resolution(match: re.Match[str]) -> Reading:
    """1080p, 720i."""
    return f"{in_pairs(match[1])} {match[2].upper()}"


def read_hyphen(match: re.Match[str]) -> Reading:
    """The hyphen of "3-year-old" is not said."""
    return [Part("-", "", Kind.MARK)] if left_of(match, 1).isdigit() else None


FRACTION = r"(?P<top>\d{1,3})/(?P<bottom>\d{1,4})(?![\d/])"
RULES = [
    Rule(Kind.NUMBER, "d", re.compile(r"(\d{3,4})([pi])(?!\w)"), read_resolution),
    Rule(Kind.UNIT, "d", re.compile(r"(\d)' ?(\d{1,2})(?:\"|'')"), read_feet_and_inches),
    Rule(Kind.ORDINAL, "d", re.compile(r"(\d{1,3}(?:,\d{3}){1,4}|\d{1,9})(st|nd|rd|th)(s)?(?![\w])", re.I), read_ordinal),
    Rule(Kind.NUMBER, "ds", re.compile(r"(')?(\d{4}|\d{1,2})('?s)(?!\w)"), read_decade),
    Rule(Kind.YEAR, "s", re.compile(r"'(\d{2})(?![\w'])(?![.,]\d)"), read_short_year),
    Rule(Kind.FRACTION, "d", re.compile(rf"(?P<sign>)(?P<whole>\d{{1,4}})[ -]{FRACTION}"), read_mixed),
    Rule(Kind.FRACTION, "ds", re.compile(rf"(?P<whole>\d{{0,6}}) ?(?P<sign>[{VULGAR}])"), read_mixed),
    Rule(Kind.FRACTION, "d", re.compile(r"(\d{1,4})/(\d{1,4})(?![\d/]|\.\d)"), read_fraction),
    Rule(Kind.NUMBER, "d", re.compile(rf"({PLAIN_NUMBER}(?:\.\d{{1,30}})?)(k|K|M|B|bn|mn)(?!\w)"), read_scaled),
    Rule(Kind.NUMBER, "d", re.compile(r"(\d{1,4}(?:\.\d{1,3})?)x(?!\w|\s?\d)"), read_times),
    Rule(Kind.NUMBER, "d", re.compile(rf"{PLAIN_NUMBER}\.\d{{1,60}}(?![a-zA-Z]{{2,}}-|\w*\d)"), read_decimal),
    Rule(Kind.NUMBER, "s", re.compile(r"\.\d{1,30}(?![.\d])"), read_point),
    Rule(Kind.MATH, "s", re.compile(r"-(?=[.$£€]?\d)"), read_minus),
    Rule(Kind.MATH, "s", re.compile(r"(?:(?<=\d)\+(?!\d)|\+(?=\d))"), read_plus),
    Rule(Kind.RANGE, "s", re.compile(r"[-–—]{1} ?(?=[$£€\dA-Z-])"), read_range),
    Rule(Kind.UNIT, "l", re.compile(r"x(?= ?\d)"), read_by),
    Rule(Kind.UNIT, "s", re.compile(r"%"), lambda match: "percent" if re.search(r"[\d½¼¾] ?$", left_of(match, 2)) else None),
    Rule(Kind.UNIT, "s", re.compile(r"° ?([CFK])?(?!\w)"), read_degrees),
    Rule(Kind.UNIT, "ls", re.compile(UNIT_PATTERN), read_unit),
    Rule(Kind.NUMBER, "d", re.compile(rf"{PLAIN_NUMBER}(?![a-zA-Z\d])(?!-[A-Z0-9]{{0,8}}[A-Z])"), read_integer),
    Rule(Kind.NUMBER, "d", re.compile(rf"{PLAIN_NUMBER}(?=x\d|[AaPp]\.?[Mm]\b|(?:{UNIT_PATTERN}))"), read_integer),
    Rule(Kind.MARK, "s", re.compile(r"-(?=[A-Za-z])"), read_hyphen),
]
