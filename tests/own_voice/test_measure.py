"""Measures of a voice."""

import numpy as np
import pytest

from clock_attention.own_voice import measure
from clock_attention.own_voice.measure import different_texts, held_out, mel_movement, opinions, word_errors
from tests.speech.corpora import tiny_store


def test_mel_movement_is_relative_to_the_recordings():
    mels = [np.random.default_rng(seed).normal(size=(50, 8)) for seed in range(3)]
    same = mel_movement(mels, mels)
    assert same == {"movement": 1.0, "bins": 1.0, "variance": 1.0}
    flat = mel_movement([0.5 * mel for mel in mels], mels)
    assert flat["movement"] == pytest.approx(0.5)


def test_recordings_are_those_that_training_has_not_seen(tmp_path):
    timed = tiny_store(tmp_path / "timed", timed=True)
    assert {timed.utterances[item].split for item in held_out(timed)} == {"valid"}
    assert held_out(tiny_store(tmp_path / "plain")) == list(range(40))[-measure.HELD_OUT :]


def test_recordings_whose_texts_did_not_fit_are_not_compared_with(tmp_path):
    store = tiny_store(tmp_path / "timed", timed=True)
    for row in store.utterances:
        if row.split != "train" or row.id == store.utterances[0].id:
            object.__setattr__(row, "durations", None)
    found = held_out(store)
    assert len(found) == measure.HELD_OUT
    assert all(store.utterances[item].durations is not None for item in found)


def test_the_page_shows_a_sentence_once():
    assert different_texts(["One.", "One.", "Two.", "One.", "Three."]) == [0, 2]
    assert different_texts(["One.", "One."]) == [0]


def test_what_is_not_installed_is_left_out(monkeypatch):
    def missing(*_):
        raise ModuleNotFoundError("not installed")

    monkeypatch.setattr(measure, "load_recognizer", missing)
    monkeypatch.setattr(measure, "load_predictor", missing)
    monkeypatch.setattr(measure, "load_encoder", lambda: None)
    waves = [np.zeros(100, np.float32)]
    assert word_errors(["a"], waves, 22050, "moonshine") == {}
    assert opinions(waves, waves, 22050) == {}
    assert measure.speaker_similarity(waves, waves, waves, 22050) == {}
