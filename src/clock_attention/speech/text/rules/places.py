"""American addresses: states, ZIP codes and points of the compass."""

from __future__ import annotations

import re

from clock_attention.speech.text.number_words import digits
from clock_attention.speech.text.rules.sentence_endings import STARTERS, with_stop
from clock_attention.speech.text.tokens import Kind, Part, Reading, Rule, after_closely, left_of, right_of, word_set

# Name, postal code, newspaper abbreviation if there is one.
STATES = """
Alabama AL Ala|Alaska AK|Arizona AZ Ariz|Arkansas AR Ark|California CA Calif|Colorado CO Colo|Connecticut CT Conn|
Delaware DE Del|Florida FL Fla|Georgia GA Ga|Hawaii HI|Idaho ID|Illinois IL Ill|Indiana IN Ind|Iowa IA|Kansas KS Kan|
Kentucky KY Ky|Louisiana LA La|Maine ME|Maryland MD Md|Massachusetts MA Mass|Michigan MI Mich|Minnesota MN Minn|
Mississippi MS Miss|Missouri MO Mo|Montana MT Mont|Nebraska NE Neb|Nevada NV Nev|New-Hampshire NH|New-Jersey NJ|
New-Mexico NM|New-York NY|North-Carolina NC|North-Dakota ND|Ohio OH|Oklahoma OK Okla|Oregon OR Ore|
Pennsylvania PA Pa|Rhode-Island RI|South-Carolina SC|South-Dakota SD|Tennessee TN Tenn|Texas TX Tex|Utah UT|
Vermont VT Vt|Virginia VA Va|Washington WA Wash|West-Virginia WV|Wisconsin WI Wis|Wyoming WY Wyo
"""
ROWS = [row.split() for row in STATES.replace("\n", "").split("|")]
STATE_NAMES = {short: row[0].replace("-", " ") for row in ROWS for short in row[1:]}
NEEDS_ZIP = frozenset({"OK", "MD", "MS", "ID"})  # after a comma these are more often something else
COMPASS = {"N": "north", "S": "south", "E": "east", "W": "west"}
STREET = r"(?:Street|St|Avenue|Ave|Road|Rd|Drive|Dr|Lane|Ln|Boulevard|Blvd|Court|Ct|Place|Pl|Way|Highway|Hwy)"
RE_TOWN_BEFORE = re.compile(r"([A-Z][a-z]+), $")
NO_TOWNS = STARTERS | word_set("dear go hello hey hi oh thanks")  # Yes, Pa.
RE_ZIP_AFTER = re.compile(r",? \d{5}(?!\d)")


def read_state(match: re.Match[str]) -> Reading:
    """The name of a state after that of a town: Reno, Nev. and Austin, TX 78701."""
    written, stop = match[1], match.group().endswith(".")
    town = RE_TOWN_BEFORE.search(left_of(match, 24))
    if town is None or town[1].lower() in NO_TOWNS or (not stop and not written.isupper()):
        return None
    coded = RE_ZIP_AFTER.match(right_of(match, 8)) is not None
    ended = re.match(r"\s*(?:[,;:)]|$)", right_of(match, 2)) is not None
    if written.isupper() and not coded and (written in NEEDS_ZIP or not (ended or stop)):
        return None
    name = STATE_NAMES[written]
    if stop and written.isupper():  # postal codes have no stop
        return [Part(written, name), Part(".", ".", Kind.MARK, ends_sentence=True)]
    return with_stop(match, name)


def read_zip(match: re.Match[str]) -> Reading:
    """A ZIP code after a state or the District of Columbia; with the four digits of ZIP+4, anywhere."""
    if match[2]:
        return [Part(match[1], digits(match[1])), Part("", ",", Kind.MARK), Part(match[2][1:], digits(match[2][1:]))]
    return digits(match[1]) if re.search(r"\b(?:[A-Z]{2}|[A-Z][a-z]+\.|D\.C\.),? $", left_of(match, 12)) else None


def read_compass(match: re.Match[str]) -> Reading:
    """Points of the compass: NE of town, Pennsylvania Ave. NW, 10 km/h SSW."""
    addressed = re.search(rf"\b{STREET}\.?,? $", left_of(match, 16))
    measured = re.search(r"(?:km/h|mph|knots|miles|mi\.?|km) $", left_of(match, 8))
    if not (addressed or measured or after_closely(match) == "of"):
        return None
    *first, last_but_one, last = (COMPASS[letter] for letter in match.group())
    return " ".join([*first, last_but_one + last])


RULES = [
    Rule(
        Kind.ABBREVIATION,
        "l",
        re.compile(rf"\b({'|'.join(sorted(STATE_NAMES, key=len, reverse=True))})(?:\.|(?!\w))"),
        read_state,
    ),
    Rule(Kind.CODE, "d", re.compile(r"(\d{5})(-\d{4})?(?![\w-]|[.,]\d)"), read_zip),
    Rule(Kind.ABBREVIATION, "l", re.compile(r"\b[NSEW]?[NS][EW](?!\w)"), read_compass),
]
