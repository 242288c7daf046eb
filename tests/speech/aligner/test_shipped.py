"""The model that comes with the package, on speech that it has not heard and on what is no speech."""

from __future__ import annotations

import numpy as np
import pytest

from clock_attention.speech.aligner import Aligner
from clock_attention.speech.corpus.teacher import TEACHER_RATE, Teacher, TeacherPhrase

TEXT = "Nobody had seen the 12 grey horses, since the fog was so thick."
WORDS = ["Nobody", "had", "seen", "the", "12", "grey", "horses", "since", "the", "fog", "was", "so", "thick"]


@pytest.fixture(scope="module")
def aligner() -> Aligner:
    return Aligner.load()


@pytest.fixture(scope="module")
def wave() -> np.ndarray:
    return Teacher()(TeacherPhrase("x", "", TEXT, 1.0, 0))


def test_words_are_found_in_order_and_take_their_time(aligner, wave):
    found = aligner.align(wave, TEXT, sample_rate=TEACHER_RATE)
    words = [word for word in found.words if word.label]
    assert [word.label for word in words] == WORDS
    assert found.fits
    assert not found.flags
    assert all(0.03 < word.end - word.start < 0.9 for word in words)
    speech = np.abs(wave) > 0.02
    assert words[0].start == pytest.approx(np.argmax(speech) / TEACHER_RATE, abs=0.06)


def test_the_text_of_another_recording_does_not_fit(aligner, wave):
    other = "Please deliver all of the wooden boxes to our office before Thursday."
    assert not aligner.align(wave, other, sample_rate=TEACHER_RATE).fits


def test_another_language_does_not_fit(aligner, wave):
    german = "Niemand hatte die zwölf grauen Pferde gesehen, denn der Nebel war dicht."
    assert not aligner.align(wave, german, sample_rate=TEACHER_RATE).fits


def test_a_missing_word_moves_no_other(aligner, wave):
    whole = aligner.align(wave, TEXT, sample_rate=TEACHER_RATE)
    found = aligner.align(wave, TEXT.replace("grey horses", "horses"), sample_rate=TEACHER_RATE)
    assert found.fits
    before = {word.label: word.start for word in whole.words}
    after = {word.label: word.start for word in found.words}
    assert all(after[word] == pytest.approx(before[word], abs=0.02) for word in ("Nobody", "seen", "fog", "thick"))


@pytest.mark.parametrize("kind", ["noise", "chords"])
def test_what_is_no_speech_does_not_fit(aligner, kind):
    rng = np.random.default_rng(0)
    time = np.arange(4 * 16000) / 16000
    chord = sum(np.sin(2 * np.pi * hertz * time * (1 + np.floor(time * 2) / 12)) for hertz in (220, 277, 330, 440))
    sound = rng.normal(size=len(time)) if kind == "noise" else chord * np.exp(-3 * (time * 2 % 1))
    assert not aligner.align(0.1 * sound.astype(np.float32), TEXT, sample_rate=16000).fits


def test_telephone_speech_is_aligned_about_where_the_recording_is(aligner, wave):
    from clock_attention.speech.audio.wave import resample

    whole = aligner.align(wave, TEXT, sample_rate=TEACHER_RATE)
    found = aligner.align(resample(wave, TEACHER_RATE, 8000), TEXT, sample_rate=8000)
    starts = [[word.start for word in tier.words if word.label] for tier in (whole, found)]
    assert found.fits
    assert np.median(np.abs(np.subtract(*starts))) < 0.02
