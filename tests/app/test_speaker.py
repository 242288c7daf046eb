"""What visitors may ask for: speech, speech with dragged times, dubbed subtitles, all within limits."""

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from clock_attention.app import speaker as speaker_module
from clock_attention.app.player import player
from clock_attention.app.speaker import LONGEST, LONGEST_TRACK, MOST_SUBTITLES, Dubbed, Speaker, Times
from clock_attention.speech.voice.voice import Voice
from clock_attention.speech.voice.voice_folder import VoiceError

TEXT = "The birch canoe slid, slowly."
SRT = "1\n00:00:00,500 --> 00:00:02,000\nHello there.\n\n2\n00:00:02,300 --> 00:00:02,700\nMuch too long for this.\n"


def test_speech_can_be_played_while_it_grows(speaker):
    steps = list(speaker.speak_in_steps("One two. Three. Four five.", decoding="parallel"))
    assert [step.complete for step in steps] == [False, False, True]
    for (shorter, _), (longer, _) in itertools.pairwise(steps):
        assert len(shorter.audio) < len(longer.audio)
        np.testing.assert_array_equal(longer.audio[: len(shorter.audio)], shorter.audio)
    assert 'data-plays="continues"' in player(steps[1].speech, "it", "continues")


def test_speech_is_complete_when_a_sentence_cannot_be_read(speaker):
    *_, last = speaker.speak_in_steps("One two.\n\n😀\n\nThree.", decoding="parallel")
    assert last.complete
    assert [word.label for word in last.speech.words] == ["One", "two", "Three"]


def test_pace_and_duration_set_the_length(speaker, speech):
    twice = speaker.speak(TEXT, decoding="parallel", pace=2.0)
    assert len(twice.mel) == pytest.approx(len(speech.mel) / 2, abs=4)
    exact = speaker.speak(TEXT, decoding="parallel", pace=2.0, duration=" 3.5s ")  # the duration replaces the pace
    assert len(exact.mel) == round(3.5 * 22050 / 256)


def test_the_other_decoder_is_found(speaker):
    assert speaker.decodings() == ["parallel", "autoregressive"]
    assert speaker.speak("Hello.", decoding="autoregressive").utterances[0].stopped_by_itself is not None
    assert speaker.adjustable("parallel")
    assert not speaker.adjustable("autoregressive")


def test_another_voice_speaks_and_says_whose_it_is(speaker):
    assert speaker.voices == ["voice", "ann"]
    assert speaker.decodings("ann") == ["parallel"]
    assert "CC0. It learned from: Ann's recordings. The speaker's consent: she recorded herself." in speaker.about(
        "ann"
    )
    ours, theirs = (speaker.speak(TEXT, decoding="parallel", voice=name) for name in ("voice", "ann"))
    assert len(ours.mel) != len(theirs.mel) or not np.array_equal(ours.mel, theirs.mel)
    *_, dubbed = speaker.dub_in_steps(SRT, fastest=1.5, voice="ann")
    assert isinstance(dubbed, Dubbed)


def test_voices_are_loaded_when_they_are_chosen(voice, tmp_path):
    speaker = Speaker(voice, others={"gone": tmp_path}, vocoder="griffin-lim")
    assert speaker.voices == ["voice", "gone"]
    with pytest.raises(VoiceError, match="not a voice"):
        speaker.speak(TEXT, decoding="parallel", voice="gone")
    speaker.close()


def test_a_voice_from_a_folder_does_not_hide_one_of_the_package_with_its_name(voice, ann, tmp_path):
    own = Voice.load(shutil.copytree(voice.path, tmp_path / "my" / "ann"))
    speaker = Speaker(own, others={"ann": ann, "same": own.path}, vocoder="griffin-lim")
    assert speaker.voices == ["my/ann", "ann"]
    assert "Ann's recordings" in speaker.about("ann")
    assert "Ann's recordings" not in speaker.about("my/ann")
    speaker.close()


def test_a_voice_in_the_folder_of_work_is_named_after_that_folder(voice, ann, tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(voice.path, tmp_path / "my" / "bob"))
    speaker = Speaker(Voice.load("."), others={"ann": ann}, vocoder="griffin-lim")
    assert speaker.voices == ["bob", "ann"]
    speaker.close()


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ({"text": TEXT, "voice": "nobody"}, "no voice 'nobody'"),
        ({"text": "word " * 200}, "600 at a time"),
        ({"text": ""}, "nothing to say"),
        ({"text": "😀"}, "nothing to say"),
        ({"text": TEXT, "duration": "0"}, "positive time"),
        ({"text": TEXT, "duration": "soon"}, "positive time"),
        ({"text": TEXT, "duration": str(LONGEST + 1)}, "at most"),
        ({"text": TEXT, "pace": 7.0}, "0.5 … 2"),
        ({"text": TEXT, "decoding": "sideways"}, "no sideways decoder"),
    ],
)
def test_requests_beyond_the_limits_are_refused_with_a_message(speaker, request_, complaint):
    with pytest.raises(ValueError, match=complaint):
        speaker.speak(**{"decoding": "parallel", **request_})


def dragged(speech, seconds=None, voice="voice", decoding="parallel", **changes):
    """What a player sends: who spoke, and the times of the words, some of them others than they were."""
    words = [[word.label, word.start, word.end] for word in speech.words]
    for place, times in changes.items():
        words[int(place[1:])][1:] = times
    whole = {"text": speech.text, "seconds": seconds or speech.seconds, "words": words}
    return json.dumps(whole | {"voice": voice, "decoding": decoding})


