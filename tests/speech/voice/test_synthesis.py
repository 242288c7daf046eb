"""Text → speech: exact lengths, whole alignments, streams that join without a seam, and errors in words."""

import math
import warnings
import weakref
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clock_attention.speech.audio.sound_writing import save_sound
from clock_attention.speech.text.phonemes import UnreadableTextError
from clock_attention.speech.voice import voice_folder
from clock_attention.speech.voice.pacing import CLOSING
from clock_attention.speech.voice.phrases import LONGEST_PHRASE
from clock_attention.speech.voice.voice import Voice
from clock_attention.speech.voice.voice_folder import VoiceError
from tests.speech.voices import MPR, tiny_voice

HOP = 256


class Hum:
    """A vocoder that takes no time."""

    name, fingerprint = "hum", ""

    def __init__(self, mel):
        self.mel = mel

    def __call__(self, mel):
        return np.full(len(mel) * self.mel.hop_length, 0.5, np.float32)


@pytest.fixture(scope="module")
def hum(voice):
    return Hum(voice.language.mel)


SENTENCES = "Dr. Smith paid $20 for it, didn't he? Yes!\n\nA heading without a stop\n\nThe year was 1850."


def assert_whole(speech):
    """Audio, mel, alignment and phonemes all speak of the same stretch of time."""
    assert len(speech.audio) == len(speech.mel) * HOP
    assert speech.audio.dtype == np.float32
    assert speech.alignment.durations.sum() == len(speech.mel)
    assert speech.alignment.labels == speech.phonemes.tokens
    assert speech.alignment.seconds == pytest.approx(speech.seconds)
    assert [word.label for word in speech.words] == list(speech.phonemes.words)
    assert all(a.end <= b.start + 1e-9 for a, b in zip(speech.words, speech.words[1:], strict=False))


def test_a_text_is_spoken_as_a_whole(voice, hum):
    speech = voice.speak(SENTENCES, vocoder=hum)
    assert_whole(speech)
    assert speech.text == SENTENCES
    assert [sentence.label for sentence in speech.sentences] == [
        *("Dr. Smith paid $20 for it, didn't he?", "Yes!", "A heading without a stop", "The year was 1850.")
    ]
    assert speech.phonemes.words[:4] == ("Dr.", "Smith", "paid", "$20")
    assert len(speech.utterances) == 4
    for utterance, offset in zip(speech.utterances, speech.offsets, strict=True):
        assert torch.equal(speech.mel[offset : offset + len(utterance.mel)], utterance.mel)
        assert utterance.stopped_by_itself is None
        assert not utterance.hit_ceiling
        assert len(utterance.mel) == utterance.natural_frames


@pytest.mark.parametrize("options", [{}, {"pace": 0.6}, {"duration": "11.3s"}])
def test_the_pieces_of_a_stream_are_the_whole(voice, hum, options):
    pieces, whole = (
        list(voice.stream(SENTENCES, vocoder=hum, **options)),
        voice.speak(SENTENCES, vocoder=hum, **options),
    )
    assert len(pieces) == 4
    for piece in pieces:
        assert_whole(piece)
    assert np.array_equal(np.concatenate([piece.audio for piece in pieces]), whole.audio)
    assert torch.equal(torch.cat([piece.mel for piece in pieces]), whole.mel)
    assert sum((piece.phonemes.tokens for piece in pieces), ()) == whole.phonemes.tokens


def test_nothing_is_kept_of_a_sentence_that_was_handed_over(voice, hum):
    before = None
    for piece in voice.stream(SENTENCES, vocoder=hum):
        assert before is None or before() is None
        before = weakref.ref(piece)
        del piece
    assert before is not None


def test_pauses_are_silent_and_belong_to_the_boundary_before_them(voice, hum):
    speech = voice.speak("One. Two", vocoder=hum, pause=0.5)
    frames = round(0.5 * voice.frames_per_second)
    start = len(speech.utterances[0].mel)
    assert speech.offsets == (0, start + frames)
    assert torch.all(speech.mel[start : start + frames] == math.log(voice.language.mel.log_floor))
    assert not speech.audio[start * HOP : (start + frames) * HOP].any()
    stop = speech.phonemes.tokens.index(".")
    assert speech.alignment.durations[stop] >= frames
    assert speech.alignment.ends[stop] == start + frames
    # A sentence without a stop gets a word boundary to hold its pause, which the model never sees.
    speech = voice.speak("One\nTwo", vocoder=hum, pause=0.5)
    boundary = speech.phonemes.tokens.index(" ")
    assert speech.alignment.durations[boundary] == frames
    assert len(speech.utterances[0].phonemes) == boundary


