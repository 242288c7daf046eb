"""Lengths: what is asked for is checked in words, and shared out to the last frame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.voice.pacing import (
    Pacing,
    check_duration,
    parse_duration,
    share_frames,
)


@pytest.mark.parametrize("duration", [3.2, "3.2", "3.2s", " 3.2 s ", "3200ms", "3200.0 ms"])
def test_durations_are_read_in_seconds_and_milliseconds(duration):
    assert parse_duration(duration) == pytest.approx(3.2)


@pytest.mark.parametrize("duration", [0, "0", -1, "-1s", "nan", float("nan"), float("inf"), "", "3 minutes", "9" * 400])
def test_what_is_not_a_duration_is_refused_with_examples(duration):
    with pytest.raises(ValueError, match=r"expected a positive time such as 3\.2, 3\.2s or 3200ms"):
        parse_duration(duration)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"pace": -1.0}, r"pace: got -1, expected 0.5 … 2"),
        ({"pace": float("nan")}, "pace: got nan"),
        ({"pace": 2.1}, "2 is twice as fast"),
        ({"mpr": 0.0}, "mpr: got 0, expected 1 … 50"),
        ({"mpr": float("inf")}, "mpr: got inf"),
        ({"pace": 1.0, "duration": "3s"}, "pace and duration were given together"),
    ],
)
def test_requests_that_cannot_be_met_are_refused_with_a_message(request_, message):
    with pytest.raises(ValueError, match=message):
        Pacing.of(**{"pace": None, "mpr": None, "duration": None, **request_})


def test_pauses_follow_the_speech_whichever_way_its_pace_is_given():
    assert Pacing.of(2.0, None, None).speed(6.0) == 2
    assert Pacing.of(None, 3.0, None).speed(6.0) == 2
    assert Pacing.of(None, None, None).speed(6.0) == 1


def test_a_duration_beyond_all_speech_names_the_limits_and_the_natural_duration():
    with pytest.raises(ValueError, match=r"expected 0\.10 … 5\.0 s .*10 phonemes.* natural duration is 0\.60 s"):
        check_duration(0.05, 5, 10, 60, 0.01)
    with pytest.raises(ValueError, match="got 9 s"):
        check_duration(9, 900, 10, 60, 0.01)
    check_duration(0.1, 10, 10, 60, 0.01)


@given(
    st.lists(st.tuples(st.integers(1, 500), st.integers(0, 60)), min_size=1, max_size=20),
    st.floats(0, 1),
    st.integers(1, 3),
)
def test_frames_are_shared_out_exactly_and_leave_no_part_below_its_minimum(parts, place, slower):
    natural = [frames for frames, _ in parts]
    fewest = [min(least, frames) for frames, least in parts]
    total = (sum(fewest) + round(place * (sum(natural) - sum(fewest)))) * slower
    if total == 0:
        return
    shares = share_frames(total, natural, fewest)
    assert sum(shares) == total
    assert all(got >= least for got, least in zip(shares, fewest, strict=True))


def test_frames_are_shared_in_proportion():
    assert share_frames(300, [100, 50, 0], [20, 10, 0]) == [200, 100, 0]
    assert share_frames(150, [100, 50], [20, 10]) == [100, 50]
    assert share_frames(90, [100, 50], [20, 10]) == [60, 30]
    assert share_frames(60, [100, 20], [50, 0]) == [57, 3]  # a pause gives way before speech does
