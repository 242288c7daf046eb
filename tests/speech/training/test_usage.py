"""How much of a corpus a run uses."""

import pytest
import torch

from clock_attention.speech.training.config import load_preset
from clock_attention.speech.training.loop import train
from clock_attention.speech.training.run import RunDescription
from tests.speech.corpora import tiny_store

TINY = [
    *("width=16", "heads=2", "encoder_layers=1", "decoder_layers=2", "feed_forward=32", "prenet_width=8"),
    *("steps=24", "batch_size=8", "warmup_steps=4", "learning_rate=5e-3", "ema=0.9", "dropout=0.1"),
    *("stretch_share=0.5", "logit_scale_rate=1.0", "short_share=1.0"),
    *("validate_every=8", "log_every=4", "pictures=0", "validation_utterances=4"),
]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tiny_store(tmp_path_factory.mktemp("tiny") / "store")


def tiny(*changes):
    return load_preset("small").changed([*TINY, *changes])


def test_what_is_left_out_is_said_and_stored(store, tmp_path, capsys, caplog):
    kept = [item for item in store.split("train") if len(store.utterances[item].tokens) <= 8]
    train(tiny("longest_tokens=8"), store, tmp_path / "run", max_steps=1)
    assert f"training on {len(kept)} of 32 utterances" in capsys.readouterr().out
    assert "more than longest_tokens=8" in caplog.text
    assert "longest_tokens=0 uses all" in caplog.text
    usage = RunDescription.read(tmp_path / "run").usage
    assert (usage.train, usage.all_train, usage.all_valid) == (len(kept), 32, 8)
    assert 0 < usage.train_hours < usage.all_train_hours
    caplog.clear()
    train(tiny("longest_tokens=0"), store, tmp_path / "all", max_steps=1, quiet=True)
    assert not caplog.text