@pytest.mark.parametrize("text", ["One.", "One. Two", "A heading"])
def test_speech_ends_with_digital_silence(voice, hum, text):
    speech = voice.speak(text, vocoder=hum)
    frames = round(CLOSING * voice.frames_per_second)
    assert torch.all(speech.mel[-frames:] == math.log(voice.language.mel.log_floor))
    assert not speech.audio[-frames * HOP :].any()
    assert speech.offsets[-1] + len(speech.utterances[-1].mel) == len(speech.mel) - frames
    assert speech.seconds == pytest.approx(speech.alignment.durations.sum() / voice.frames_per_second)
    exact = voice.speak(text, vocoder=hum, duration=2.0)  # the silence is part of a requested duration
    assert len(exact.mel) == round(2.0 * voice.frames_per_second)


def test_pauses_between_paragraphs_are_longer_than_between_sentences(voice, hum):
    speech = voice.speak("One.\nTwo.\n\nThree.", vocoder=hum, pause=0.4)
    ends = [offset + len(utterance.mel) for offset, utterance in zip(speech.offsets, speech.utterances, strict=True)]
    pauses = [start - end for start, end in zip(speech.offsets[1:], ends, strict=False)]
    assert pauses == [round(0.4 * voice.frames_per_second), round(2.5 * 0.4 * voice.frames_per_second)]


def test_phrases_begin_and_end_without_a_click(voice, hum):
    audio = voice.speak("One. Two.", vocoder=hum).audio
    assert np.abs(np.diff(audio)).max() < 0.05
    assert audio[0] == audio[-1] == 0


WORDS = ["a", "the", "strengths", "of", "2,345", "birches", "I", "$7.50", "naïve", "xylophones", "–", "😀", "1850"]
TEXTS = st.lists(
    st.tuples(st.sampled_from(WORDS), st.sampled_from(["", "", "", ",", ".", "?", "\n\n"])), min_size=1, max_size=12
)


@settings(max_examples=100)
@given(TEXTS.map(lambda words: " ".join(word + mark for word, mark in words) + " end"), st.floats(0.5, 2))
def test_any_duration_between_half_and_twice_the_natural_one_is_kept_to_the_frame(voice, hum, text, factor):
    natural = sum(len(piece.mel) for piece in voice.stream(text, vocoder=hum))
    wanted = round(natural * factor)
    speech = voice.speak(text, duration=wanted / voice.frames_per_second, vocoder=hum)
    assert len(speech.mel) == wanted
    assert_whole(speech)


@given(st.text(max_size=60))
def test_free_text_is_spoken_or_refused_with_a_message(voice, hum, text):
    try:
        voice.phonemizer(text)
    except UnreadableTextError:
        with pytest.raises(UnreadableTextError, match="give at least one English word or number"):
            voice.speak(text, vocoder=hum)
    else:
        assert_whole(voice.speak(text, vocoder=hum))


def test_durations_scale_speech_and_pauses_alike(voice, hum):
    natural = voice.speak("One two three. Four five six.", vocoder=hum, pause=0.5)
    double = voice.speak("One two three. Four five six.", vocoder=hum, pause=0.5, duration=2 * natural.seconds)
    for once, twice in zip(natural.utterances, double.utterances, strict=True):
        assert abs(len(twice.mel) - 2 * len(once.mel)) <= 1
    assert len(double.mel) == 2 * len(natural.mel)


def test_pace_two_is_twice_as_fast_and_mpr_counts_frames_per_phoneme(voice, hum):
    text = "One two three. Four five six."
    natural, fast = voice.speak(text, vocoder=hum), voice.speak(text, vocoder=hum, pace=2)
    assert len(fast.mel) == pytest.approx(len(natural.mel) / 2, abs=2)
    by_mpr = voice.speak(text, vocoder=hum, mpr=MPR / 2)
    assert [len(utterance.mel) for utterance in by_mpr.utterances] == [
        round(MPR / 2 * len(utterance.phonemes)) for utterance in by_mpr.utterances
    ]
    gaps = [speech.offsets[1] - len(speech.utterances[0].mel) for speech in (natural, fast, by_mpr)]
    assert gaps == [39, 19, 19]


def test_a_duration_too_short_for_speech_is_refused_before_anything_is_spoken(voice, hum):
    with pytest.raises(ValueError, match=r"duration: got 0\.02 s, expected .* its natural duration is"):
        next(voice.stream("Hello there.", duration=0.02, vocoder=hum))
    tokens = len(voice.phonemizer("Hello there."))
    speech = voice.speak("Hello there.", duration=tokens / voice.frames_per_second, vocoder=hum)
    assert len(speech.mel) == tokens


