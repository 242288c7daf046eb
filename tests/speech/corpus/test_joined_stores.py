import json
from pathlib import Path

import pytest
import torch

from clock_attention.speech.corpus.joined_stores import JoinedStore, open_corpora
from clock_attention.speech.corpus.language import Language
from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.training.config import TrainingConfig
from clock_attention.speech.training.loop import within
from tests.speech.corpora import tiny_store


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
