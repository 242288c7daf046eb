"""The figure of an alignment."""

import numpy as np
import pytest
from matplotlib.image import imread

from clock_attention.speech.aligner.alignment_figure import (
    MOST_PHONES,
    beginning,
    caption,
    log_mel,
    save_alignment_figure,
)
from clock_attention.speech.aligner.results import AlignedInterval, AlignedRecording
from tests.speech.aligner.coded import CodedAligner, coded_speech


def test_a_recording_is_drawn(tmp_path):
    aligner, speech = CodedAligner(), coded_speech("She had your dark suit.")
    aligned = aligner.align(speech.wave, speech.text, sample_rate=16000)
    save_alignment_figure(tmp_path / "x.png", aligned, aligner.reader(speech.text), speech.wave, 16000, "A title")
    assert imread(tmp_path / "x.png").std() > 0
    with pytest.raises(ValueError, match="expected a name ending in"):
        save_alignment_figure(tmp_path / "x.txt", aligned, aligner.reader(speech.text), speech.wave, 16000)


def test_of_a_long_recording_the_beginning_is_drawn_up_to_the_end_of_a_word():
    count = MOST_PHONES + 40
    words = tuple(AlignedInterval(float(n), n + 1.0, f"w{n}") for n in range(count // 2))
    phones = tuple(AlignedInterval(n / 2, (n + 1) / 2, "p") for n in range(count))
    aligned = AlignedRecording(count / 2, words, phones, -1.0, True)

    class Text:
        words = tuple(f"w{n}" for n in range(count // 2))

    seconds, shown = beginning(aligned, Text)
    assert (seconds, shown) == (MOST_PHONES / 2, MOST_PHONES // 2)
    assert "the beginning: " in caption("text " * 50, aligned, complete=False)
    assert len(caption("text " * 50, aligned, complete=True).splitlines()[0]) == 101


def test_mels_are_those_of_figures_of_spoken_text():
    assert log_mel(np.zeros(16000, np.float32), 16000).shape == (86, 80)
