"""The vocoder speaks what sounds; silence that was put in is digital, and gain follows the tokens."""

import numpy as np
import pytest
import torch

from clock_attention.speech.text.phonemes import Phonemes
from clock_attention.speech.voice.utterance import Utterance, with_longer_silences
from clock_attention.speech.voice.waveform import frame_energy, sounded
from clock_attention.timestamps import Alignment

HOP = 100


def spoken() -> Utterance:
    """A silence, a sound and a silence of two frames each."""
    weights = torch.eye(3).repeat_interleave(2, 0)[None]
    alignment = Alignment(("", "a", ""), np.array([2, 2, 2]), 0.1)
    return Utterance("a", Phonemes(("a",), (0,), ("a",)), torch.zeros(6, 8), alignment, [weights], [], 1, 6, None)


def loud(mel: torch.Tensor) -> np.ndarray:
    return np.full(len(mel) * HOP, 0.5, np.float32)


def test_silence_that_was_put_in_is_digital_and_the_length_is_exact():
    longer = with_longer_silences(spoken(), np.array([5, 2, 4]), -11.5)
    wave = sounded(longer, loud, HOP)
    assert len(wave) == 11 * HOP
    silent = np.isin(np.arange(11), longer.silent)
    assert silent.sum() == 5
    assert not wave.reshape(11, HOP)[silent].any()
    assert (wave.reshape(11, HOP)[~silent].max(1) > 0.4).all()


def test_gain_is_that_of_the_token_that_is_attended_to():
    decibels = frame_energy(spoken(), np.array([0.0, -6.0, 3.0]))
    assert decibels.tolist() == pytest.approx([0, 0, -6, -6, 3, 3])
    wave = sounded(spoken(), loud, HOP, np.array([0.0, -20.0, 0.0]))
    assert wave[3 * HOP - 1] == pytest.approx(0.05, rel=0.05)
