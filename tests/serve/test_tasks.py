"""A request as something the engine can run."""

import pytest

pytest.importorskip("fastapi", reason="needs the extra clock-attention[serve]")

from clock_attention.serve.tasks import SpeechTask
from tests.serve.conftest import quick_vocoder


def test_the_number_of_sentences_is_known_when_the_text_has_been_read(voice):
    task = SpeechTask(voice, quick_vocoder(voice), "One. Two. Three.", options={"pace": 2.0})
    assert task.sentences is None
    pieces = task()
    assert task.sentences == 3
    assert [piece.text for piece in pieces] == ["One.", "Two.", "Three."]


def test_markup_is_parsed_only_where_it_is_declared(aligned):
    written = "<speak>One</speak>"
    (piece,) = SpeechTask(aligned, quick_vocoder(aligned), written, ssml=True)()
    assert [word.label for word in piece.words] == ["One"]
    with pytest.raises(ValueError, match="pace"):
        SpeechTask(aligned, quick_vocoder(aligned), "One.", options={"pace": 99.0})()
