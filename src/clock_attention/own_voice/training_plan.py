"""Plan for training a user's own voice: steps and threads, chosen once so that a repeated run gives the same voice."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from clock_attention.files import temporary_folder
from clock_attention.own_voice.fine_tuning import fine_tuning_config, steps_within, worthwhile_steps
from clock_attention.own_voice.order import Order
from clock_attention.own_voice.stages import StageResult
from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.training.config import RunConfig
from clock_attention.speech.training.loop import train
from clock_attention.speech.training.progress import read_log
from clock_attention.speech.training.transfer import Start

TIMED_STEPS = 4


def planned(order: Order, start: Start, store: FeatureStore) -> StageResult:
    """Plan the training of a user's own voice: threads, and steps that fit into the minutes."""
    frames = sum(row.frames for row in store.utterances if row.durations is not None)
    worthwhile = worthwhile_steps(frames / store.mel_config.frames_per_second / 60)
    if order.steps is not None:
        count = order.threads or order.workers
        return {"steps": order.steps, "worthwhile": worthwhile, "seconds_per_step": None, "threads": count}
    # On a busy machine, two threads wait for each other and are slower than one.
    choice = [order.threads] if order.threads else sorted({1, order.workers})
    seconds = {count: seconds_per_step(count, order, start, store) for count in choice}
    best = min(choice, key=seconds.__getitem__)
    steps = steps_within(order.minutes, seconds[best], worthwhile)
    return {"steps": steps, "worthwhile": worthwhile, "seconds_per_step": seconds[best], "threads": best}


def warnings_about_time(order: Order, plan: StageResult) -> list[str]:
    """Warnings about a training plan: more minutes would make a better voice."""
    if order.steps is not None or plan["steps"] >= plan["worthwhile"]:
        return []
    needed, enough = (plan[steps] * plan["seconds_per_step"] / 60 for steps in ("steps", "worthwhile"))
    if needed > order.minutes:
        time = f", the least for a voice, take {needed:.1f} minutes instead of {order.minutes:g}"
    else:
        time = f" fit into {order.minutes:g} minutes"
    return [
        f"{plan['steps']} steps of training{time} at the speed this machine has now; {plan['worthwhile']} sound "
        f"better, and would take {enough:.0f} minutes"
    ]


def seconds_per_step(count: int, order: Order, start: Start, store: FeatureStore) -> float:
    """Seconds per training step with the discriminator and this number of threads, measured for the plan."""
    config = fine_tuning_config(start, TIMED_STEPS + 1, order.seed)
    config = config.changed(["adversarial_from=0", "pictures=0", "validate_every=1000", "log_every=1"])
    folder = temporary_folder("timing")  # which also removes those of killed processes: they hold checkpoints
    try:
        with threads(count):
            train_to(TIMED_STEPS + 1, config, store, folder / "run", start=start, quiet=True)
        first, *_, last = read_log(folder / "run" / "log.csv")  # the first step includes compilation
        return (float(last["seconds"]) - float(first["seconds"])) / TIMED_STEPS
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def train_to(step: int, config: RunConfig, store: FeatureStore, run: Path, **options: Any) -> Path:
    """Train up to this step while creating a voice. A signal ends training early, and with it the creation."""
    path = train(config, store, run, **options)
    if path.stem != f"step-{step:08d}":
        raise KeyboardInterrupt
    return path


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Set the number of threads while creating a voice: it affects rounding, and so the voice."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
