"""Phonemizers by name."""

import pytest

from clock_attention.speech.text.phonemizers import phonemizer


def test_unknown_back_end_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="hibari, arpabet, cmudict or espeak"):
        phonemizer("klingon")
