"""Telephone numbers, digit by digit."""

import pytest

from tests.speech.text.rules.reading import read_aloud


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("555-0123", "five five five zero one two three"),
        ("pages 455-9876", "pages four hundred fifty five to nine thousand eight hundred seventy six"),
        ("(555) 010-4477", "five five five zero one zero four four seven seven"),
        ("+1 555 010 4477", "plus one five five five zero one zero four four seven seven"),
        ("1-800-555-0199", "one eight hundred five five five zero one nine nine"),
        ("Call 911.", "call nine one one"),
        ("911 people", "nine hundred eleven people"),
        ("500-1000", "five hundred to one thousand"),
        ("dial 411", "dial four one one"),
        ("411 pages", "four hundred eleven pages"),
    ],
)
def test_readings(written, spoken):
    assert read_aloud(written) == spoken
