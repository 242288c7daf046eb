from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.aligner.phone_classes import ALSO, CLASSES, FROM_ARPABET, PLACE, STATES, Sound, sounds
from clock_attention.speech.text.hibari import HibariPhonemizer
from clock_attention.speech.text.phonemes import NO_WORD


@given(st.lists(st.sampled_from(HibariPhonemizer.symbols), max_size=20))
def test_every_symbol_of_the_phonemizer_has_a_class(tokens):
    classes = sounds(tokens, [0] * len(tokens))
    assert len(classes) == len(tokens)
    for token, sound in zip(tokens, classes, strict=True):
        assert (sound is None) == (token in (" ", ",", ".", "!", "?"))
        assert sound is None or all(0 < state < STATES for state in sound.states)


def test_r_coloured_vowels_are_one_sound_in_two_halves():
    assert sounds(["h", "ˈɜ", "ɹ"], [0] * 3)[1:] == [Sound("ɜ", (0,)), Sound("ɜ", (1,))]
    assert sounds(["w", "ˈɔ", "T", "ə", "ɹ"], [0] * 5)[3:] == [Sound("ɜ", (0,)), Sound("ɜ", (1,))]


def test_r_before_a_stressed_vowel_or_in_the_next_word_is_a_consonant():
    assert sounds(["ə", "ɹ", "ˈW", "n", "d"], [0] * 5)[:2] == [Sound("ə"), Sound("ɹ")]
    assert sounds(["ə", " ", "ɹ", "ˈɛ", "d"], [0, NO_WORD, 1, 1, 1])[::2] == [Sound("ə"), Sound("ɹ"), Sound("d")]


def test_tables_name_known_classes():
    assert set(FROM_ARPABET.values()) == set(CLASSES)
    assert all(name in PLACE and all(other in PLACE for other in others) for name, others in ALSO.items())
