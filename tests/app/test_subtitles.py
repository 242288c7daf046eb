"""Dubbed subtitles on the page."""

import base64
import io
import re

import numpy as np
import pytest
import soundfile

from clock_attention.app.speaker import Dubbed
from clock_attention.app.subtitles import EXAMPLE, cue_blocks, dubbed_player
from clock_attention.speech.dubbing.slot import EMPTY, FAST, IMPOSSIBLE, SPOKEN, CueReport
from clock_attention.speech.dubbing.subtitles import parse_subtitles

REPORTS = [
    CueReport(1, 0.5, 2.0, "Hello there.", SPOKEN, 129, 100, 1.2, 0.9, words=2),
    CueReport(2, 1.5, 2.5, "<b>At once</b>", FAST, 86, 86, 2.0, 2.0, cut_words=1, cut_seconds=0.25, words=2),
    CueReport(3, 2.6, 2.7, "Never.", IMPOSSIBLE, 8, 0, 0.6, 6.0, cut_words=1, cut_seconds=0.3, words=1),
    CueReport(4, 3.0, 4.0, "", EMPTY, 86),
]


@pytest.fixture
def html(tmp_path):
    wave = np.linspace(-0.5, 0.5, 88200, dtype=np.float32)
    soundfile.write(tmp_path / "dubbed.wav", wave, 22050, subtype="PCM_16")
    return dubbed_player(Dubbed(REPORTS, 4.0, str(tmp_path / "dubbed.wav"), "", ""), 1.6)


def test_the_sound_is_the_files_to_the_sample(html, tmp_path):
    coded = re.search(r'src="data:audio/flac;base64,([^"]+)"', html)[1]
    wave, rate = soundfile.read(io.BytesIO(base64.b64decode(coded)), dtype="int16")
    assert rate == 22050
    np.testing.assert_array_equal(wave, soundfile.read(tmp_path / "dubbed.wav", dtype="int16")[0])


def test_what_does_not_fit_is_listed_with_what_to_cut(html):
    listed = re.findall(r"<li.*?</li>", html)
    assert len(listed) == 2
    assert "needs pace 2.00" in listed[0]
    assert "cut 0.25 s, about 1 of 2 words, for 1.6" in listed[0]
    assert "cannot be spoken" in listed[1]


def test_cues_at_the_same_time_lie_below_each_other():
    assert re.findall(r'class="(\w+ lane\d)"', cue_blocks(REPORTS, 4.0)) == [
        "spoken lane0",
        "fast lane1",
        "impossible lane0",
        "empty lane0",
    ]


def test_texts_of_cues_cannot_run(html):
    assert "<b>At" not in html
    assert "&lt;b&gt;At once" in html


def test_the_example_shows_a_cue_that_is_too_long():
    assert len(parse_subtitles(EXAMPLE)) == 4
