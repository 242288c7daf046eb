import numpy as np
import pytest

from clock_attention.evaluation.scoring.pitch_measures import final_pitch, pitch_distance, pitch_measures


def contour(hertz: list[float]) -> np.ndarray:
    values = np.array(hertz, dtype=float)
    return np.where(values > 0, np.log(np.maximum(values, 1)), 0.0)


def test_pitch_counts_voiced_frames_alone():
    found = pitch_measures(contour([0, 100, 100, 100, 200, 200, 200, 0]))
    assert found.hertz == pytest.approx(100 * 2**0.5)
    assert found.spread == pytest.approx(6)
    assert found.voiced == 0.75
    assert np.isnan(pitch_measures(contour([0, 0, 100])).hertz)


def test_a_transposed_copy_has_no_error_and_a_mirrored_one_a_negative_correlation():
    up = contour([0, *np.linspace(100, 200, 20), 0])
    path = np.stack([np.arange(22)] * 2, 1)
    same = pitch_distance(up + np.log(1.5) * (up > 0), up, path)
    assert same.error == pytest.approx(0, abs=1e-9)
    assert same.correlation == pytest.approx(1)
    assert pitch_distance(up[::-1], up, path).correlation < -0.9
    assert np.isnan(pitch_distance(np.zeros(22), up, path).error)


def test_the_end_of_a_rising_question_is_higher():
    rising, falling = contour([0, 100, 120, 150, 200, 0]), contour([0, 150, 120, 100, 80, 0])
    assert final_pitch(rising, 2) - final_pitch(falling, 2) > 10
    fading = contour([150, 150, 150, 150, 155, 160, 40, 41])
    assert final_pitch(fading, 2) == pytest.approx(12 * np.log2(157.5), abs=0.1)
