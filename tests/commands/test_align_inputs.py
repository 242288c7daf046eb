"""What aligning one recording and aligning many have in common."""

import numpy as np
import pytest

from clock_attention.commands.align_inputs import adapted, check_not_an_input
from clock_attention.speech.corpus.recording_checks import Recording
from tests.speech.aligner.coded import CodedAligner


def test_transcripts_are_no_labels(tmp_path):
    path = tmp_path / "a.lab"
    check_not_an_input(path)
    path.write_text("0 1000000 h#\n")
    check_not_an_input(path)
    path.write_text("\nThe words that are spoken.\n")
    with pytest.raises(ValueError, match="exists and is a transcript, not labels"):
        check_not_an_input(path)


def test_adapting_passes_over_what_cannot_be_read_and_needs_something(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"RIFF of nothing")
    with pytest.raises(ValueError, match="--adapt: there is no recording of at most 60 s to adapt to"):
        adapted(CodedAligner(), [Recording("a", "Words.", str(tmp_path / "a.wav"))])


def test_adapting_learns_from_what_was_given(tmp_path, monkeypatch):
    import soundfile

    soundfile.write(tmp_path / "a.wav", 0.1 * np.sin(np.arange(16000) / 9), 16000)
    given = []
    monkeypatch.setattr(CodedAligner, "adapt", lambda self, chosen, **_: given.extend(chosen) or self, raising=False)
    adapted(CodedAligner(), [Recording("a", "Words.", str(tmp_path / "a.wav"))])
    assert [(len(wave), text) for wave, text in given] == [(16000, "Words.")]
