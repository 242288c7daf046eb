"""`run.json`."""

import pytest

from clock_attention.speech.training.config import load_preset
from clock_attention.speech.training.run import RunDescription
from tests.speech.corpora import MELS, SYMBOLS, spoken_by, tiny_store

SMALL = ["width=16", "heads=2", "encoder_layers=1", "decoder_layers=1", "feed_forward=16"]


@pytest.fixture
def described(tmp_path):
    return RunDescription.of(load_preset("small-l1").changed(SMALL), tiny_store(tmp_path / "store"))


def test_sizes_are_those_of_the_corpus_and_survive_the_file(described, tmp_path):
    assert (described.config.model.symbols, described.config.model.mels) == (len(SYMBOLS), MELS)
    assert described.source == "random strings"
    described.write(tmp_path)
    assert RunDescription.read(tmp_path) == described


def test_a_run_continues_with_other_training_options_only(described, tmp_path):
    described.require_continues(described)
    faster = described.model_copy(update={"config": described.config.changed(["learning_rate=0.1"])})
    faster.require_continues(described)
    wider = described.model_copy(update={"config": described.config.changed(["width=32"])})
    with pytest.raises(ValueError, match=r"started with another model \(width differ\)"):
        wider.require_continues(described)
    frozen = described.model_copy(update={"config": described.config.changed(["freeze=encoder"])})
    with pytest.raises(ValueError, match="started with freeze="):
        frozen.require_continues(described)
    other = RunDescription.of(described.config, tiny_store(tmp_path / "other", seed=3))
    if other.language != described.language:
        with pytest.raises(ValueError, match="another corpus"):
            other.require_continues(described)


def test_folders_that_are_no_runs_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is not a training run \(no run\.json\)"):
        RunDescription.read(tmp_path)
    (tmp_path / "run.json").write_text('{"config": 3}')
    with pytest.raises(ValueError, match=r"run\.json cannot be read: config"):
        RunDescription.read(tmp_path)


def test_speakers_are_those_of_the_corpus(tmp_path):
    corpus = spoken_by(tiny_store(tmp_path / "several", timed=True), ["ann", "bob"])
    several = RunDescription.of(load_preset("small"), corpus)
    assert several.config.model.speakers == 2
    assert [speaker.name for speaker in several.language.speakers] == ["ann", "bob"]
    several.write(tmp_path)
    assert RunDescription.read(tmp_path) == several
    one = RunDescription.of(several.config, tiny_store(tmp_path / "one", timed=True))
    assert one.config.model.speakers == 1
    with pytest.raises(ValueError, match="another model"):
        several.require_continues(one)
