import numpy as np
import pytest

from clock_attention.speech.text.phonemizers import phonemizer
from clock_attention.speech.voice.intonation import RISE, question_rise


@pytest.mark.parametrize("text", ["He can swim.", "What is it?", "Where are you going?", "Stop!"])
def test_statements_and_questions_with_question_words_do_not_rise(text):
    assert question_rise(phonemizer("hibari")(text)) is None


@pytest.mark.parametrize("name", ["hibari", "arpabet"])
def test_other_questions_rise_at_their_end_alone(name):
    phonemes = phonemizer(name)("You are coming to the party?")
    rise = question_rise(phonemes)
    if name == "arpabet":  # has no question mark: all stops are one token
        assert rise is None
        return
    assert len(rise) == len(phonemes) + 2
    assert (np.diff(rise) >= 0).all()
    assert rise[-1] == RISE
    party = [place + 1 for place, word in enumerate(phonemes.word_index) if word == len(phonemes.words) - 1]
    assert (rise[: party[0]] == 0).all()
    assert rise[party[-1]] > 0.5 * RISE
