"""Dates in words and in figures."""

import pytest

from tests.speech.text.rules.reading import read_aloud


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("March 5, 2021", "march fifth twenty twenty one"),
        ("5 March 2021", "the fifth of march twenty twenty one"),
        ("the 5th of March", "the fifth of march"),
        ("2021-03-05", "march fifth twenty twenty one"),
        ("3/14/99", "march fourteenth nineteen ninety nine"),
        ("14/3/1999", "march fourteenth nineteen ninety nine"),
        ("due 9/12", "due september twelfth"),
        ("9/11", "nine eleven"),
        ("the 1998-99 season", "the nineteen ninety eight to ninety nine season"),
        ("Jan. 5–7", "january fifth to seventh"),
        ("the 1939–45 war", "the nineteen thirty nine to forty five war"),
        ("Mon, Jan 5", "monday january fifth"),
        ("The sun rose. Sat down.", "the sun rose sat down"),
        ("May 45 people come?", "may forty five people come"),
    ],
)
def test_readings(written, spoken):
    assert read_aloud(written) == spoken
