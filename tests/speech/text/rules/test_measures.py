"""Units after their numbers."""

import pytest

from tests.speech.text.rules.reading import read_aloud


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("5 km", "five kilometers"),
        ("1 km", "one kilometer"),
        ("a 5-km run", "a five kilometer run"),
        ("5 in total", "five in total"),
        ("5 in.", "five inches"),
        ("20 °C", "twenty degrees celsius"),
        ("1°", "one degree"),
        ("50%", "fifty percent"),
        ("6' 2\"", "six foot two"),
        ("1080p", "ten eighty p"),
        ("4x4", "four by four"),
        ("10 cm x 20 cm", "ten centimeters by twenty centimeters"),
        ("a 60 W bulb", "a sixty watt bulb"),
        ("3 million km", "three million kilometers"),
        ("a 4K TV", "a four k t v"),
    ],
)
def test_readings(written, spoken):
    assert read_aloud(written) == spoken
