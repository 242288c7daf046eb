"""Addresses: dots, slashes and signs are named."""

import pytest

from tests.speech.text.rules.reading import read_aloud


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("https://www.example.com/a-b", "w w w dot example dot com slash a dash b"),
        ("jane_doe99@example.co.uk", "jane underscore doe ninety nine at example dot co dot u k"),
        ("report.pdf", "report dot p d f"),
        ("@nasa", "at nasa"),
        ("#winning", "hashtag winning"),
        ("192.168.0.1", "one ninety two dot one sixty eight dot zero dot one"),
        ("v2.0.1", "version two point zero point one"),
        (".NET", "dot net"),
        ("The end.Go on", "the end go on"),
        ("3.14.15", "three point fourteen point fifteen"),
    ],
)
def test_readings(written, spoken):
    assert read_aloud(written) == spoken
