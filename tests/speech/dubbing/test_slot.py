"""One cue in its slot."""

import numpy as np
import pytest
import soundfile

from clock_attention.speech.dubbing.slot import (
    EMPTY,
    FAST,
    IMPOSSIBLE,
    SPOKEN,
    Delivery,
    Slot,
    finished_report,
    speak_slot,
)
from clock_attention.speech.dubbing.subtitles import Cue
from clock_attention.speech.vocoder.vocoder import GriffinLim
from clock_attention.speech.voice.voice import Voice
from tests.speech.voices import tiny_aligned_voice

NATURAL = Delivery()
TEXT = "She sells sea shells by the sea shore."


@pytest.fixture(scope="module")
def voice(tmp_path_factory):
    return Voice.load(tiny_aligned_voice(tmp_path_factory.mktemp("slot") / "voice"))


@pytest.fixture
def speak(voice, tmp_path):
    vocoder = GriffinLim(voice.language.mel, iterations=1)

    def run(text, seconds, delivery=NATURAL, start=1.0):
        mel = voice.language.mel
        slot = Slot.of(Cue(3, start, start + seconds, text, line=1), mel.sample_rate, mel.hop_length)
        return slot, speak_slot(voice, vocoder, slot, delivery, tmp_path)

    return run


def test_a_cue_fills_its_samples_exactly(speak, tmp_path):
    slot, report = speak(TEXT, 3.21)
    assert report.status == SPOKEN
    audio, rate = soundfile.read(tmp_path / report.file)
    assert len(audio) == slot.samples == round(4.21 * rate) - round(1.0 * rate)
    assert report.spoken_frames <= slot.frames
    assert report.skipped == 0


def test_a_long_slot_is_filled_with_silence_beyond_the_slowest_pace(speak, tmp_path):
    _, natural = speak(TEXT, 3.0)
    _, report = speak(TEXT, 10 * natural.natural_seconds)
    assert report.pace == pytest.approx(0.8, rel=0.02)
    audio, _ = soundfile.read(tmp_path / report.file)
    assert not np.abs(audio[len(audio) // 2 :]).any()


def test_what_is_too_fast_says_how_much_to_cut(speak):
    _, natural = speak(TEXT, 3.0)
    _, report = speak(TEXT, natural.natural_seconds / 2.5)
    assert report.status == FAST
    assert report.pace == pytest.approx(2.5, rel=0.05)
    assert 0 < report.cut_words <= report.words
    _, impossible = speak(TEXT, 0.05)
    assert (impossible.status, impossible.file) == (IMPOSSIBLE, "")


def test_nothing_to_say_is_empty(speak):
    assert speak("♪ … ♪", 2.0)[1].status == EMPTY


def test_a_cue_that_was_spoken_is_not_spoken_again(speak, tmp_path):
    _, first = speak(TEXT, 3.0)
    time = (tmp_path / first.file).stat().st_mtime_ns
    _, again = speak(TEXT, 3.0)
    assert again == first
    assert (tmp_path / first.file).stat().st_mtime_ns == time
    _, other = speak(TEXT, 3.0, Delivery(seed=1))
    assert other.file != first.file


def test_deliveries_beyond_speech_are_refused():
    with pytest.raises(ValueError, match=r"slowest: got 0\.1, expected 0\.3 … 1"):
        Delivery(slowest=0.1)
    with pytest.raises(ValueError, match="fastest: got 9, expected 1 … 4"):
        Delivery(fastest=9.0)


def test_a_cue_of_a_day_takes_no_more_memory_than_ten_minutes():
    slot = Slot.of(Cue(1, 1.0, 86_400.0, "Hello.", 1), 22050, 256)
    assert slot.samples == 600 * 22050


@pytest.mark.parametrize("damage", ["", "[" * 10**5, "[1]", '{"number": 1}', '{"other": 1}'])
def test_damaged_notes_of_an_earlier_run_are_not_believed(tmp_path, damage):
    (tmp_path / "a.json").write_text(damage)
    assert finished_report(tmp_path / "a.json") is None
