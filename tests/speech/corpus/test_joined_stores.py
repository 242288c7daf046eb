import json
from pathlib import Path

import pytest
import torch

from clock_attention.speech.corpus.joined_stores import JoinedStore, open_corpora
from clock_attention.speech.corpus.language import Language
from clock_attention.speech.corpus.protocols import made_of_recordings
from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.training.config import TrainingConfig
from clock_attention.speech.training.loop import within
from tests.speech.corpora import spoken_by, tiny_store


@pytest.fixture
def stores(tmp_path: Path) -> list[FeatureStore]:
    return [tiny_store(tmp_path / "a", size=12), tiny_store(tmp_path / "b", size=7, seed=1)]


def test_every_utterance_keeps_its_text_mel_and_split(stores) -> None:
    joined = JoinedStore(stores)
    assert len(joined.utterances) == 19
    for index, (store, place) in enumerate([(stores[0], i) for i in range(12)] + [(stores[1], i) for i in range(7)]):
        assert joined.utterances[index] is store.utterances[place]
        torch.testing.assert_close(joined.mel(index), store.mel(place), rtol=0, atol=0)
        assert joined.tokens(index).tolist() == store.tokens(place).tolist()
    assert {joined.utterances[i].id for i in joined.split("valid")} == {
        store.utterances[i].id for store in stores for i in store.split("valid")
    }
    assert Language.of(joined).symbols == stores[0].symbols


def test_one_corpus_of_recordings_makes_the_whole_one_of_people(stores) -> None:
    assert not made_of_recordings(JoinedStore(stores).header)
    stores[1].header["folder"] = "recordings"
    assert made_of_recordings(stores[1].header)
    assert made_of_recordings(JoinedStore(stores).header)


def test_statistics_are_those_of_all_frames_together(stores) -> None:
    for store in stores:  # the fixture's are made up
        frames = torch.from_numpy(store.frames.astype("float32"))
        store.mean, store.std = frames.mean(0), frames.std(0, correction=0)
    joined = JoinedStore(stores)
    together = torch.cat([torch.from_numpy(store.frames.astype("float32")) for store in stores])
    torch.testing.assert_close(joined.mean, together.mean(0), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(joined.std, together.std(0, correction=0), rtol=1e-4, atol=1e-5)
    assert joined.mpr == pytest.approx(len(together) / sum(len(row.tokens) for row in joined.utterances))


def test_stores_of_different_phonemes_are_not_joined(stores) -> None:
    header = stores[1].path / "store.json"
    content = json.loads(header.read_text())
    content["phonemizer"]["symbols"] = content["phonemizer"]["symbols"][::-1]
    header.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="differ in their phonemizer"):
        open_corpora([stores[0].path, stores[1].path])


def test_utterances_that_are_too_long_are_left_out(stores) -> None:
    items = stores[0].split("train")
    assert within(stores[0], items, TrainingConfig().longest_tokens) == items
    assert within(stores[0], items, 6) == [i for i in items if len(stores[0].utterances[i].tokens) <= 6]
    assert 0 < len(within(stores[0], items, 6)) < len(items)


def test_a_sentence_that_one_store_trains_on_is_not_held_out_by_another(tmp_path: Path, caplog) -> None:
    stores = [tiny_store(tmp_path / "a", size=12), tiny_store(tmp_path / "b", size=12)]
    for row, held_out in zip(stores[0].utterances, stores[1].utterances, strict=True):
        assert row.text == held_out.text
        object.__setattr__(held_out, "split", "valid")
    joined = JoinedStore(stores)
    trained = {joined.utterances[index].text for index in joined.split("train")}
    assert trained
    assert not trained & {joined.utterances[index].text for index in joined.split("valid")}
    assert "another corpus has the same sentences" in caplog.text


def named(store: FeatureStore, *names: str) -> FeatureStore:
    return spoken_by(store, names)


def test_stores_of_different_speakers_keep_them_apart(tmp_path: Path) -> None:
    first, second = (tiny_store(tmp_path / name, size=10, seed=seed, timed=True) for seed, name in enumerate("ab"))
    first, second = named(first, "ann"), named(second, "bob")
    joined = JoinedStore([first, second])
    assert joined.speakers == (*first.speakers, *second.speakers)
    assert [joined.speaker(index) for index in (0, 9, 10, 19)] == [0, 0, 1, 1]
    assert [speaker.name for speaker in Language.of(joined).speakers] == ["ann", "bob"]


def test_a_speaker_of_two_stores_has_the_statistics_of_both(tmp_path: Path) -> None:
    stores = [tiny_store(tmp_path / name, size=10, seed=seed, timed=True) for seed, name in enumerate("abc")]
    joined = JoinedStore([named(stores[0], "ann"), named(stores[1], "bob"), named(stores[2], "bob", "ann")])
    ann, bob = joined.speakers
    assert (ann.name, bob.name) == ("ann", "bob")
    frames = {"ann": [0, 0], "bob": [0, 0]}  # in the store of their own, and in the last one
    for index, row in enumerate(joined.utterances):
        frames[row.speaker][index >= 20] += row.frames
    for speaker, own, other in ((ann, 5.0, 5.3), (bob, 5.0, 5.0)):
        alone, shared = frames[speaker.name]
        assert speaker.prosody.pitch_mean == pytest.approx((alone * own + shared * other) / (alone + shared))
    assert ann.prosody.pitch_std > bob.prosody.pitch_std == pytest.approx(0.2)
    tokens = sum(len(row.tokens) for row in joined.utterances if row.speaker == "ann")
    assert ann.mpr == pytest.approx(sum(frames["ann"]) / tokens)


def test_one_speaker_in_all_stores_is_one_speaker(stores) -> None:
    nameless = JoinedStore(stores)
    joined = JoinedStore([named(store, "ann") for store in stores])
    assert [speaker.name for speaker in joined.speakers] == ["ann"]
    assert Language.of(joined) == Language.of(nameless)
    assert joined.speakers[0].mean == nameless.speakers[0].mean == Language.of(nameless).mean


def test_a_nameless_store_is_not_joined_with_that_of_a_speaker(stores) -> None:
    with pytest.raises(ValueError, match=r"corpus speaker .*b NAME"):
        JoinedStore([named(stores[0], "ann"), stores[1]])
