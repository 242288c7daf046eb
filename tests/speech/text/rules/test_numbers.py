"""Numbers, by what stands around them."""

import pytest

from tests.speech.text.rules.reading import read_aloud


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("1,234", "one thousand two hundred thirty four"),
        ("in 1984", "in nineteen eighty four"),
        ("1984 people", "one thousand nine hundred eighty four people"),
        ("1500 men", "fifteen hundred men"),
        ("room 302", "room three zero two"),
        ("the 1990s", "the nineteen nineties"),
        ("the class of '68", "the class of sixty eight"),
        ("3.14", "three point one four"),
        (".5", "point five"),
        ("a .45", "a forty five"),
        ("007", "double zero seven"),
        ("21st", "twenty first"),
        ("2.5k", "two point five thousand"),
        ("4x faster", "four times faster"),
        ("zip code 90210", "zip code nine zero two one zero"),
        ("221 Baker Street", "two twenty one baker street"),
        ("1" * 40, " ".join(["one"] * 40)),
    ],
)
def test_readings(written, spoken):
    assert read_aloud(written) == spoken
