"""Checkpoints: crashes, damage, and which are kept."""

import pytest
import torch
from lightning_fabric import Fabric

from clock_attention.speech.training import checkpoints as checkpoint
from clock_attention.speech.training.loop import train
from clock_attention.speech.training.progress import read_log
from tests.speech.training.runs import require_same_run, same, tiny


def test_a_crash_while_writing_leaves_the_last_checkpoint_in_charge(store, tmp_path, monkeypatch):
    train(tiny(), store, tmp_path / "straight", quiet=True)
    run = tmp_path / "crashed"
    train(tiny(), store, run, max_steps=5, quiet=True)
    real_save = Fabric.save

    def half_written(self, path, state, filter=None):
        real_save(self, path, state, filter)
        with open(path, "r+b") as file:
            file.truncate(1000)
        raise OSError("disk full")

    monkeypatch.setattr(Fabric, "save", half_written)
    with pytest.raises(OSError, match="disk full"):
        train(tiny(), store, run, resume=True, quiet=True)
    monkeypatch.undo()
    assert [path.name for path in checkpoint.checkpoints(run / "checkpoints")] == ["step-00000005.pt"]
    train(tiny(), store, run, resume=True, quiet=True)
    require_same_run(tmp_path / "straight", run)
    assert not list((run / "checkpoints").glob(".*"))


def test_a_damaged_checkpoint_is_passed_over_for_an_intact_older_one(store, tmp_path, caplog):
    train(tiny("checkpoint_minutes=1e-9"), store, tmp_path / "straight", quiet=True)
    for damage in (truncate, flip_a_bit, forget_the_model):
        run = tmp_path / damage.__name__
        train(tiny("checkpoint_minutes=1e-9"), store, run, max_steps=10, quiet=True)
        damage(run / "checkpoints" / "step-00000010.pt")
        caplog.clear()
        train(tiny("checkpoint_minutes=1e-9"), store, run, resume=True, quiet=True)
        assert "step-00000010.pt" in caplog.text
        assert "using step-00000009.pt instead" in caplog.text
        require_same_run(tmp_path / "straight", run)


def truncate(path):
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size // 2)


def flip_a_bit(path):
    """In the middle of a weight, where torch does not look."""
    content = bytearray(path.read_bytes())
    state = torch.load(path, weights_only=True)
    weight = max(state["model"].values(), key=torch.numel)
    content[content.index(weight.numpy().tobytes()) + 2] ^= 64
    path.write_bytes(content)


def forget_the_model(path):
    state = torch.load(path, weights_only=True)
    del state["model"]
    torch.save(state, path)


def test_a_run_without_an_intact_checkpoint_says_what_is_wrong_with_each(store, tmp_path):
    run = tmp_path / "run"
    train(tiny("checkpoint_minutes=1e-9"), store, run, max_steps=2, quiet=True)
    truncate(run / "checkpoints" / "step-00000001.pt")
    forget_the_model(run / "checkpoints" / "step-00000002.pt")
    with pytest.raises(ValueError, match=r"step-00000002.pt: the part 'model' .* nothing.*step-00000001.pt: .*damaged"):
        train(tiny(), store, run, resume=True, quiet=True)


def test_a_crash_while_naming_the_best_checkpoint_does_not_lose_it(store, tmp_path, monkeypatch):
    train(tiny(), store, tmp_path / "straight", quiet=True)
    run = tmp_path / "crashed"

    def crash(source, target):
        raise OSError("killed")

    monkeypatch.setattr(checkpoint, "link_atomically", crash)
    with pytest.raises(OSError, match="killed"):
        train(tiny(), store, run, quiet=True)
    monkeypatch.undo()
    train(tiny(), store, run, resume=True, quiet=True)
    best = [checkpoint.read(one / "checkpoints" / "best.pt") for one in (tmp_path / "straight", run)]
    assert same(best[0]["model"], best[1]["model"])


def test_two_checkpoints_and_the_best_are_kept(store, tmp_path):
    train(tiny("checkpoint_minutes=1e-9"), store, tmp_path / "run", quiet=True)
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["best.pt", "step-00000023.pt", "step-00000024.pt"]
    best = checkpoint.read(tmp_path / "run" / "checkpoints" / "best.pt")
    rows = [row for row in read_log(tmp_path / "run" / "log.csv") if row["valid_l1"]]
    assert best["step"] == int(min(rows, key=lambda row: float(row["valid_l1"]))["step"])
