from __future__ import annotations

from dataclasses import replace

import numpy as np

from clock_attention.speech.aligner.transcript import OTHER, PAUSE, PHONE, transcript
from clock_attention.speech.text.phonemizers import phonemizer


def test_every_phoneme_is_a_unit_and_silence_may_lie_between_words():
    phonemes = phonemizer()("Ten, 1850 men.")
    script = transcript(phonemes, tolerant=False)
    spoken = [place for place, token in enumerate(phonemes.tokens) if token not in " ,.!?"]
    assert script.token[script.kind == PHONE].tolist() == spoken
    assert all(script.graph.units[unit].skip == 0 for unit in np.flatnonzero(script.kind == PAUSE))
    assert all(script.graph.units[unit].skip == np.inf for unit in np.flatnonzero(script.kind == PHONE))
    assert OTHER not in script.kind
    assert script.clock[-1] == len(spoken)


def test_the_silence_inside_a_number_belongs_to_the_word():
    script = transcript(phonemizer()("1850"), tolerant=False)
    inside = (script.kind == PAUSE) & (script.word == 0)
    assert inside.sum() == 1


def test_tolerance_lets_words_be_missing_or_added():
    script = transcript(phonemizer()("Ten men"), tolerant=True)
    assert (script.kind == OTHER).sum() == 3  # before, between, after
    strict = transcript(phonemizer()("Ten men"), tolerant=False)
    assert len(script.graph.sources) > len(strict.graph.sources)


def test_the_words_of_a_text_are_counted_once():
    """Each sound that may be left out used to count all words again: an hour of text took minutes."""

    class Counted(list):
        walks = 0

        def __iter__(self):
            Counted.walks += 1
            return super().__iter__()

    phonemes = phonemizer()("Ten hard tides " * 50)
    transcript(replace(phonemes, word_index=Counted(phonemes.word_index)), tolerant=True)
    assert Counted.walks < 10
