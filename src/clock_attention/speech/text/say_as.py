"""SSML's `say-as`: read a text as a date, a number, letters and so on, in spoken words."""

from __future__ import annotations

import re
from collections.abc import Callable

from clock_attention.speech.text.characters import fold
from clock_attention.speech.text.number_words import cardinal, decimal, digits, ordinal, roman, year
from clock_attention.speech.text.rules.dates import MONTHS, two_digit_year
from clock_attention.speech.text.sentences import sentences
from clock_attention.speech.text.tokens import Kind

SIGNS = {
    **{
        ".": "dot",
        "-": "dash",
        "_": "underscore",
        "/": "slash",
        "\\": "backslash",
        "@": "at",
        "#": "hash",
        "+": "plus",
    },
    **{"&": "and", "*": "star", "%": "percent", ":": "colon", ";": "semicolon", ",": "comma", "!": "exclamation"},
    **{"?": "question mark", "=": "equals", "$": "dollar", "(": "parenthesis", ")": "parenthesis", "'": "apostrophe"},
}
RE_NUMBER = re.compile(r"\s*([+-]?)\s*((?:\d{1,3}(?:,\d{3})+|\d{1,60})?(?:\.\d{1,60})?)\s*")
LONGEST_SPELLED = 200  # characters
DATE_ORDERS = ("mdy", "dmy", "ymd", "md", "dm", "ym", "my", "y", "m", "d")


def read_as(written: str, kind: str, form: str = "") -> str:
    """The spoken words of a `say-as`: `<say-as interpret-as="kind" format="form">written</say-as>`.

    Raises:
        ValueError: if the kind is unknown, or the text cannot be read as that kind.
    """
    if kind == "date" and form:
        return read_date(written, form)
    reading = READINGS.get(kind)
    if reading is None:
        known = ", ".join(name for name in READINGS if name != "text")
        raise ValueError(f'interpret-as="{kind[:40]}", expected one of {known}')
    words = reading(written)
    if not words:
        raise ValueError(f"{written[:40]!r} cannot be read as {kind}")
    return words


def read_text(written: str) -> str:
    """`say-as` for kinds without special treatment: as the front end would read the text, without pauses."""
    tokens = [token for sentence in sentences(written) for token in sentence.tokens]
    return " ".join(token.spoken for token in tokens if token.kind != Kind.MARK)


def read_characters(written: str) -> str:
    """`say-as` characters: spelled out."""
    if len(written) > LONGEST_SPELLED:
        raise ValueError(f"{len(written)} characters to spell, expected at most {LONGEST_SPELLED}")
    names = []
    for character in written:
        if character.isdecimal():
            names.append(digits(character))
        elif character in SIGNS:
            names.append(SIGNS[character])
        else:
            names += [f"{letter.upper()}." for letter in fold(character) if letter.isalpha()]
    return " ".join(names)


def read_cardinal(written: str) -> str:
    """`say-as` cardinal: "42", "-3.5" or a Roman numeral."""
    if value := roman(written.strip()):
        return cardinal(value)
    match = RE_NUMBER.fullmatch(written)
    if match is None or not match[2]:
        return ""
    return f"{'minus ' if match[1] == '-' else ''}{decimal(match[2])}"


def read_ordinal(written: str) -> str:
    """`say-as` ordinal: "42", "42nd" or a Roman numeral."""
    bare = re.sub(r"(?:st|nd|rd|th|,|\s|\.$)", "", written.strip(), flags=re.I)
    number = roman(bare) or (int(bare) if bare.isdecimal() and len(bare) <= 15 else 0)
    return ordinal(number) if number else ""


def read_telephone(written: str) -> str:
    """`say-as` telephone: digit by digit."""
    return ("plus " if written.strip().startswith("+") else "") + digits(written)


def read_date(written: str, form: str) -> str:
    """`say-as` date: "3/4/2021" in a given order of its parts: mdy, dmy, ymd, md, dm, ym, my, y, m or d."""
    if form not in DATE_ORDERS:
        raise ValueError(f'format="{form[:40]}", expected one of {", ".join(DATE_ORDERS)}')
    parts = re.findall(r"\d{1,4}", written)
    if len(parts) == 1 and len(form) > 1 and len(parts[0]) == 4 and written.strip().isdecimal():
        parts = []
    if len(parts) != len(form):
        raise ValueError(f"{written[:40]!r} is no date in the order {form}")
    found = dict(zip(form, parts, strict=True))
    month, day = int(found.get("m", "1")), int(found.get("d", "1"))
    if not (1 <= month <= 12 and 1 <= day <= 31):
        raise ValueError(f"{written[:40]!r} is no date in the order {form}")
    words = [MONTHS[month - 1]] if "m" in found else []
    words += [ordinal(day)] if "d" in found else []
    words += [year(two_digit_year(found["y"]))] if "y" in found else []
    return " ".join(words)


READINGS: dict[str, Callable[[str], str]] = {
    "text": read_text,
    "characters": read_characters,
    "spell-out": read_characters,
    "verbatim": read_characters,
    "digits": digits,
    "cardinal": read_cardinal,
    "number": read_cardinal,
    "ordinal": read_ordinal,
    "telephone": read_telephone,
    **dict.fromkeys(("date", "time", "duration", "currency", "unit", "fraction", "address", "name", "net"), read_text),
}
