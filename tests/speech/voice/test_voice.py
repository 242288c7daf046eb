"""A voice and its decoders."""

import pytest

from clock_attention.speech.text.lexicon import load_lexicon
from clock_attention.speech.voice.request import Request
from clock_attention.speech.voice.voice import Voice
from clock_attention.speech.voice.voice_folder import VoiceError
from tests.speech.voice.test_synthesis import Hum
from tests.speech.voices import tiny_voice


@pytest.fixture
def voice(tmp_path):
    folder = tiny_voice(tmp_path / "voice")
    (folder / "lexicon.toml").write_text('Siobhan = "/ʃɪˈvɔːn/"')
    return Voice.load(folder)


def test_the_other_decoder_is_found_and_keeps_the_words_of_the_voice(voice):
    assert voice.with_decoding("parallel") is voice
    with pytest.raises(VoiceError, match="has no autoregressive decoder, only a parallel one"):
        voice.with_decoding("autoregressive")
    with pytest.raises(ValueError, match="decoding: got 'fast', expected"):
        voice.with_decoding("fast")
    tiny_voice(voice.path / "autoregressive", decoding="autoregressive")
    other = voice.with_decoding("autoregressive")
    assert other.model.config.autoregressive
    assert other.lexicon is voice.lexicon
    with pytest.raises(VoiceError, match="has no parallel decoder"):
        other.with_decoding("parallel")


def test_speaking_streaming_and_performing_are_one(voice):
    hum, text = Hum(voice.language.mel), "One. Two."
    whole = voice.speak(text, vocoder=hum)
    streamed = list(voice.stream(text, vocoder=hum))
    performed = list(voice.perform(Request.of(text), hum))
    assert sum(len(piece.audio) for piece in streamed) == len(whole.audio)
    assert [piece.phonemes for piece in performed] == [piece.phonemes for piece in streamed]


def test_the_lexicon_of_a_voice_is_used(voice, tmp_path):
    assert load_lexicon(voice.path / "lexicon.toml").entries.keys() == voice.lexicon.entries.keys()
    spoken = voice.speak("Siobhan.", vocoder=Hum(voice.language.mel))
    assert "".join(spoken.phonemes.tokens).startswith("ʃɪvˈɔn")


def test_texts_that_would_last_too_long_are_refused_before_they_are_spoken(voice):
    with pytest.raises(ValueError, match="second"):
        next(voice.stream("One two three four five.", vocoder=None, most_seconds=0.1))


def test_several_texts_are_one_batch(voice):
    first, second = voice.utter(["One.", "Two three four."], mpr=5.0)
    assert (len(first.mel), len(second.mel)) == (round(5 * len(first.phonemes)), round(5 * len(second.phonemes)))
