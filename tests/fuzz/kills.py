"""Trainings killed at random moments, a fifth of them while they write a checkpoint: what comes out is bit for bit
what comes out of a training that was left alone."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from clock_attention.speech.training import checkpoints as checkpoint
from clock_attention.speech.training.config import load_preset
from clock_attention.speech.training.loop import train
from clock_attention.speech.training.progress import read_log
from tests.fuzz.runner import DifferenceError, Fuzzer
from tests.speech.corpora import tiny_store

TINY = [
    *(
        "cross_attention=dot",
        "width=8",
        "heads=2",
        "encoder_layers=1",
        "decoder_layers=1",
        "feed_forward=16",
        "steps=24",
        "batch_size=8",
    ),
    *("warmup_steps=4", "ema=0.9", "validate_every=8", "log_every=4", "pictures=0", "validation_utterances=4"),
    *("short_share=1.0", "checkpoint_minutes=1e-9"),
]
WITHIN_WRITING = 0.2  # share of the kills


class Kills(Fuzzer):
    """A case is one kill; the run that it hits goes on in the next case, and when it ends it is compared."""

    name = "kills"
    chunk = 10**9  # the runs go on from case to case

    def start(self, folder: Path) -> None:
        torch.set_num_threads(1)
        self.folder, self.run, self.number = folder, folder / "killed", 0
        self.store = tiny_store(folder / "store")
        self.config = load_preset("small-l1").changed(TINY)
        # In this process: what it has imported and compiled, its children need not.
        train(self.config, self.store, folder / "straight", quiet=True)
        started = time.monotonic()
        self.child(folder / "timed", "")
        self.seconds = time.monotonic() - started
        self.expected = outcome(folder / "straight")

    def child(self, run: Path, death: str, after: float | None = None, at: int = 0) -> bool:
        """Train in a process of its own; True if it came to its end."""
        process = os.fork()
        if process == 0:
            try:
                if death:
                    die_while_writing(death, at)
                train(
                    self.config, self.store, run, fabric=Fabric(accelerator="cpu", devices=1), resume=True, quiet=True
                )
                os._exit(0)
            except BaseException:
                import traceback

                traceback.print_exc()
                os._exit(1)
        if after is not None:
            end = time.monotonic() + after
            while time.monotonic() < end:
                if os.waitpid(process, os.WNOHANG)[0]:
                    return True
                time.sleep(0.01)
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            raise DifferenceError(f"the training ended with status {os.WEXITSTATUS(status)}")
        return status == 0

    def case(self, chance: random.Random) -> str:
        if chance.random() < WITHIN_WRITING:
            # Far enough along that the files to be kept, linked and removed are all there, or at the very first.
            word = chance.choice(["torn", "unrenamed", "unlinked", "untidied"])
            ended = self.child(self.run, word, at=chance.choice([0, 1, 2, 5]))
        else:
            word = "anywhere"
            ended = self.child(self.run, "", after=chance.random() * self.seconds)
        if ended:  # before the kill
            self.compare()
            return self.case(chance)
        return "killed while writing" if word != "anywhere" else "killed anywhere"

    def compare(self) -> None:
        found = outcome(self.run)
        for key in self.expected:
            if not same(found[key], self.expected[key]):
                raise DifferenceError(f"run {self.number}: {key} differs from the run that was left alone")
        shutil.rmtree(self.run)
        self.number += 1


def die_while_writing(where: str, at: int) -> None:
    """Make this process kill itself in the given checkpoint that it writes, counted from 0."""
    saved = 0
    real_save, real_replace, real_link = Fabric.save, os.replace, checkpoint.link_atomically

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def save(self: Fabric, path: Any, state: Any, filter: Any = None) -> None:
        nonlocal saved
        saved += 1
        real_save(self, path, state, filter)
        if saved == at + 1 and where == "torn":
            os.truncate(path, os.path.getsize(path) // 3)
            die()

    def replace(source: Any, target: Any) -> None:
        checkpointed = str(target).endswith(".pt") and "step-" in str(target)
        if checkpointed and saved == at + 1 and where == "unrenamed":
            die()
        real_replace(source, target)
        if checkpointed and saved == at + 1 and where == "untidied":
            die()

    def link(source: Path, target: Path) -> None:
        if where == "unlinked" and saved > at:
            die()
        real_link(source, target)

    Fabric.save, os.replace, checkpoint.link_atomically = save, replace, link  # type: ignore[method-assign, assignment]


def outcome(run: Path) -> dict[str, Any]:
    state = checkpoint.read(checkpoint.latest(run))
    del state["seconds"]
    rows = [(row["step"], row["train_l1"], row["valid_l1"]) for row in read_log(run / "log.csv")]
    best = checkpoint.read(run / "checkpoints" / "best.pt")
    left = [path.name for path in run.rglob(".*") if path.name != ".lock"]
    return {**state, "rows": rows, "best weights": best["model"], "left behind": left}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)
