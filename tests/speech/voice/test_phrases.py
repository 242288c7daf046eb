"""Sentences cut into phrases: none too long, at punctuation where there is some."""

from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.text.phonemes import Word, assemble
from clock_attention.speech.voice.phrases import LONGEST_PHRASE, cut_phrases, part


def reading(text):
    """Letters for phonemes."""
    units = []
    for word in text.split(" "):
        letters = word.rstrip(",.")
        units += [Word(letters, (tuple(letters),)), *word[len(letters) :], " "]
    return assemble(units)


@given(st.lists(st.tuples(st.integers(1, 150), st.sampled_from(["", "", "", ",", "."])), min_size=1, max_size=60))
def test_phrases_cover_a_sentence_and_none_is_too_long(words):
    phonemes = reading(" ".join("x" * length + mark for length, mark in words))
    phrases = cut_phrases(phonemes, 0.3, LONGEST_PHRASE)
    assert all(0 < len(phrase.phonemes) <= LONGEST_PHRASE for phrase in phrases)
    assert [phrase.pause for phrase in phrases][-1] == 0.3
    reached = 0
    for phrase in phrases:
        assert set(phonemes.tokens[reached : phrase.start]) <= {" "}  # only a word boundary can be left out
        assert phrase.phonemes.tokens == phonemes.tokens[phrase.start : phrase.stop]
        reached = phrase.stop
    assert reached == len(phonemes)


def test_sentences_are_cut_at_commas_if_they_can_and_between_words_if_not():
    clause = " ".join(["abcd"] * 12)
    phrases = cut_phrases(reading(f"{clause}, {clause}, {clause}."), 0.3, LONGEST_PHRASE)
    assert ["".join(phrase.phonemes.tokens)[-1] for phrase in phrases] == [",", ",", "."]
    assert phrases[0].pause > 0
    phrases = cut_phrases(reading(" ".join(["abcd"] * 40)), 0.0, LONGEST_PHRASE)
    assert len(phrases) == 2
    assert phrases[0].phonemes.tokens[-4:] == tuple("abcd")
    assert phrases[0].pause == 0
    assert len(cut_phrases(reading(clause), 0.0, LONGEST_PHRASE)) == 1


def test_a_part_keeps_its_words():
    phonemes = reading("ab cd, ef")
    cut = part(phonemes, 3, 8)
    assert cut.tokens == ("c", "d", ",", "e", "f")
    assert cut.words == ("cd", "ef")
    assert cut.word_index == (0, 0, -1, 1, 1)
