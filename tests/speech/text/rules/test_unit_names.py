"""The table of units."""

import re

from clock_attention.speech.text.rules.unit_names import UNIT_PATTERN, UNITS, regular


def test_every_unit_is_matched_whole_and_not_within_a_word():
    pattern = re.compile(UNIT_PATTERN)
    for unit in UNITS:
        assert pattern.fullmatch(unit)["unit"] == unit
        assert pattern.match(unit + " ")["unit"] == unit
        assert not (found := pattern.match(unit + "zz")), found


def test_names_are_words_to_say():
    assert regular("meter") == ("meter", "meters")
    for one, several in UNITS.values():
        assert one.replace(" ", "").replace(".", "").isalpha()
        assert several.replace(" ", "").replace(".", "").isalpha()
