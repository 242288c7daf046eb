"""Subtitles of readable length."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.text.subtitle_cues import LONGEST, MOST_SECONDS, readable_cues
from clock_attention.timestamps import Interval


def spoken(words, seconds):
    """A sentence and its words, one after the other."""
    times = [Interval(place * seconds, (place + 1) * seconds, word) for place, word in enumerate(words)]
    return [Interval(0, len(words) * seconds, " ".join(words))], times


def test_short_sentences_stay_as_they_are():
    sentences, words = spoken(["Hello", "there."], 0.4)
    assert readable_cues(sentences, words) == sentences


def test_long_ones_are_cut_after_punctuation():
    sentences, words = spoken(["word"] * 9 + ["comma,"] + ["word"] * 12, 0.3)
    cues = readable_cues(sentences, words)
    assert cues[0].label.endswith("comma,")
    assert cues[0].end == words[9].end


@given(st.lists(st.text(alphabet="abc,.!", min_size=1, max_size=200), min_size=1, max_size=60), st.floats(0.05, 20))
def test_no_cue_is_too_long_and_no_word_is_lost(words, seconds):
    sentences, times = spoken(words, seconds)
    cues = readable_cues(sentences, times)
    assert "".join("".join(cue.label.split()) for cue in cues) == "".join(words)
    for cue in cues:
        assert len(cue.label) <= LONGEST
        assert cue.end - cue.start <= MOST_SECONDS + 1e-6
    assert all(a.end <= b.start + 1e-6 for a, b in pairwise(cues))
