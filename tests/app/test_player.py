"""Players: the sound itself, every word and phoneme where it is said, and edges to drag."""

import base64
import io
import re
from dataclasses import replace

import numpy as np
import pytest
import soundfile

from clock_attention.app.player import MOST_PIXELS_PER_SECOND, edges, pixels_per_second, player
from clock_attention.speech.text.phonemes import Phonemes
from clock_attention.timestamps import Alignment, Interval


def test_a_player_holds_the_sound_itself(speech):
    coded = re.search(r'src="data:audio/wav;base64,([^"]+)"', player(speech, "it"))[1]
    wave, rate = soundfile.read(io.BytesIO(base64.b64decode(coded)), dtype="float32")
    assert rate == speech.sample_rate
    np.testing.assert_allclose(wave, speech.audio.clip(-1, 1), atol=1e-4)


def test_a_player_shows_every_word_and_phoneme_at_its_time(speech):
    shown = re.findall(r'data-start="([^"]+)" data-end="([^"]+)".*?<span>([^<]+)</span>', player(speech, "it"))
    expected = [i for tier in ("words", "phones") for i in speech.tiers()[tier] if i.label and i.end > i.start]
    assert [label for _, _, label in shown] == [interval.label for interval in expected]
    for (start, end, _), interval in zip(shown, expected, strict=True):
        assert float(start) == pytest.approx(interval.start, abs=1e-3)
        assert float(end) == pytest.approx(interval.end, abs=1e-3)


def test_every_word_has_room(speech):
    fast = replace(speech, alignment=Alignment(speech.alignment.labels, speech.alignment.durations, 0.004))
    for each in (speech, fast):
        wide = pixels_per_second(each.words)
        assert all((i.end - i.start) * wide >= 8 * len(i.label) for i in each.words) or wide == MOST_PIXELS_PER_SECOND


def test_what_is_written_cannot_run(speech):
    phonemes = speech.phonemes
    hostile = Phonemes(phonemes.tokens, phonemes.word_index, ('<img src=x onerror="alert(1)">',) * len(phonemes.words))
    speech = replace(speech, phonemes=hostile, text='"><script>alert(3)</script>')
    html = player(speech, '"><script>alert(2)</script>', again=('"><script>', '"><script>'))
    assert "<img" not in html
    assert "<script" not in html
    assert "&lt;img" in html


def test_only_an_adjustable_player_has_edges_to_drag(speech):
    assert "clock-grips" not in player(speech, "it")
    assert "clock-again" not in player(speech, "it")
    html = player(speech, "it", again=("my/ann", "parallel"))
    assert 'data-voice="my/ann" data-decoding="parallel"' in html
    assert html.count('role="slider"') == len(list(edges(speech.words)))
    least = [int(count) for count in re.findall(r'data-least="(\d+)"', html)]
    assert len(least) == len(speech.words)
    assert sum(least) == sum(word >= 0 for word in speech.phonemes.word_index)


def test_words_that_touch_share_an_edge():
    words = [Interval(0.1, 0.4, "one"), Interval(0.4, 0.9, "two"), Interval(1.2, 1.5, "three")]
    found = [(at, ends, begins) for at, ends, begins, _ in edges(words)]
    assert found == [(0.1, "", 0), (0.4, 0, 1), (0.9, 1, ""), (1.2, "", 2), (1.5, 2, "")]
    assert list(edges([])) == []
