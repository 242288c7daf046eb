"""Predicted energies are spread out as far as the recordings' are, and durations stay."""

import pytest
import torch

from clock_attention.own_voice.spread import MOST_SPREAD, energy_spread
from clock_attention.speech.model.aligned import AlignedModel
from clock_attention.speech.model.config import AlignedConfig
from clock_attention.speech.voice.from_run import spread_energies
from tests.speech.corpora import tiny_store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tiny_store(tmp_path_factory.mktemp("timed") / "store", timed=True)


def built(store, deviation):
    """A model whose energies differ by about so much."""
    torch.manual_seed(0)
    model = AlignedModel(AlignedConfig(symbols=len(store.symbols), width=16, heads=2, encoder_layers=1)).eval()
    torch.nn.init.normal_(model.timing_output.weight, std=deviation / 4)
    return model


def test_after_spreading_there_is_nothing_left_to_spread(store, monkeypatch):
    monkeypatch.setattr("clock_attention.own_voice.spread.MOST_SPREAD", 1e6)
    items = list(range(8))
    model = built(store, 0.01)
    factor = energy_spread(model, store, items)
    assert factor > 1
    before = model.encode(store.tokens(0)[None], torch.tensor([len(store.tokens(0))]))
    model.load_state_dict(spread_energies(dict(model.state_dict()), factor))
    after = model.encode(store.tokens(0)[None], torch.tensor([len(store.tokens(0))]))
    torch.testing.assert_close(after.energy, before.energy * factor)
    assert torch.equal(after.log_duration, before.log_duration)
    assert energy_spread(model, store, items) == pytest.approx(1, abs=1e-3)


def test_lively_predictions_are_left_alone_and_flat_ones_stay_within_reason(store):
    assert energy_spread(built(store, 50.0), store, [0, 1, 2]) == 1
    assert energy_spread(built(store, 0.001), store, [0, 1, 2]) == MOST_SPREAD
