"""Readings on request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.text.say_as import READINGS, read_as


@pytest.mark.parametrize(
    ("written", "kind", "form", "spoken"),
    [
        ("W3C", "characters", "", "W. three C."),
        ("a-b", "spell-out", "", "A. dash B."),
        ("007", "digits", "", "zero zero seven"),
        ("1,234", "cardinal", "", "one thousand two hundred thirty four"),
        ("-3.5", "number", "", "minus three point five"),
        ("XIV", "cardinal", "", "fourteen"),
        ("3rd", "ordinal", "", "third"),
        ("21", "ordinal", "", "twenty first"),
        ("+44 20", "telephone", "", "plus four four two zero"),
        ("3/4/2021", "date", "dmy", "April third twenty twenty one"),
        ("3/4/2021", "date", "mdy", "March fourth twenty twenty one"),
        ("2021-04-03", "date", "ymd", "April third twenty twenty one"),
        ("1999", "date", "y", "nineteen ninety nine"),
        ("$5", "currency", "", "five dollars"),
    ],
)
def test_readings(written, kind, form, spoken):
    assert read_as(written, kind, form) == spoken


@pytest.mark.parametrize(
    ("written", "kind", "form"),
    [
        ("pie", "cardinal", ""),
        ("x", "song", ""),
        ("13/40/2021", "date", "mdy"),
        ("1", "date", "qq"),
        ("…", "characters", ""),
    ],
)
def test_what_cannot_be_read_that_way_is_refused(written, kind, form):
    with pytest.raises(ValueError, match=r"expected|cannot|is no date"):
        read_as(written, kind, form)


@given(st.text(max_size=20), st.sampled_from(sorted(READINGS)))
def test_any_text_is_read_or_refused(written, kind):
    try:
        spoken = read_as(written, kind)
    except ValueError:
        return
    assert spoken.strip()
