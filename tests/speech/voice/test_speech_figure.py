"""The figure: every panel that the voice can fill, the phonemes on the axis, and no surprise from odd texts."""

import numpy as np
import pytest

from clock_attention.speech.voice.speech_figure import MOST_TOKENS, draw, save_figure
from clock_attention.speech.voice.voice import Voice
from tests.speech.voice.test_synthesis import Hum
from tests.speech.voices import tiny_voice


def speech_of(voice, text, **options):
    return voice.speak(text, vocoder=Hum(voice.language.mel), **options)


def labels(figure):
    return [axis.get_ylabel() for axis in figure.axes]


def test_time_is_shared_and_phonemes_stand_on_their_axis(voice):
    speech = speech_of(voice, "The birch canoe. It slid!")
    figure = draw(speech)
    panels = [axis for axis in figure.axes if axis.get_xlim() == (0, pytest.approx(speech.seconds))]
    assert len(panels) == 4  # waveform, mel, attention, target clock
    assert {"mel bin", "target clock"} <= set(labels(figure))
    attention = panels[2]
    shown = [label.get_text() for label in attention.get_yticklabels()]
    tokens = [token for utterance in speech.utterances for token in utterance.phonemes.tokens]
    assert shown == ["·" if token == " " else token for token in tokens]
    assert len(attention.images) == 2  # one map per phrase
    for image, utterance, offset in zip(attention.images, speech.utterances, speech.offsets, strict=True):
        left, right, bottom, top = image.get_extent()
        assert (left, right) == pytest.approx(np.array([offset, offset + len(utterance.mel)]) / voice.frames_per_second)
        assert bottom - top == len(utterance.phonemes)
    words = [text.get_text() for text in panels[0].texts]
    assert words == [*speech.phonemes.words]


def test_the_waveform_can_be_left_out(voice):
    speech = speech_of(voice, "Hello.")
    assert len(draw(speech, waveform=False).axes) == len(draw(speech).axes) - 1


def test_voices_without_clocks_are_drawn_without_them(tmp_path):
    dot = Voice.load(tiny_voice(tmp_path / "dot", cross_attention="dot"))
    figure = draw(speech_of(dot, "Hello there."))
    assert "target clock" not in labels(figure)
    assert len(figure.axes) == 3


def test_autoregressive_speech_is_drawn_without_its_end_token(voice, tmp_path):
    speech = speech_of(voice.with_decoding("autoregressive"), "Hello there.")
    assert draw(speech).axes[2].images[0].get_array().shape == (len(speech.phonemes), len(speech.utterances[0].mel))
    save_figure(speech, tmp_path / "a.png")


def test_of_long_speech_the_beginning_is_drawn(voice):
    speech = speech_of(voice, "A marvellous sentence of some length is read here. " * 8)
    figure = draw(speech)
    shown = len(figure.axes[2].get_yticklabels())
    assert 20 < shown <= MOST_TOKENS < len(speech.phonemes)
    assert figure.axes[2].get_xlim()[1] < speech.seconds
    assert "the beginning" in figure.get_suptitle()


@pytest.mark.parametrize("text", ["I", "It costs $20, not $30_x^2.", "Hello 😀 世界"])
@pytest.mark.filterwarnings("error")
def test_any_text_can_be_drawn_without_a_warning(voice, tmp_path, text):
    speech_of(voice, text).plot(tmp_path / "a.png")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_speech_shorter_than_its_phonemes_can_be_drawn(voice, tmp_path):
    speech_of(voice, "Hello there my friend.", duration=0.25).plot(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").stat().st_size > 1000


def test_names_that_cannot_be_written_are_refused(voice, tmp_path):
    speech = speech_of(voice, "Hello.")
    with pytest.raises(ValueError, match=r"expected a name ending in \.png, \.svg, \.pdf"):
        speech.plot(tmp_path / "a.gif")
    with pytest.raises(ValueError, match="does not exist"):
        speech.plot(tmp_path / "nowhere" / "a.png")
    assert not list(tmp_path.iterdir())
