"""The language of a voice: what a model cannot be used without."""

import pytest
from pydantic import ValidationError

from clock_attention.speech.corpus.language import Language
from tests.speech.corpora import MELS, SYMBOLS, spoken_by, tiny_store


def test_it_is_taken_from_a_store_and_survives_json(tmp_path):
    store = tiny_store(tmp_path / "plain")
    language = Language.of(store)
    assert language.symbols == tuple(SYMBOLS)
    assert len(language.mean) == MELS
    assert language.prosody is None
    assert Language.model_validate_json(language.model_dump_json()) == language
    timed = Language.of(tiny_store(tmp_path / "timed", timed=True))
    assert timed.prosody.pitch_mean == 5.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": (0.0,) * 3}, "mean has 3 values, expected one for each mel bin"),
        ({"std": (0.0,) * MELS}, "std must be positive"),
        ({"mean": (1e9,) * MELS}, "none of them exceeds 1000"),
        ({"symbols": ("a", "a")}, "symbols must all be different"),
        ({"mpr": float("inf")}, "finite"),
        ({"unknown": 1}, "Extra inputs are not permitted"),
    ],
)
def test_inconsistent_languages_are_refused(change, message, tmp_path):
    good = Language.of(tiny_store(tmp_path / "store")).model_dump()
    with pytest.raises(ValidationError, match=message):
        Language.model_validate({**good, **change})


def test_several_speakers_have_statistics_of_their_own(tmp_path):
    language = Language.of(spoken_by(tiny_store(tmp_path / "store", timed=True), ["ann", "bob"]))
    assert [speaker.name for speaker in language.speakers] == ["ann", "bob"]
    bob = language.of_speaker("bob")
    assert bob.speakers == ()
    assert (bob.mean, bob.prosody) == (language.speakers[1].mean, language.speakers[1].prosody)
    assert (bob.symbols, bob.mel) == (language.symbols, language.mel)
    assert Language.model_validate_json(language.model_dump_json()) == language


def test_one_speaker_is_described_as_ever(tmp_path):
    named = Language.of(spoken_by(tiny_store(tmp_path / "store"), ["ann"]))
    assert named == Language.of(tiny_store(tmp_path / "other"))
    assert "speakers" not in named.model_dump()


@pytest.mark.parametrize("names", [("ann",), ("ann", ""), ("ann", "ann")])
def test_speakers_are_several_and_can_be_told_apart(tmp_path, names):
    language = Language.of(spoken_by(tiny_store(tmp_path / "store"), ["ann", "bob"]))
    table = language.model_dump()
    table["speakers"] = [language.speakers[0].model_dump() | {"name": name} for name in names]
    with pytest.raises(ValueError, match="several different names"):
        Language.model_validate(table)
