"""Times of day, durations and ratios."""

import pytest

from tests.speech.text.rules.reading import read_aloud


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("3:45", "three forty five"),
        ("3:05 p.m.", "three zero five p m"),
        ("at 3:00", "at three o'clock"),
        ("3:00 PM", "three p m"),
        ("15:00", "fifteen hundred"),
        ("2:05:30", "two hours five minutes and thirty seconds"),
        ("a ratio of 16:9", "a ratio of sixteen to nine"),
        ("2h 30min", "two hours thirty minutes"),
        ("I am here", "i am here"),
        ("99:99", "ninety nine to ninety nine"),
    ],
)
def test_readings(written, spoken):
    assert read_aloud(written) == spoken
