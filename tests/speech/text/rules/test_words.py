"""Words, marks and the ends of lines."""

import pytest

from tests.speech.text.rules.reading import read_aloud


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("cat(s)", "cats"),
        ("'tis rock 'n' roll", "tis rock n roll"),
        ("thisIsSomeLongName", "this is some long name"),
        ("iPhone", "iphone"),
        ("naïve café", "naive cafe"),
        ("well-known", "well known"),
        ("Wait... what?", "wait what"),
        ('"Yes," he said.', "yes he said"),
        ("a/b", "a b"),
        ("<b>bold</b>", "bold"),
    ],
)
def test_readings(written, spoken):
    assert read_aloud(written) == spoken
