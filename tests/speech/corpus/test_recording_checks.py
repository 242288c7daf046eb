"""What a recording must satisfy."""

import numpy as np
import pytest

from clock_attention.speech.corpus.recording_checks import (
    CheckBounds,
    Recording,
    Rejected,
    check_finite,
    check_frames,
    check_wave,
    load_recording,
)

NOISE = 0.1 * np.random.default_rng(0).normal(size=22050).clip(-3, 3).astype(np.float32)


@pytest.mark.parametrize(
    ("wave", "reason"),
    [
        (NOISE[:0], "empty"),
        (np.where(np.arange(22050) == 7, np.nan, NOISE), "unreadable"),
        (100 * NOISE, "too loud"),
        (1e-3 * NOISE, "silent"),
        (np.sign(NOISE), "clipped"),
    ],
)
def test_every_fault_has_a_name(wave, reason):
    with pytest.raises(Rejected) as found:
        check_wave(wave, CheckBounds())
    assert found.value.reason == reason


def test_a_lone_peak_at_full_scale_is_not_clipping():
    wave = NOISE.copy()
    wave[::100] = 1.0
    check_wave(wave, CheckBounds())
    check_wave(np.float32([0.5]), CheckBounds())


@pytest.mark.parametrize(
    ("seconds", "frames", "tokens", "reason"),
    [
        (0.2, 20, 4, "too short"),
        (21, 1800, 300, "too long"),
        (5, 430, 10, "text mismatch"),
        (2, 170, 150, "text mismatch"),
    ],
)
def test_lengths_are_compared_with_the_limits_and_the_text(seconds, frames, tokens, reason):
    with pytest.raises(Rejected, match=reason):
        check_frames(seconds, frames, tokens, CheckBounds())
    check_frames(2.0, 172, 25, CheckBounds())


def test_missing_and_broken_files_and_infinite_features(tmp_path):
    with pytest.raises(Rejected, match="missing: no audio file named a"):
        load_recording(Recording("a", "text", ""), 22050)
    (tmp_path / "a.wav").write_bytes(b"RIFF of nothing")
    with pytest.raises(Rejected, match="unreadable"):
        load_recording(Recording("a", "text", str(tmp_path / "a.wav")), 22050)
    with pytest.raises(Rejected, match="not finite: 1 mel values"):
        check_finite(np.array([[1.0, np.inf]], np.float16))


def test_recordings_of_one_sentence_are_one_group():
    assert Recording("a", "Hello, there!", "").group == Recording("b", "hello there", "").group
