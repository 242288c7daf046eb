"""The cepstral distance does not mind timing."""

import pytest

from clock_attention.evaluation.scoring.cepstra import cepstral_distance
from tests.evaluation.scoring.test_sharpness import speech


def test_the_cepstral_distance_forgives_pace_and_level_but_not_sound():
    mel = speech()
    slower = mel.repeat(2, axis=0)
    assert cepstral_distance(mel, mel) == 0
    assert cepstral_distance(slower + 0.7, mel) == pytest.approx(0, abs=1e-9)
    assert cepstral_distance(speech(1), mel) > 1
