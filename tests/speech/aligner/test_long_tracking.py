"""Following a long recording through its text: in place, block by block, past what is missing on either side."""

from __future__ import annotations

import numpy as np
import pytest

from clock_attention.speech.aligner.long_tracking import OTHER, Follower, TextStates, runs
from tests.speech.aligner.spoken import random_words, speak


def follow(words, emissions, block=2000, **options):
    states = TextStates.of(words)
    follower = Follower(states, silence=0, **options)
    pieces = [follower.feed(emissions[start : start + block]) for start in range(0, len(emissions), block)]
    path = np.concatenate([*pieces, follower.finish()])
    assert len(path) == len(emissions) == follower.decided
    return states, path


def word_spans(states, path):
    """First and one past the last frame of each word that the path visits."""
    spans = {}
    for state, start, end in runs(path):
        if states.classes[state] >= 0:
            word = int(states.words[state])
            spans[word] = (spans.get(word, (start,))[0], end)
    return spans


def errors(spans, spoken, written=None):
    """Distance of word starts from the truth, in frames; `written` maps spoken words to written ones."""
    pairs = list(enumerate(range(len(spoken.starts)) if written is None else written))
    return np.array([abs(spans[w][0] - spoken.starts[s]) if w in spans else np.inf for s, w in pairs if w is not None])


@pytest.mark.parametrize(("band", "lag"), [(2000, 2000), (600, 500)])
def test_four_minutes_are_followed_to_the_frame(band, lag):
    draw = np.random.default_rng(0)
    spoken = speak(random_words(600, draw), draw)
    assert len(spoken.emissions) > 20_000
    states, path = follow(spoken.words, spoken.emissions, band=band, lag=lag)
    spans = word_spans(states, path)
    assert list(spans) == list(range(600))
    assert np.median(errors(spans, spoken)) == 0
    assert errors(spans, spoken).max() <= 20


def test_blocks_do_not_matter():
    draw = np.random.default_rng(1)
    spoken = speak(random_words(100, draw), draw)
    paths = [follow(spoken.words, spoken.emissions, block=block, lag=1000)[1] for block in (10**6, 777)]
    np.testing.assert_array_equal(*paths)


def test_words_that_were_not_spoken_are_left_out_and_nothing_else_moves():
    draw = np.random.default_rng(2)
    words = random_words(400, draw)
    spoken = speak(words, draw)
    extra = random_words(60, draw)
    text = words[:200] + extra + words[200:]
    states, path = follow(text, spoken.emissions)
    spans = word_spans(states, path)
    assert len([word for word in spans if 200 <= word < 260]) <= 2
    assert np.median(errors(spans, spoken, [w if w < 200 else w + 60 for w in range(400)])) == 0
    assert np.quantile(errors(spans, spoken, [w if w < 200 else w + 60 for w in range(400)]), 0.98) <= 12


def test_speech_that_is_not_written_is_other_speech():
    draw = np.random.default_rng(3)
    spoken = speak(random_words(400, draw), draw)
    text = spoken.words[:150] + spoken.words[200:]
    states, path = follow(text, spoken.emissions)
    spans = word_spans(states, path)
    written = [w if w < 150 else None if w < 200 else w - 50 for w in range(400)]
    assert np.median(errors(spans, spoken, written)) == 0
    assert np.quantile(errors(spans, spoken, written), 0.98) <= 12
    inside = path[spoken.starts[152] : spoken.ends[197]]
    assert np.mean(states.classes[inside] == OTHER) > 0.9


def test_a_text_that_goes_on_after_the_recording_is_left_out_at_the_end():
    draw = np.random.default_rng(4)
    spoken = speak(random_words(50, draw), draw)
    states, path = follow(spoken.words + random_words(300, draw), spoken.emissions, band=300)
    spans = word_spans(states, path)
    assert max(spans) < 53
    assert np.median(errors(spans, spoken)) == 0
