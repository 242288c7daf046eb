"""Training: it learns, it resumes bit for bit whenever it was killed, and it stops before it ruins anything."""

import csv
import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from lightning_fabric import Fabric

from clock_attention.files import LockedError, locked
from clock_attention.speech.training import checkpoints as checkpoint
from clock_attention.speech.training.config import load_preset
from clock_attention.speech.training.loop import NonFiniteLossError, Trainer, learning_rate, train
from clock_attention.speech.training.progress import read_log
from tests.speech.corpora import tiny_store
from tests.speech.training.runs import TINY, require_same_run, tiny

SYSTEMS = [
    [],
    ["cross_attention=dot", "frames_per_step=2", "postnet_layers=2"],
    ["warped_share=0.75", "warped_from=12", "timing_slack=3"],
    ["decoding=autoregressive", "positions=rotary", "scheduled_sampling=1.0"],
    ["decoding=autoregressive", "clocks=unnormalized"],
]


@pytest.mark.parametrize("changes", SYSTEMS, ids=" ".join)
def test_a_resumed_run_is_bitwise_the_run_that_never_stopped(changes, store, tmp_path):
    train(tiny(*changes), store, tmp_path / "straight", quiet=True)
    for _ in range(3):
        train(tiny(*changes), store, tmp_path / "stopped", resume=True, max_steps=9, quiet=True)
    require_same_run(tmp_path / "straight", tmp_path / "stopped")


def test_two_trainings_do_not_share_a_folder(store, tmp_path):
    run = tmp_path / "run"
    train(tiny(), store, run, max_steps=1, quiet=True)
    before = (run / "log.csv").read_bytes(), sorted((run / "checkpoints").iterdir())
    with locked(run, "a training run"), pytest.raises(LockedError, match="another process is writing a training run"):
        train(tiny(), store, run, resume=True, quiet=True)
    assert before == ((run / "log.csv").read_bytes(), sorted((run / "checkpoints").iterdir()))


@pytest.mark.parametrize("changes", [[], ["decoding=autoregressive", "positions=rotary"]], ids=["parallel", "steps"])
def test_clock_models_learn_the_tiny_corpus_and_its_order(changes, store, tmp_path):
    config = tiny("width=32", "steps=120", "validate_every=120", "dropout=0.0", "stretch_share=0.0", *changes)
    train(config, store, tmp_path / "run", quiet=True)
    rows = read_log(tmp_path / "run" / "log.csv")
    assert float(rows[-1]["train_l1"]) < 0.45 * float(rows[0]["train_l1"])
    assert float(rows[-1]["align_expected_violations"]) == 0
    assert float(rows[-1]["align_diagonal_deviation"]) < 0.12
    assert float(rows[-1]["length_error"]) < 0.1


def test_whole_steps_hear_the_models_own_frames(store, tmp_path):
    config = tiny("decoding=autoregressive", "frames_per_step=2", "mels=8")
    trainer = Trainer(config, store, tmp_path, Fabric(accelerator="cpu", devices=1))
    batch = trainer.batches.load(trainer.batches.plan(0))
    assert torch.equal(trainer.recipe.sampled(trainer.model, batch, 0.0), batch.mel)
    output = trainer.recipe.sampled(trainer.model, batch, 1.0)
    for item, frames in enumerate(batch.frames.tolist()):
        own = (output[item, : frames - frames % 2] != batch.mel[item, : frames - frames % 2]).unflatten(0, (-1, 2))
        by_step = own.flatten(1)
        assert torch.equal(by_step.any(1), by_step.all(1))
    changed = (output != batch.mel).any(-1).float().mean(1)
    assert changed.max() > 0.3 > changed.min()  # from hardly any to nearly all, utterance by utterance


def test_a_loss_that_is_not_a_number_names_the_batch_and_spares_the_checkpoint(tmp_path):
    store = tiny_store(tmp_path / "store")
    run = tmp_path / "run"
    train(tiny(), store, run, max_steps=2, quiet=True)
    mel = np.load(tmp_path / "store" / "mel.npy")
    broken = next(u for u in store.utterances if u.id == "u013")
    mel[broken.offset] = np.nan
    np.save(tmp_path / "store" / "mel.npy", mel)
    store.__dict__.pop("frames", None)
    with pytest.raises(NonFiniteLossError, match=r"the loss is nan.*u013"):
        train(tiny(), store, run, resume=True, quiet=True)
    state = checkpoint.read(checkpoint.latest(run))
    assert all(tensor.isfinite().all() for tensor in state["model"].values())


