"""Folders that no voice can be made of are refused with a sentence, before any training."""

import numpy as np
import pytest

from clock_attention.own_voice.checks import (
    LISTENED,
    Clip,
    compared,
    english_share,
    require_enough,
    require_enough_left,
    require_high_frequencies,
    require_one_speaker,
    require_quiet,
)

ENGLISH = "The birch canoe slid on the smooth planks, and they had to wait for it at the shore."
GERMAN = "Das ist ein sehr schöner Tag, und wir gehen in den Wald, weil die Sonne scheint und der Wind weht."
FRENCH = "Il était une fois dans un pays lointain une petite fille que tout le monde aimait beaucoup."


def clips(text, count=60, seconds=5.0):
    return [Clip(f"c{number}", text, seconds) for number in range(count)]


def test_ten_seconds_are_too_little_and_the_sentence_says_how_much_is_needed():
    with pytest.raises(ValueError, match=r"mine: 10 s of speech with text in 1 clip; a voice needs at least 3 minutes"):
        require_enough(clips(ENGLISH, 1, 10.0), "mine")


def test_texts_that_fit_nothing_are_too_little_and_the_worst_are_named():
    left_out = [(f"c{number}", "text mismatch") for number in range(7, 12)]
    with pytest.raises(
        ValueError,
        match=r"only 20 s of speech have a text that fits; .*\. Left out: c7 \(text mismatch\), .* and 2 more; check",
    ):
        require_enough_left(20.0, left_out, "mine")
    require_enough_left(200.0, left_out, "mine")


DANISH = "For at komme hurtigt hjem tog jeg bussen. Vi har en have med æbletræer, og i dag vil børnene være der."
DUTCH = "Het was al laat toen we thuis kwamen. Is er nog iets te eten, of moeten we iets bestellen in het dorp?"
POLISH = "To był piękny dzień. On powiedział, że nie ma czasu, ale to jest problem, i nikt nie wie, co robić."


@pytest.mark.parametrize("text", [GERMAN, FRENCH, DANISH, DUTCH, POLISH, "Съешь же ещё этих мягких французских булок"])
def test_another_language_is_refused(text):
    with pytest.raises(ValueError, match="its texts are not English"):
        require_enough(clips(text), "mine")


def test_english_passes_and_little_of_it_is_warned_about():
    assert require_enough(clips(ENGLISH, 300), "mine") == []
    assert "5 minutes is not much" in require_enough(clips(ENGLISH, 60), "mine")[0]
    assert english_share([ENGLISH])[0] > 0.2


def people(counts, seed=0, spread=0.6, likeness=0.72):
    """Clips of several people: unit vectors around one direction each; likeness is the cosine between two of them."""
    draw = np.random.default_rng(seed)
    basis = np.linalg.qr(draw.normal(size=(256, len(counts) + 1)))[0].T
    means = [likeness**0.5 * basis[0] + (1 - likeness) ** 0.5 * own for own in basis[1:]]
    rows = [
        mean + spread * draw.normal(size=256) / 16
        for mean, count in zip(means, counts, strict=True)
        for _ in range(count)
    ]
    return [row / np.linalg.norm(row) for row in rows]


@pytest.mark.parametrize("counts", [(20, 20), (30, 6), (12, 12, 12)])
@pytest.mark.parametrize("likeness", [0.5, 0.72, 0.8])  # 0.72: two women reading in English, Kathleen and LJSpeech's
def test_several_speakers_are_refused_unless_they_are_known_to_be_one(counts, likeness):
    embeddings = people(counts, likeness=likeness)
    ids = [f"c{n}" for n in range(len(embeddings))]
    with pytest.raises(ValueError, match="more than one person seems to speak") as refused:
        require_one_speaker(ids, embeddings)
    assert "--one-speaker`" in str(refused.value)
    assert "the voice becomes a mixture" in require_one_speaker(ids, embeddings, known=True)[0]


@pytest.mark.parametrize("period", [2, 3, 5])
def test_speakers_who_take_turns_are_all_listened_to(period):
    for count in (96, 120, 960, 1000):
        turns = [place % period for place in compared(count)]
        assert len(turns) == LISTENED
        assert all(turns.count(person) >= LISTENED // (2 * period) for person in range(period))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [2, 8, 30])
def test_one_speaker_passes(count, seed):
    assert require_one_speaker([f"c{n}" for n in range(count)], people((count,), seed)) == []


def test_the_same_clip_again_and_again_is_one_speaker():
    assert require_one_speaker(["a", "b", "c"], 3 * people((1,))) == []
    assert require_one_speaker(["a"], people((1,))) == []


def test_one_odd_clip_is_named():
    warning = require_one_speaker([f"c{n}" for n in range(31)], people((30, 1), likeness=0.4))
    assert "the rest: c30; does" in warning[0]
    assert "was not checked" in require_one_speaker([], None)[0]


def test_a_noisy_room_is_warned_about():
    assert require_quiet(45.0) == []
    assert "speech is 12 dB above the noise" in require_quiet(12.0)[0]


def test_recordings_from_a_telephone_are_warned_about():
    assert require_high_frequencies([0, 0.0], 600.0) == []
    assert require_high_frequencies([1, 20.0], 600.0) == []
    assert (
        "2.0 of 10.0 minutes (30 recordings) have no frequencies above 5 kHz"
        in (require_high_frequencies([30, 120.0], 600.0)[0])
    )
