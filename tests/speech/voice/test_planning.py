"""Control of single words: exact to the frame, in text, SSML and timelines; old voices say that they cannot."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from clock_attention.speech.aligner.results import AlignedInterval, AlignedRecording
from clock_attention.speech.text.controls import WordControl
from clock_attention.speech.voice.voice import Voice
from tests.speech.voice.test_synthesis import Hum
from tests.speech.voices import tiny_aligned_voice, tiny_voice

TEXT = "Dr. Smith paid $20 in 1850, didn't he? Yes!\n\nA heading without a stop"


@pytest.fixture(scope="module")
def voice(tmp_path_factory):
    return Voice.load(tiny_aligned_voice(tmp_path_factory.mktemp("voices") / "aligned"))


@pytest.fixture(scope="module")
def hum(voice):
    return Hum(voice.language.mel)


def frames(voice, seconds):
    return round(seconds * voice.frames_per_second)


def length(voice, interval):
    return frames(voice, interval.end - interval.start)


def assert_whole(speech):
    assert len(speech.audio) == len(speech.mel) * 256
    assert speech.alignment.durations.sum() == len(speech.mel)
    sounding = [
        d for d, token in zip(speech.alignment.durations, speech.phonemes.tokens, strict=True) if token.isalpha()
    ]
    assert min(sounding) >= 1


@settings(max_examples=25, deadline=None)
@given(
    st.dictionaries(st.integers(0, 13), st.floats(0.15, 2.0), min_size=1, max_size=5),
    st.sampled_from(("pace", "total", "duration")),
)
def test_word_durations_are_exact_to_the_frame(voice, hum, wanted, keep):
    words = {number: {"duration": seconds} for number, seconds in wanted.items()}
    options = {"duration": 14.0} if keep == "duration" else {"keep": keep}
    natural = voice.speak(TEXT, vocoder=hum)
    try:
        speech = voice.speak(TEXT, vocoder=hum, words=words, **options)
    except ValueError:  # 0.15 s for the four words of a number, or nothing left of the whole
        assume(False)
    assert_whole(speech)
    for number, seconds in wanted.items():
        assert length(voice, speech.words[number]) == frames(voice, seconds)
    if keep == "total":
        assert len(speech.mel) == len(natural.mel)
    if keep == "duration":
        assert len(speech.mel) == frames(voice, 14.0)


def test_pitch_and_energy_leave_the_timing_alone(voice, hum):
    plain = voice.speak(TEXT, vocoder=hum)
    speech = voice.speak(TEXT, vocoder=hum, pitch=3, energy=-6, words={2: WordControl(energy=-6)})
    assert (speech.alignment.durations == plain.alignment.durations).all()
    assert not np.allclose(speech.mel, plain.mel)
    middle = speech.words[2].start * 22050 + (speech.words[2].end - speech.words[2].start) * 22050 / 2
    assert speech.audio[int(middle)] == pytest.approx(0.5 * 10 ** (-12 / 20), rel=0.1)


def test_speech_is_reproduced_phone_by_phone_and_word_by_word(voice, hum, tmp_path):
    model = voice.speak(TEXT, vocoder=hum, pace=0.8, words={4: {"duration": 1.0}})
    model.save_timestamps(tmp_path / "model.json")
    again = voice.speak(TEXT, vocoder=hum, timeline=tmp_path / "model.json")
    assert again.words == model.words
    phones, expected = (
        [phone for phone in speech.tiers()["phones"] if phone.label and phone.end > phone.start]
        for speech in (again, model)
    )
    assert phones == expected
    shifted = [(word.label.lower(), word.start + 1, word.end + 1) for word in model.words]
    later = voice.speak(TEXT, vocoder=hum, timeline=shifted)
    assert_whole(later)
    for word, (_, start, end) in zip(later.words, shifted, strict=True):
        assert frames(voice, word.start) == frames(voice, start)
        assert frames(voice, word.end) == frames(voice, end)
    assert not later.audio[: 200 * 64].any()  # silence that was asked for is digital


def test_an_alignment_of_a_recording_is_reproduced_to_the_frame(voice, hum):
    """By phones, and by words where phones last less than a frame."""
    words = [AlignedInterval(0.0, 0.2, ""), AlignedInterval(0.2, 0.5, "Hello"), AlignedInterval(0.5, 1.0, "world")]
    letters = [token for token in voice.speak("Hello world", vocoder=hum).phonemes.tokens if token not in " ,.!?"]
    for fast in (False, True):
        share = [0.005, 0.005, 0.005, 0.285] if fast else [0.075] * 4
        ends = [0.2, *np.cumsum([*share, *[0.1] * (len(letters) - 4)]) + 0.2]
        phones = [AlignedInterval(a, b, label) for (a, b), label in zip(pairwise(ends), letters, strict=True)]
        recording = AlignedRecording(1.1, tuple(words), tuple(phones), 0.0, True)
        speech = voice.speak("Hello world", vocoder=hum, timeline=recording)
        assert len(speech.mel) == frames(voice, 1.1)
        for asked, spoken in zip(words[1:], speech.words, strict=True):
            assert abs(frames(voice, asked.start) - frames(voice, spoken.start)) <= 1
            assert abs(frames(voice, asked.end) - frames(voice, spoken.end)) <= 1


def test_a_timeline_of_another_text_is_refused(voice, hum):
    with pytest.raises(ValueError, match="word 1 is 'there'"):
        voice.speak("Hello world", vocoder=hum, timeline=[("Hello", 0, 1), ("there", 1, 2)])
    with pytest.raises(ValueError, match="expected the 2 words"):
        voice.speak("Hello world", vocoder=hum, timeline=[("Hello", 0, 1)])
    with pytest.raises(ValueError, match="too short"):
        voice.speak("Hello world", vocoder=hum, timeline=[("Hello", 0, 1), ("world", 1, 1.0)])


def test_ssml_breaks_durations_and_marks(voice, hum):
    speech = voice.speak(
        ssml='<speak>Hello <mark name="a"/><break time="2s"/><mark name="b"/><prosody duration="1s">my dear</prosody>'
        ' friend.<break time="1.5s"/> And <break time="5ms"/> so.<mark name="end"/></speak>',
        vocoder=hum,
    )
    assert_whole(speech)
    hello, my, dear, friend, then, so = speech.words
    assert frames(voice, my.start - hello.end) == frames(voice, 2)
    assert frames(voice, dear.end - my.start) == frames(voice, 1)
    assert frames(voice, then.start - friend.end) == frames(voice, 1.5)
    assert frames(voice, so.start - then.end) == 0
    assert [(mark.label, mark.start) for mark in speech.marks] == [("a", hello.end), ("b", my.start), ("end", so.end)]
    assert speech.tiers()["marks"] == list(speech.marks)


def test_a_stream_of_ssml_joins_to_the_whole(voice, hum):
    ssml = (
        '<speak><break time="1s"/>One. <emphasis>Two</emphasis>. <break time="700ms"/>Three.<break time="1s"/></speak>'
    )
    pieces = list(voice.stream(ssml=ssml, vocoder=hum))
    whole = voice.speak(ssml=ssml, vocoder=hum)
    assert len(pieces) == 3
    assert sum(len(piece.mel) for piece in pieces) == len(whole.mel)
    assert frames(voice, whole.words[0].start) == frames(voice, 1)
    assert frames(voice, whole.words[2].start - whole.words[1].end) == frames(voice, 0.7)
    assert frames(voice, whole.seconds - whole.words[2].end) == frames(voice, 1)


def test_limits_count_what_was_asked_for(voice, hum):
    with pytest.raises(ValueError, match="more than 10 seconds"):
        voice.stream(ssml='<speak>One <break time="20s"/> two</speak>', vocoder=hum, most_seconds=10)


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"pitch": 13}, "pitch"),
        ({"energy": float("nan")}, "energy"),
        ({"words": {99: {"pitch": 1}}}, "the text has 2 words"),
        ({"words": {0: {"volume": 1}}}, "'volume'"),
        ({"words": {0: {"duration": "soon"}}}, "duration"),
        ({"keep": "all"}, "keep"),
        ({"ssml": "<speak>x</speak>"}, "not both"),
        ({"timeline": [("Hello", 0, 1), ("world", 1, 2)], "pace": 1.0}, "together"),
    ],
)
def test_bad_requests_are_refused(voice, hum, options, about):
    with pytest.raises(ValueError, match=about):
        voice.speak("Hello world", vocoder=hum, **options)


def test_voices_without_durations_say_so(tmp_path, hum):
    old = Voice.load(tiny_voice(tmp_path / "old"))
    with pytest.raises(ValueError, match="use the default voice"):
        old.speak("Hello", vocoder=hum, pitch=2)
    with pytest.raises(ValueError, match="use the default voice"):
        old.speak(ssml='<speak>Hello <break time="1s"/> you</speak>', vocoder=hum)
    speech = old.speak(ssml='<speak><sub alias="hello">Hi</sub> <mark name="m"/>you</speak>', vocoder=hum)
    assert speech.marks[0].start == speech.words[1].start


@pytest.mark.parametrize("make", [tiny_aligned_voice, tiny_voice])
@pytest.mark.parametrize(
    "options", [{}, {"pace": 1.5}, {"duration": 9.0}, {"most_seconds": 60}, {"most_seconds": 60, "duration": 9.0}]
)
def test_every_phrase_is_encoded_and_its_length_predicted_once(make, options, tmp_path, monkeypatch):
    voice = Voice.load(make(tmp_path / "voice"))
    encode, seen = type(voice.model).encode_timed, []
    monkeypatch.setattr(
        type(voice.model), "encode_timed", lambda model, *given: seen.append(0) or encode(model, *given)
    )
    speech = voice.stream(TEXT, vocoder=Hum(voice.language.mel), **options)
    assert sum(len(piece.utterances) for piece in speech) == len(seen) > 1


def test_a_timeline_is_planned_and_spoken_with_one_encoding(voice, hum, monkeypatch):
    words = voice.speak("Hello world", vocoder=hum).words
    encode, seen = type(voice.model).encode, []
    monkeypatch.setattr(type(voice.model), "encode", lambda model, *given: seen.append(0) or encode(model, *given))
    voice.speak("Hello world", vocoder=hum, timeline=[(word.label, word.start, word.end) for word in words])
    assert len(seen) == 1
