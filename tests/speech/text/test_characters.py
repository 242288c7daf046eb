import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.text.characters import KNOWN, composed, fold, plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("“Don’t”—he said…", '"Don\'t"—he said…'),
        ("tab\tand\xa0space", "tab and space"),
        ("CO₂ and x²", "CO2 and x²"),
        ("ﬁne ﬁgures", "fine figures"),
        ("soft\u00adhyphen zero\u200bwidth", "softhyphen zerowidth"),
        ("one\u2028two\x0bthree", "one\ntwo\nthree"),
    ],
)
def test_typography_becomes_plain(text: str, expected: str) -> None:
    assert plain(text).text == expected


def test_what_is_dropped_is_reported_once() -> None:
    found = plain("Hello 😀 world 日本 😀\x00")
    assert found.text.split() == ["Hello", "world"]
    assert found.dropped == "😀日本\x00"


@given(st.text(max_size=100))
def test_only_known_characters_are_left_and_each_knows_its_origin(text: str) -> None:
    text = composed(text)
    found = plain(text)
    assert len(found.origin) == len(found.text)
    assert list(found.origin) == sorted(found.origin)
    for character in found.text:
        greek = unicodedata.name(character, "").startswith("GREEK")
        assert character in KNOWN or character.isdigit() or greek or fold(character).isalpha()
    assert plain(found.text).text == found.text


@pytest.mark.parametrize(
    ("word", "folded"), [("naïve", "naive"), ("Łódź", "Lodz"), ("Straße", "Strasse"), ("Æsop", "Aesop")]
)
def test_accents_are_folded(word: str, folded: str) -> None:
    assert fold(word) == folded
