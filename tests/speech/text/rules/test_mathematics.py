"""Signs of mathematics."""

import pytest

from tests.speech.text.rules.reading import read_aloud


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("x² + y² = z²", "x squared plus y squared equals z squared"),
        ("10^6", "ten to the sixth"),
        ("3e8", "three times ten to the eighth"),
        ("5 < 7", "five is less than seven"),
        ("a * b", "a b"),
        ("3 * 4", "three times four"),
        ("8 / 2", "eight divided by two"),
        ("~50", "about fifty"),
        ("#1", "number one"),
        ("α and β", "alpha and beta"),
        ("±5", "plus or minus five"),
        ("10⁻³", "ten to the minus third"),
    ],
)
def test_readings(written, spoken):
    assert read_aloud(written) == spoken
