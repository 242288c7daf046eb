"""Loading ahead changes nothing but the time."""

import pytest
import torch

from clock_attention.speech.training.batching import Batches
from clock_attention.speech.training.config import TrainingConfig
from clock_attention.speech.training.prefetch import Prefetch
from tests.speech.corpora import tiny_store


@pytest.fixture
def batches(tmp_path):
    store = tiny_store(tmp_path / "store")
    return Batches(store, store.split("train"), TrainingConfig(batch_size=5, stretch_share=0.5))


def test_batches_are_the_same_with_and_without_loading_ahead(batches):
    plain, ahead = (Prefetch(batches, 0, 1, torch.device("cpu"), ahead=ahead) for ahead in (False, True))
    for step in (0, 1, 2, 7, 8, 3):  # in order, skipping, and back again
        (plan, batch), (other_plan, other) = plain.take(step), ahead.take(step)
        assert plan == other_plan == batches.plan(step)
        assert all(torch.equal(a, b) for a, b in zip(batch, other, strict=True))
    ahead.close()


def test_a_batch_that_cannot_be_loaded_fails_at_its_own_step(batches, monkeypatch):
    prefetch = Prefetch(batches, 0, 1, torch.device("cpu"), ahead=True)
    load, bad = batches.load, batches.plan(2)

    def broken(plan):
        if plan == bad:
            raise OSError("mel.npy: cannot be read")
        return load(plan)

    monkeypatch.setattr(batches, "load", broken)
    for step in (0, 1):
        prefetch.take(step)
    with pytest.raises(OSError, match="cannot be read"):
        prefetch.take(2)
    prefetch.close()
