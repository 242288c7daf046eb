import dataclasses
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from clock_attention.speech.corpus.store import FORMAT, FeatureStore, name_speaker
from tests.speech.corpora import spoken_by, tiny_store


def test_stores_split_by_id_are_read_as_they_are(tmp_path: Path) -> None:
    tiny_store(tmp_path / "store")
    header = json.loads((tmp_path / "store" / "store.json").read_text())
    assert FeatureStore.open(tmp_path / "store").split_by == "text"
    (tmp_path / "store" / "store.json").write_text(json.dumps({**header, "format": 1}))
    assert FeatureStore.open(tmp_path / "store").split_by == "id"


@pytest.mark.parametrize("change", [{"mean": [float("nan")] * 8}, {"std": "x"}, {"mel": None}, {"phonemizer": {}}])
def test_a_damaged_header_is_named(tmp_path: Path, change: dict[str, object]) -> None:
    tiny_store(tmp_path / "store")
    path = tmp_path / "store" / "store.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match=r"prepare it again"):
        FeatureStore.open(tmp_path / "store")


def test_opening_something_else_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="corpus synthesize"):
        FeatureStore.open(tmp_path)
    (tmp_path / "shards").mkdir()
    with pytest.raises(FileNotFoundError, match="has not finished"):
        FeatureStore.open(tmp_path)
    (tmp_path / "store.json").write_text(json.dumps({"format": FORMAT + 1}))
    with pytest.raises(ValueError, match="prepare it again"):
        FeatureStore.open(tmp_path)


def test_reading(store: FeatureStore) -> None:
    assert sum(len(store.split(name)) for name in ("train", "valid", "test")) == len(store)
    for index, utterance in enumerate(store.utterances):
        mel, tokens = store.mel(index), store.tokens(index)
        assert mel.shape == (utterance.frames, store.mel_config.n_mels)
        assert mel.dtype == torch.float32
        assert tokens.dtype == torch.long
        expected = store.phonemizer(utterance.text)
        assert [store.symbols[token] for token in tokens] == list(expected.tokens)
        assert utterance.words == expected.words
        assert utterance.word_index == expected.word_index
    with pytest.raises(ValueError, match="train, valid, test"):
        store.split("dev")


def test_statistics_are_of_the_training_frames(store: FeatureStore) -> None:
    train = [index for index, utterance in enumerate(store.utterances) if utterance.split == "train"]
    frames = np.concatenate([store.mel(index).numpy().astype(np.float64) for index in train])
    np.testing.assert_allclose(store.mean.numpy(), frames.mean(0), atol=1e-4)
    np.testing.assert_allclose(store.std.numpy(), np.maximum(frames.std(0), 0.1), atol=1e-4)
    tokens = sum(len(store.tokens(index)) for index in train)
    assert store.mpr == pytest.approx(len(frames) / tokens)


def test_a_store_travels_to_workers_without_its_frames(store: FeatureStore) -> None:
    store.mel(0)
    packed = pickle.dumps(store)
    assert len(packed) < store.frames.nbytes / 2
    assert torch.equal(pickle.loads(packed).mel(1), store.mel(1))


def test_a_changed_inventory_is_noticed(store: FeatureStore) -> None:
    header = json.loads(json.dumps(store.header))
    header["phonemizer"]["symbols"].append("x")
    with pytest.raises(ValueError, match="another inventory"):
        _ = FeatureStore(store.path, header).phonemizer


def test_natural_frames_undo_the_speed_of_the_reading(store) -> None:
    hasty = dataclasses.replace(store.utterances[0], frames=50, speed=1.6)
    assert hasty.natural_frames == 80


def test_stores_made_before_there_were_speakers_have_one_without_a_name(store: FeatureStore) -> None:
    [speaker] = store.speakers
    assert speaker.name == ""
    assert torch.equal(torch.tensor(speaker.mean), store.mean)
    assert {store.speaker(index) for index in range(len(store))} == {0}


def test_a_store_can_be_told_who_speaks(tmp_path: Path) -> None:
    before = tiny_store(tmp_path / "store", timed=True)
    named = name_speaker(before.path, "ann")
    assert [speaker.name for speaker in named.speakers] == ["ann"]
    assert named.header == before.header
    assert named.speakers[0].prosody.pitch_mean == before.pitch_mean
    assert [row.id for row in named.utterances] == [row.id for row in before.utterances]
    spoken_by(named, ["ann", "bob"])
    with pytest.raises(ValueError, match=r"several speakers \(ann, bob\)"):
        name_speaker(before.path, "cleo")


def test_several_speakers_keep_their_order_and_statistics(tmp_path: Path) -> None:
    store = spoken_by(tiny_store(tmp_path / "store"), ["bob", "ann"])
    assert [speaker.name for speaker in store.speakers] == ["bob", "ann"]
    assert [store.speaker(index) for index in range(4)] == [0, 1, 0, 1]
    header = store.header | {"speakers": [{"name": "bob"}]}
    (store.path / "store.json").write_text(json.dumps(header))
    with pytest.raises(ValueError, match="damaged"):
        FeatureStore.open(store.path)
