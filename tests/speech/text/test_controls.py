"""What a text asks for besides its words."""

import math

import pytest

from clock_attention.speech.text.controls import Controls, Mark, Prosody, Stretch, WordControl


def test_nested_requests_multiply_paces_and_add_the_rest():
    inner, outer = Prosody(pace=2.0, pitch=1.0, energy=-3.0), Prosody(pace=0.5, pitch=2.0, energy=-3.0)
    assert inner.within(outer) == Prosody(pace=1.0, pitch=3.0, energy=-6.0)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"pace": 9.0}, "pace: got 9, expected 0.2 … 5 times natural speed"),
        ({"pitch": -13.0}, "pitch: got -13, expected -12 … 12 semitones"),
        ({"energy": math.nan}, "energy: got nan"),
    ],
)
def test_requests_beyond_the_limits_are_refused(request_, message):
    with pytest.raises(ValueError, match=message):
        WordControl(**request_)
    with pytest.raises(ValueError, match="pitch: got 24"):
        Prosody(pitch=12.0).within(Prosody(pitch=12.0))


def test_parts_of_a_text_get_their_own_requests():
    controls = Controls(
        prosody={0: Prosody(pitch=1), 3: Prosody(pace=2.0)},
        stretches=(Stretch(2, 4, 1.5), Stretch(0, 2, 1.0)),
        breaks={2: 0.5},
        marks=(Mark(0, "start"), Mark(2, "middle", before_break=True), Mark(4, "end")),
    )
    first, second = controls.of(0, 2, closes=False), controls.of(2, 4, closes=True)
    assert (first.prosody, second.prosody) == ({0: Prosody(pitch=1)}, {3: Prosody(pace=2.0)})
    assert (first.stretches, second.stretches) == ((Stretch(0, 2, 1.0),), (Stretch(2, 4, 1.5),))
    assert first.breaks == second.breaks == {2: 0.5}  # between the two: both know of it
    assert [mark.name for mark in first.marks] == ["start", "middle"]  # at the end of the word before its break
    assert [mark.name for mark in second.marks] == ["end"]


def test_only_times_make_a_text_timed():
    assert Controls().neutral
    assert not Controls({0: Prosody(pitch=1)}).timed
    assert not Controls({0: Prosody(pitch=1)}).neutral
    assert Controls(breaks={0: 0.2}).timed
    assert Controls({0: Prosody(pace=2)}).timed


def test_words_that_are_not_there_are_named():
    with pytest.raises(ValueError, match="word 4: the text has 4 words, numbered 0 … 3"):
        Controls({4: Prosody(pitch=1)}).check(4)
    Controls(stretches=(Stretch(0, 4, 1.0),)).check(4)
