"""Amounts of money."""

import pytest

from tests.speech.text.rules.reading import read_aloud


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("$5", "five dollars"),
        ("$1", "one dollar"),
        ("a $5 bill", "a five dollar bill"),
        ("$5.25", "five dollars and twenty five cents"),
        ("$0.01", "one cent"),
        ("$2.5 million", "two point five million dollars"),
        ("$3k", "three thousand dollars"),
        ("$5–10", "five to ten dollars"),
        ("£20", "twenty pounds"),
        ("50¢", "fifty cents"),
        ("100 USD", "one hundred u s dollars"),
        ("$20/hr", "twenty dollars per hour"),
        ("-$5", "minus five dollars"),
        ("US$5", "five u s dollars"),
    ],
)
def test_readings(written, spoken):
    assert read_aloud(written) == spoken
