"""IPA as people write it → the symbols of the default phonemizer."""

import pytest

from clock_attention.speech.text.hibari import HibariPhonemizer
from clock_attention.speech.text.ipa import EQUIVALENT, OWN, phones


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("/ʃɪˈvɔːn/", "ʃ ɪ v ˈɔ n"),
        ("[ˈtʃeɪndʒ]", "ʧ ˈA n ʤ"),
        ("kæt", "k ˈæ t"),  # one syllable is stressed, though dictionaries do not write it
        ("ˌæbəˈkʌs", "ˌæ b ə k ˈʌ s"),
        ("t͡ʃɛs", "ʧ ˈɛ s"),
        ("ʁuʒ", "ɹ ˈu ʒ"),  # a French r
        ("'siti", "s ˈi t i"),
        ("ˈbʌtn̩", "b ˈʌ t ᵊ n"),
    ],
)
def test_transcriptions(written, expected):
    assert phones(written) == (tuple(expected.split()),)


def test_words_are_kept_apart():
    assert phones("/həˈloʊ wɜːld/") == (("h", "ə", "l", "ˈO"), ("w", "ˈɜ", "l", "d"))


def test_everything_becomes_a_symbol_that_the_voice_has():
    known = set(HibariPhonemizer.symbols)
    assert {symbol for sounds in EQUIVALENT.values() for symbol in sounds} <= OWN
    assert {symbol.lstrip("ˈˌ") for symbol in known} >= OWN


@pytest.mark.parametrize(
    ("written", "message"), [("//", "is no pronunciation"), ("k5t", "'5' in 'k5t' is no IPA symbol")]
)
def test_other_text_is_refused(written, message):
    with pytest.raises(ValueError, match=message):
        phones(written)
