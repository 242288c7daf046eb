"""Abbreviations, by what stands around them."""

import pytest

from tests.speech.text.rules.reading import read_aloud


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Dr. Smith lives on Elm Dr.", "doctor smith lives on elm drive"),
        ("St. Paul is on Main St. in town.", "saint paul is on main street in town"),
        ("See no. 5.", "see number five"),
        ("The answer is no. 5 people left.", "the answer is no five people left"),
        ("pp. 3–5", "pages three to five"),
        ("Roe v. Wade", "roe v wade"),
        ("e.g. this, i.e. that", "for example this that is that"),
        ("Jones & Co. went home.", "jones and company went home"),
        ("c. 1850", "circa eighteen fifty"),
        ("coffee w/o milk", "coffee without milk"),
        ("the max. height", "the maximum height"),
    ],
)
def test_readings(written, spoken):
    assert read_aloud(written) == spoken