def test_an_existing_run_is_neither_overwritten_nor_continued_as_another_model(store, tmp_path):
    train(tiny(), store, tmp_path / "run", max_steps=1, quiet=True)
    with pytest.raises(FileExistsError, match="resume it"):
        train(tiny(), store, tmp_path / "run", quiet=True)
    with pytest.raises(ValueError, match=r"another model .width differ"):
        train(tiny("width=32"), store, tmp_path / "run", resume=True, quiet=True)
    other = tiny_store(tmp_path / "other", seed=1)
    with pytest.raises(ValueError, match=r"another corpus .mpr differ"):
        train(tiny(), other, tmp_path / "run", resume=True, quiet=True)


def test_schedule_warms_up_peaks_and_ends_low():
    training = tiny("steps=100", "warmup_steps=10", "learning_rate=1.0", "final_rate=0.1").training
    rates = [learning_rate(training, step) for step in range(101)]
    assert rates[:10] == pytest.approx([0.1 * n for n in range(1, 11)])
    assert max(rates) == rates[10] == 1.0
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[55] == pytest.approx(0.55)
    assert rates[100] == pytest.approx(0.1)
    paper = load_preset("paper").training
    assert {learning_rate(paper, step) for step in (0, 1000, 500_000)} == {1e-4}


def command(store, out, *options):
    changes = [part for change in TINY for part in ("--set", change)]
    return [
        *(sys.executable, "-m", "clock_attention.cli", "train", "--corpus", str(store.path), "--out", str(out)),
        *("--preset", "small-l1", "--accelerator", "cpu", "--threads", "1", *changes, *options),
    ]


def test_a_file_in_the_way_is_named(store, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file is a file, expected a folder"):
        train(tiny(), store, tmp_path / "file" / "run", quiet=True)


def test_a_full_disk_ends_in_one_sentence(store, tmp_path):
    resource = pytest.importorskip("resource", reason="limits the size of files, as a full disk does")
    small = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))  # noqa: E731
    # Otherwise the compiled kernels may be the first files that are too large.
    subprocess.run(command(store, tmp_path / "first", "--max-steps", "1"), check=True, capture_output=True)
    full = subprocess.run(command(store, tmp_path / "full"), capture_output=True, text=True, preexec_fn=small)
    assert full.returncode == 1
    assert re.fullmatch(r"error: .*the checkpoint cannot be written .*is the disk full.*", full.stderr.strip())
    assert not list((tmp_path / "full" / "checkpoints").iterdir())


@pytest.mark.slow
def test_a_run_killed_again_and_again_is_bitwise_the_run_that_was_left_alone(store, tmp_path):
    frequent = ("--set", "checkpoint_minutes=1e-9", "--set", "steps=120")
    subprocess.run(command(store, tmp_path / "straight", *frequent), check=True, capture_output=True)
    chance = random.Random(0)
    out, kills = tmp_path / "killed", 0
    while True:
        process = subprocess.Popen(command(store, out, "--resume", *frequent), stdout=subprocess.PIPE)
        goal = chance.randrange(5, 40) + newest(out)
        while process.poll() is None and newest(out) < goal:
            time.sleep(0.01)
        if process.poll() is not None:
            assert process.returncode == 0
            break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
    assert kills >= 3
    require_same_run(tmp_path / "straight", out)


def newest(run):
    found = checkpoint.checkpoints(run / "checkpoints")
    return int(checkpoint.NAME.fullmatch(found[-1].name)[1]) if found else 0


@pytest.mark.slow
@pytest.mark.parametrize("changes", [[], ["decoding=autoregressive", "positions=rotary"]], ids=["parallel", "steps"])
def test_two_processes_give_the_losses_of_one(changes, store, tmp_path):
    # Dropout masks belong to a process, so equality is a question for models without.
    options = [o for c in ["dropout=0.0", "prenet_dropout=0.0", "log_every=1", *changes] for o in ("--set", c)]
    subprocess.run(command(store, tmp_path / "one", *options), check=True, capture_output=True)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    two = [*torchrun, *command(store, tmp_path / "two", "--devices", "2", *options)[1:]]
    done = subprocess.run(two, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    logs = []
    for name in ("one", "two"):
        with open(tmp_path / name / "log.csv") as file:
            logs.append([[float(row[key]) for key in ("train_l1", "length_loss")] for row in csv.DictReader(file)])
    assert len(logs[0]) == 24
    np.testing.assert_allclose(logs[0], logs[1], rtol=2e-3)
    np.testing.assert_allclose(logs[0][:4], logs[1][:4], rtol=1e-5)
