"""A voice and its decoders."""

import numpy as np
import pytest
import torch

from clock_attention.speech.text.lexicon import Lexicon, load_lexicon
from clock_attention.speech.voice.request import Request
from clock_attention.speech.voice.voice import Voice
from clock_attention.speech.voice.voice_folder import VoiceError
from tests.speech.voice.test_synthesis import Hum
from tests.speech.voices import tiny_aligned_voice, tiny_voice


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


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    return Voice.load(tiny_aligned_voice(tmp_path_factory.mktemp("several") / "duo", speakers=("ann", "bob")))


def test_each_speaker_speaks_for_themselves(several):
    hum = Hum(several.language.mel)
    assert several.speakers == ("ann", "bob")
    first, ann, bob = (several.speak("One two.", vocoder=hum, speaker=name) for name in (None, "ann", "bob"))
    assert torch.equal(first.mel, ann.mel), "the first one speaks unless another is chosen"
    assert bob.mel.shape != ann.mel.shape or not torch.allclose(bob.mel, ann.mel)
    chosen = several.with_speaker("bob")
    assert torch.equal(chosen.speak("One two.", vocoder=hum).mel, bob.mel)
    assert torch.equal(
        torch.cat([piece.mel for piece in several.stream("One two.", vocoder=hum, speaker="bob")]), bob.mel
    )
    assert torch.equal(chosen.with_speaker("ann").speak("One two.", vocoder=hum).mel, ann.mel)


def test_a_speaker_has_statistics_of_their_own(several):
    bob = several.with_speaker("bob")
    assert (bob.speaker, several.speaker) == ("bob", "ann")
    assert (bob.language.mean[0], several.language.mean[0]) == (-6.0, -5.0)
    assert bob.language.prosody.pitch_std == pytest.approx(0.3)
    assert bob.identity != several.identity
    assert bob.with_lexicon(Lexicon({"Siobhan": "/ʃɪˈvɔːn/"})).speaker == "bob"


def test_speakers_that_are_not_there_are_named(several, voice):
    with pytest.raises(VoiceError, match=r"no speaker 'cleo'; choose one of ann, bob"):
        several.speak("One.", speaker="cleo")
    assert voice.speakers == ()
    with pytest.raises(VoiceError, match=r"one speaker: leave out the speaker \(got 'ann'\)"):
        voice.speak("One.", speaker="ann")


def test_one_speaker_of_several_as_an_onnx_file_sounds_the_same(several):
    onnxruntime = pytest.importorskip("onnxruntime")
    from clock_attention.speech.voice.onnx_export import onnx_model

    bob = several.with_speaker("bob")
    utterance = bob.utter(["One two."])[0]
    tokens, lengths = bob.batch_tokens([bob.phonemizer("One two.")])
    session = onnxruntime.InferenceSession(onnx_model(bob).SerializeToString())
    given = {"tokens": tokens.numpy(), "token_lengths": lengths.numpy()}
    mel = session.run(["mel"], {**given, "frames": np.array([0]), "pace": np.ones(1, np.float32)})[0][0]
    np.testing.assert_allclose(mel[6:], utterance.mel.numpy()[6:], atol=2e-3)  # the onset is quieted afterwards


def test_steps_and_guidance_of_a_flow_decoder(voice, tmp_path):
    flowing = Voice.load(tiny_aligned_voice(tmp_path / "flow", flow_layers=1, flow_width=8))
    torch.nn.init.normal_(flowing.model.flow.output.weight)
    hum = Hum(flowing.language.mel)
    spoken = [
        one.speak("One two.", vocoder=hum, seed=3).mel
        for one in (flowing, flowing.with_sampling(), flowing.with_sampling(4), flowing.with_sampling(1))
    ]
    assert torch.equal(spoken[0], spoken[1])
    assert torch.equal(spoken[0], spoken[2]), "four steps are the default"
    assert spoken[0].shape == spoken[3].shape
    assert not torch.equal(spoken[0], spoken[3])
    assert not torch.equal(spoken[0], flowing.with_sampling(guidance=1.0).speak("One two.", vocoder=hum, seed=3).mel)
    assert flowing.model.flow.steps == 4, "the voice itself stays as it is"


def test_sampling_of_voices_without_a_flow_decoder_and_bad_values_are_refused(voice, tmp_path):
    with pytest.raises(VoiceError, match="for voices with a flow decoder, and this one has none"):
        voice.with_sampling(steps=2)
    flowing = Voice.load(tiny_aligned_voice(tmp_path / "flow", flow_layers=1, flow_width=8))
    with pytest.raises(ValueError, match="steps: got 0, expected 1 … 100"):
        flowing.with_sampling(steps=0)
    with pytest.raises(ValueError, match="guidance: got -1, expected 0 … 10"):
        flowing.with_sampling(guidance=-1)
