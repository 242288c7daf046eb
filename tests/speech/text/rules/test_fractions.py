"""Fractions and mixed numbers."""

import pytest

from tests.speech.text.rules.reading import read_aloud


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("1/2", "one half"),
        ("3/4 cup", "three quarters cup"),
        ("2½ miles", "two and a half miles"),
        ("1 1/2 cups", "one and a half cups"),
        ("5/8", "five eighths"),
        ("24/7", "twenty four seven"),
        ("1/100", "one hundredth"),
        ("7/23", "seven over twenty three"),
        ("3/0", "three over zero"),
        ("¾", "three quarters"),
        ("1 5/3", "one five thirds"),
    ],
)
def test_readings(written, spoken):
    assert read_aloud(written) == spoken