@pytest.mark.parametrize("text", ["", " \n ", "😀", "...", "()", "Привет", "\x00\x07"])
def test_text_without_anything_to_say_is_refused_at_once(voice, hum, text):
    with pytest.raises(UnreadableTextError, match="give at least one English word or number"):
        voice.stream(text, vocoder=hum)


@pytest.mark.parametrize("mark", ["", ","])
def test_very_long_sentences_are_spoken_in_phrases_and_aligned_as_a_whole(voice, hum, mark):
    text = " ".join(["marvellous" + mark] * 40) + "."
    speech = voice.speak(text, vocoder=hum, duration=35)
    assert_whole(speech)
    assert speech.phonemes == voice.phonemizer(text)
    assert len(speech.utterances) > 1
    assert max(len(utterance.phonemes) for utterance in speech.utterances) <= LONGEST_PHRASE
    assert len(speech.mel) == round(35 * voice.frames_per_second)
    assert len(speech.sentences) == 1


def test_a_voice_says_in_one_piece_only_what_it_has_learned_to(voice, hum):
    training = voice.card.provenance.training.model_copy(update={"longest_tokens": 20})
    provenance = voice.card.provenance.model_copy(update={"training": training})
    modest = replace(voice, card=voice.card.model_copy(update={"provenance": provenance}))
    speech = modest.speak("A sentence of more than twenty phonemes, but not of very many more.", vocoder=hum)
    assert len(speech.utterances) > 1
    assert all(len(utterance.phonemes) <= 15 for utterance in speech.utterances)


@pytest.mark.parametrize("text", ["word " * 400, "x-" * 500, "ab" * 1500, "7" * 700])
def test_endless_sentences_and_words_are_read_in_pieces(voice, hum, text):
    pieces = list(voice.stream(text, vocoder=hum))
    assert len(pieces) > 1
    for piece in pieces:
        assert_whole(piece)
        assert len(piece.text) < 800


