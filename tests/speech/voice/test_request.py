"""A request is checked and split once."""

import pytest

from clock_attention.speech.text.sentences import LONGEST_READING
from clock_attention.speech.voice.request import Request


def test_a_text_is_split_into_sentences_and_long_ones_into_parts():
    request = Request.of("One. Two!\n\nA heading\n\n" + "many words " * 100, seed=3)
    texts = [sentence.text for sentence in request.sentences]
    assert texts[:3] == ["One.", "Two!", "A heading"]
    assert all(len(text) < 1.1 * LONGEST_READING for text in texts)
    assert " ".join(texts[3:]).split() == ["many", "words"] * 100
    assert request.seed == 3


def test_options_are_checked_before_any_voice_is_needed():
    for options, complaint in (
        ({"pause": 11}, "pause: got 11"),
        ({"pace": 3}, "pace: got 3"),
        ({"pace": 1.5, "mpr": 6}, "pace and mpr were given together"),
        ({"duration": "soon"}, "duration: got 'soon'"),
    ):
        with pytest.raises(ValueError, match=complaint):
            Request.of("Hello.", **options)
