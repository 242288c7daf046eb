import logging
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.text.hibari import HibariPhonemizer
from clock_attention.speech.text.phonemes import (
    PAUSE_STRENGTH,
    UnreadableTextError,
    Word,
    assemble,
    token_ids,
)

HIBARI = HibariPhonemizer()


def test_text_with_nothing_to_say_is_refused() -> None:
    for text in ("", "  ...", "😀 日本"):
        with pytest.raises(UnreadableTextError, match="at least one English word"):
            HIBARI(text)


def test_skipped_characters_are_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert HIBARI("fine 😀 day").tokens == HIBARI("fine day").tokens
    assert "😀" in caplog.text


unit = st.one_of(
    st.sampled_from([" ", ",", ";", ".", "!", "?", '"']),
    st.builds(Word, st.just("word"), st.lists(st.lists(st.just("x"), max_size=3).map(tuple), max_size=2).map(tuple)),
)


@given(st.lists(unit, max_size=12))
def test_boundaries_never_double_or_lead(units: list[Word | str]) -> None:
    tokens = assemble(units).tokens
    assert not tokens or tokens[0] not in PAUSE_STRENGTH
    assert not any(a in PAUSE_STRENGTH and b in PAUSE_STRENGTH for a, b in pairwise(tokens))
    assert not tokens or tokens[-1] != " "


def test_ids_are_places_in_the_inventory() -> None:
    assert token_ids(["b", "a"], ("a", "b")) == [1, 0]
    with pytest.raises(ValueError, match="'z' is not in the inventory of 2 symbols"):
        token_ids(["z"], ("a", "b"))