def test_utterances_of_a_batch_are_those_of_each_alone(voice):
    texts = ["Hello.", "The birch canoe slid on the smooth planks."]
    together = voice.utter(texts, frames=[31, 150])
    for utterance, text, frames in zip(together, texts, (31, 150), strict=True):
        alone = voice.utter([text], frames=frames)[0]
        torch.testing.assert_close(utterance.mel, alone.mel, atol=1e-4, rtol=1e-4)
        assert utterance.phonemes == voice.phonemizer(text)
        assert utterance.mel.shape == (frames, 80)
        steps, tokens = -(-frames // 2), len(utterance.phonemes)
        assert [weights.shape for weights in utterance.weights] == [(2, steps, tokens)] * 2
        assert [(c.target.shape[1], c.source.shape[1]) for c in utterance.clocks] == [(steps, tokens)] * 2
        assert utterance.alignment.durations.sum() == frames
    assert voice.utter([]) == []
    assert len(voice.utter(["Hello."], pace=2)[0].mel) == round(together[0].natural_frames / 2)


def test_utter_takes_a_list(voice):
    with pytest.raises(TypeError, match="texts: got one text, 'Hello', expected a list"):
        voice.utter("Hello")


def test_utter_refuses_lengths_that_do_not_fit_its_texts(voice):
    with pytest.raises(ValueError, match="expected a count ≥ 1 for each of 2 texts"):
        voice.utter(["a", "b"], frames=[3])
    with pytest.raises(ValueError, match="choose one"):
        voice.utter(["a"], frames=3, pace=2)


def test_autoregressive_decoding_comes_from_the_voice_within_the_voice(voice, hum, tmp_path):
    inner = voice.with_decoding("autoregressive")
    assert inner.model.config.autoregressive
    assert voice.with_decoding("parallel") is voice
    speech = inner.speak("Hello there. Good day.", vocoder=hum)
    assert_whole(speech)
    for utterance in speech.utterances:
        assert utterance.stopped_by_itself
        assert utterance.weights[0].shape[-1] == len(utterance.phonemes) + 1  # the end token
    slow, fast = (len(inner.utter(["Hello there."], pace=pace)[0].mel) for pace in (0.5, 2))
    assert slow > fast
    with pytest.raises(ValueError, match="cannot be promised; use parallel decoding"):
        inner.speak("Hello.", duration=1, vocoder=hum)
    alone = Voice.load(tiny_voice(tmp_path / "alone"))
    with pytest.raises(VoiceError, match="has no autoregressive decoder, only a parallel one"):
        alone.with_decoding("autoregressive")
    with pytest.raises(ValueError, match="expected 'parallel' or 'autoregressive'"):
        alone.with_decoding("diffusion")


def test_decoding_that_had_to_be_cut_off_says_so(tmp_path):
    still = Voice.load(tiny_voice(tmp_path / "dot", decoding="autoregressive", cross_attention="dot"))
    utterance = still.utter(["Hello."])[0]
    assert utterance.stopped_by_itself is False
    assert utterance.hit_ceiling
    assert utterance.clocks == []


@pytest.mark.parametrize("mel", ["hifigan", "paper"])
def test_griffin_lim_speaks_any_mel_in_exactly_the_frames_asked_for(tmp_path, mel):
    voice = Voice.load(tiny_voice(tmp_path / "voice", mel=mel))
    with pytest.warns(UserWarning, match="metallic"):
        speech = voice.speak("Hi. You", duration="0.6s", vocoder="griffin-lim")
    assert_whole(speech)
    assert np.abs(speech.audio).max() > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # loaded once: no second warning
        voice.speak("Hi", vocoder="griffin-lim")


def test_a_vocoder_for_another_mel_is_refused(voice, tmp_path):
    other = Voice.load(tiny_voice(tmp_path / "voice", mel="paper"))
    with pytest.raises(ValueError, match="does not understand this mel"):
        other.speak("Hello.", vocoder=Hum(voice.language.mel))


def test_speaking_leaves_the_callers_random_numbers_alone(voice, hum):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    voice.speak("Hello.", vocoder=hum, seed=3)
    assert torch.equal(torch.rand(3), expected)


def test_sound_and_timestamps_are_saved(voice, hum, tmp_path):
    speech = voice.speak("Hello there. Good day.", vocoder=hum)
    for name in ("a.wav", "a.flac"):
        speech.save(tmp_path / name)
        wave, rate = soundfile.read(tmp_path / name)
        assert rate == 22050
        np.testing.assert_allclose(wave, speech.audio, atol=1e-4)
    for name in ("a.TextGrid", "a.json", "a.srt"):
        speech.save_timestamps(tmp_path / name)
    assert (tmp_path / "a.srt").read_text().count("-->") == 2
    grid = (tmp_path / "a.TextGrid").read_text()
    assert all(f'name = "{tier}"' in grid for tier in ("sentences", "words", "phones"))
    assert 'text = "Hello"' in grid
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.TextGrid", "a.flac", "a.json", "a.srt", "a.wav"]
    with pytest.raises(ValueError, match=r"expected a name ending in \.wav or \.flac"):
        speech.save(tmp_path / "a.mp3")
    with pytest.raises(ValueError, match="does not exist"):
        speech.save(tmp_path / "nowhere" / "a.wav")


def test_the_default_voice_is_the_one_in_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr(voice_folder.resources, "files", lambda package: tmp_path)
    with pytest.raises(VoiceError, match="has no default voice: name the folder"):
        Voice.load()
    tiny_voice(tmp_path / "voices" / "default")
    assert Voice.load().path == Voice.load("default").path == tmp_path / "voices" / "default"
    (tmp_path / "work" / "default").mkdir(parents=True)  # a folder of that name which is no voice
    monkeypatch.chdir(tmp_path / "work")
    assert Voice.load("default").path == tmp_path / "voices" / "default"
    tiny_voice(tmp_path / "voices" / "other")
    assert Voice.load("other").path == tmp_path / "voices" / "other"
    tiny_voice(tmp_path / "work" / "other")
    assert Voice.load("other").path == Path("other"), "a path comes before a name"
    with pytest.raises(VoiceError, match="name one of the package \\(default, other\\)"):
        Voice.load("nobody")


def test_a_voice_of_another_inventory_is_refused(tmp_path, hum):
    folder = tiny_voice(tmp_path / "voice")
    card = (folder / "voice.json").read_text()
    (folder / "voice.json").write_text(card.replace('"phonemizer":"hibari"', '"phonemizer":"arpabet"'))
    with pytest.raises(VoiceError, match="another inventory of the phonemizer 'arpabet'"):
        Voice.load(folder).speak("Hello.", vocoder=hum)


def test_subtitles_say_what_was_written(voice, hum):
    address = "https://example.com/" + "abc/" * 20
    speech = voice.speak(f"Look at {address} today. Bye.", vocoder=hum)
    assert [sentence.label for sentence in speech.sentences] == [f"Look at {address} today.", "Bye."]


def test_sound_that_found_no_room_is_not_left_behind(tmp_path, monkeypatch):
    real = soundfile.info
    monkeypatch.setattr(soundfile, "info", lambda path: SimpleNamespace(frames=real(path).frames - 1))
    with pytest.raises(OSError, match="only 999 of 1000 samples could be written"):
        save_sound(tmp_path / "a.flac", np.zeros(1000, np.float32), 22050)
    assert not list(tmp_path.iterdir())
