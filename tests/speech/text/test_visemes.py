"""Visemes."""

from itertools import pairwise

import pytest

from clock_attention.speech.text.hibari import ArpabetPhonemizer, HibariPhonemizer
from clock_attention.speech.text.visemes import PHONES, SILENCE, shapes, viseme_intervals
from clock_attention.timestamps import Interval


@pytest.mark.parametrize("reader", [HibariPhonemizer, ArpabetPhonemizer])
def test_every_phone_has_a_shape(reader):
    phones = [symbol for symbol in reader.symbols if symbol.strip("ˈˌ").isalpha()]
    for phone in phones:
        assert set(shapes(phone, arpabet=reader is ArpabetPhonemizer)) <= set(PHONES), phone


def test_diphthongs_move_and_equal_neighbours_are_one():
    phones = [Interval(0, 0.1, ""), Interval(0.1, 0.2, "b"), Interval(0.2, 0.3, "m"), Interval(0.3, 0.4, "ˈI")]
    assert [shape.label for shape in viseme_intervals(phones)] == [SILENCE, "PP", "aa", "ih"]
    found = viseme_intervals(phones)
    assert all(a.end == b.start for a, b in pairwise(found))
    assert found[-1].end == 0.4
