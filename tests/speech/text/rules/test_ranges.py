"""Signs of numbers, and the dash between two of them."""

import pytest

from tests.speech.text.rules.reading import read_aloud


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("5-10", "five to ten"),
        ("They won 5-3.", "they won five three"),
        ("50-50", "fifty fifty"),
        ("-5 degrees", "minus five degrees"),
        ("3-year-old", "three year old"),
        ("9 a.m.-5 p.m.", "nine a m to five p m"),
        ("Mon-Fri", "monday to friday"),
        ("7 - 2 = 5", "seven minus two equals five"),
        ("+5", "plus five"),
        ("A–C", "a to c"),
    ],
)
def test_readings(written, spoken):
    assert read_aloud(written) == spoken