def test_dragged_words_are_spoken_in_exactly_their_new_times(speaker, speech):
    frame = speech.alignment.frame_seconds
    first, second = speech.words[1:3]
    edge = first.end + 6 * frame
    given = dragged(speech, speech.seconds + 20 * frame, w1=[first.start, edge], w2=[edge, second.end])
    *_, (again, complete) = speaker.speak_again_in_steps(Times.of(given))
    assert complete
    assert len(again.mel) == len(speech.mel) + 20
    for word, (label, start, end) in zip(again.words, json.loads(given)["words"], strict=True):
        assert word.label == label
        assert (word.start, word.end) == pytest.approx((start, end), abs=frame / 100)


def test_dragged_words_are_spoken_by_the_voice_that_spoke_them_before(speaker, ann):
    theirs = speaker.speak(TEXT, decoding="parallel", voice="ann")
    times = Times.of(dragged(theirs, voice="ann"))
    *_, (again, _) = speaker.speak_again_in_steps(times)
    *_, (other, _) = speaker.speak_again_in_steps(times._replace(voice="voice"))
    expected = Voice.load(ann).speak(TEXT, timeline=times.timeline, vocoder="griffin-lim")
    np.testing.assert_allclose(again.mel, expected.mel, atol=1e-4)
    assert other.mel.shape == expected.mel.shape
    assert np.abs(other.mel - expected.mel).max() > 0.1


GIVEN = {"text": "One.", "seconds": 1, "words": [["One", 0.1, 0.5]], "voice": "voice", "decoding": "parallel"}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"seconds": float("nan")}, "these times last nan s"),
        ({"seconds": 1e9}, "these times last"),
        ({"words": [["One", 0, float("inf")]]}, "in seconds"),
        ({"words": [["One", 0.5, 0.1]]}, "in seconds"),
        ({"words": [["Two", 0.1, 0.5]]}, "word 0 is 'Two', expected 'One'"),
        ({"text": "Extraordinary.", "words": [["Extraordinary", 0.1, 0.11]]}, "too short"),
        ({"text": "word " * 200}, "600 at a time"),
        ({"voice": "nobody"}, "no voice 'nobody'"),
        ({"voice": ["ann"]}, "no voice"),
        ({"decoding": "sideways"}, "no sideways decoder"),
        ({"voice": "ann", "decoding": "autoregressive"}, "no autoregressive decoder"),
        ({"decoding": "autoregressive"}, "need another one"),
    ],
)
def test_times_that_no_player_sends_are_refused(speaker, changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        list(speaker.speak_again_in_steps(Times.of(json.dumps(GIVEN | changes))))


@pytest.mark.parametrize(
    "given",
    [
        "",
        "[]",
        "[" * 100_000,
        json.dumps(GIVEN | {"seconds": 10**400}),
        *(json.dumps({key: GIVEN[key] for key in GIVEN if key != gone}) for gone in GIVEN),
    ],
)
def test_times_that_arrive_in_part_are_refused(given):
    with pytest.raises(ValueError, match="arrived damaged"):
        Times.of(given)


def test_files_of_old_requests_disappear(voice, speech, monkeypatch):
    monkeypatch.setattr(speaker_module, "KEPT", 2)
    speaker = Speaker(voice, vocoder="griffin-lim")
    made = [speaker.files(speech) for _ in range(3)]
    assert [Path(figure).exists() for figure, _, _ in made] == [False, True, True]
    assert [Path(path).suffix for path in made[-1]] == [".png", ".wav", ".TextGrid"]
    speaker.close()
    assert not Path(made[-1][0]).parent.parent.exists()


def test_subtitles_are_dubbed_step_by_step_into_files(speaker):
    *steps, dubbed = speaker.dub_in_steps(SRT, fastest=1.5)
    assert steps == [(1, 2), (2, 2)]
    assert isinstance(dubbed, Dubbed)
    assert soundfile.info(dubbed.sound).frames == round(2.7 * 22050)
    assert [report.status for report in dubbed.reports] == ["spoken", "too fast"]
    assert json.loads(Path(dubbed.report).read_text("utf-8"))["fastest"] == 1.5
    assert Path(dubbed.picture).read_bytes()[:4] == b"\x89PNG"
    assert {path.name for path in Path(dubbed.sound).parent.iterdir()} == {"dubbed.wav", "report.json", "timeline.png"}


@pytest.mark.parametrize(
    ("subtitles", "complaint"),
    [
        ("Hello.", "no cue in it"),
        ("x" * (MOST_SUBTITLES + 1), "characters"),
        ("00:00:01,000 --> 00:00:02,000\nHi.\n\n" * 201, "201 cues"),
        (f"00:10:00,000 --> 00:10:{LONGEST_TRACK % 60 + 1:02.0f},000\nHi.\n", "last 601 seconds"),
    ],
)
def test_subtitles_beyond_the_limits_are_refused_with_a_message(speaker, subtitles, complaint):
    with pytest.raises(ValueError, match=complaint):
        list(speaker.dub_in_steps(subtitles, fastest=1.6))


def test_subtitles_that_take_too_long_end_after_a_cue(speaker, monkeypatch):
    monkeypatch.setattr(speaker_module, "LONGEST_WORK", 0.0)
    steps = speaker.dub_in_steps(SRT, fastest=1.5)
    assert next(steps) == (1, 2)
    with pytest.raises(ValueError, match="seconds of work"):
        next(steps)
