"""The training loop, on Lightning Fabric: the same for CPU, GPU and several machines.

Everything random (order, time-stretch, dropout) is drawn from the seed and the step, so a checkpoint holds no
generator state, and a resumed run matches an uninterrupted one bit for bit.
"""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from clock_attention.files import locked
from clock_attention.speech.corpus.language import Language
from clock_attention.speech.corpus.protocols import Corpus
from clock_attention.speech.training import checkpoints as checkpoint
from clock_attention.speech.training.averaging import average_of, load_average, moving_average
from clock_attention.speech.training.batching import Batches, Plan
from clock_attention.speech.training.config import RunConfig, TrainingConfig
from clock_attention.speech.training.prefetch import Prefetch
from clock_attention.speech.training.progress import Reporter, RunLog
from clock_attention.speech.training.recipes import recipe_for
from clock_attention.speech.training.run import RunDescription
from clock_attention.speech.training.transfer import Start, freeze
from clock_attention.speech.training.usage import Usage

logger = logging.getLogger(__name__)


class NonFiniteLossError(RuntimeError):
    """The training loss or its gradient is not finite: training stops before the weights are updated."""


class Trainer:
    """State of the training loop; `train` creates it."""

    def __init__(self, config: RunConfig, store: Corpus, run: Path, fabric: Fabric, start: Start | None = None) -> None:
        self.config, self.store, self.run, self.fabric = config, store, run, fabric
        training = config.training
        items = {name: within(store, store.split(name), training.longest_tokens) for name in ("train", "valid")}
        self.usage = Usage.of(store, items)
        self.recipe = recipe_for(config, store)
        self.batches = Batches(store, items["train"], training, fabric.world_size, self.recipe.collate)
        self.prefetch = Prefetch(self.batches, fabric.global_rank, fabric.world_size, fabric.device)
        valid = items["valid"] or items["train"]
        chosen = np.random.default_rng(training.seed).permutation(len(valid))[: training.validation_utterances]
        self.valid_items = [valid[place] for place in chosen]

        torch.manual_seed(training.seed)  # the same initial weights on every process
        self.module = self.recipe.build()
        self.new_symbols = start.initialise(self.module, Language.of(store)) if start else []
        freeze(self.module, training.freeze)
        clipped = [child for name, child in self.module.named_children() if name not in self.recipe.unclipped]
        self.clipped = nn.ModuleList(clipped)
        optimizer = torch.optim.AdamW(
            parameter_groups(self.module, training),
            lr=training.learning_rate,
            betas=training.betas,
            weight_decay=training.weight_decay,
            fused=fabric.device.type in ("cpu", "cuda"),
        )
        self.model, self.optimizer = fabric.setup(self.module, optimizer)
        self.recipe.setup(fabric)
        self.average = moving_average(self.module, training.ema) if training.ema else None
        self.step = 0  # completed steps
        self.seconds = [0.0, 0.0]  # training time so far, over all sessions: wall time and CPU time
        self.best = math.inf
        self.window = self.empty_window()

    def empty_window(self) -> list[float]:
        """Zeroed sums of steps, losses and gradient norm since the last row of the log."""
        return [0.0] * (len(self.recipe.columns) + 2)

    def save(self, *, best: bool = False) -> None:
        state = {
            "model": self.model,
            "optimizer": self.optimizer,
            "average": average_of(self.average) if self.average else {},
            "step": self.step,
            "seconds": self.seconds,
            "best": self.best,
            "window": self.window,
            **self.recipe.state(),
        }
        checkpoint.save(self.fabric, self.run / "checkpoints", state, best=best)

    def resume(self) -> Path:
        """Continue from the newest intact checkpoint; returns its path."""
        path, state = checkpoint.read_newest(self.run)
        try:
            self.module.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            if self.average:
                load_average(self.average, state["average"], state["step"])
            self.recipe.load_state(state)
        except (RuntimeError, KeyError, TypeError, AttributeError) as error:
            reason = str(error).splitlines()[-1].strip()
            raise ValueError(f"{path}: does not belong to the model in run.json ({reason})") from None
        self.step, self.seconds = state["step"], state["seconds"]
        self.best, self.window = state["best"], state["window"]
        return path

    def train_step(self) -> tuple[float, int]:
        """Do one training step; returns the batch's L1 and its number of utterances."""
        training = self.config.training
        plan, batch = self.prefetch.take(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = group["rate"] * learning_rate(training, self.step)
        torch.manual_seed(step_seed(training.seed, self.step, self.fabric.global_rank))
        # Fabric's DDP averages gradients over processes, but these losses are shares of a sum.
        loss, values = self.recipe.losses(self.model, batch, plan, self.step)
        loss = loss * self.fabric.world_size
        whole = self.summed(values.detach())
        self.require_finite(float(whole.sum()), "loss", plan)
        self.optimizer.zero_grad()
        self.fabric.backward(loss)
        norm = self.fabric.clip_gradients(
            self.clipped, self.optimizer, max_norm=training.clip or math.inf, error_if_nonfinite=False
        )
        assert norm is not None
        if not self.scaled_gradients:
            self.require_finite(float(norm), "gradient", plan)
        self.optimizer.step()
        self.step += 1
        if self.average:
            self.average.update_parameters(self.module)
        now = [1.0, *whole.tolist(), float(norm)]
        self.window = [a + b for a, b in zip(self.window, now, strict=True)]
        return float(whole[0]), len(plan.items)

    def summed(self, values: Tensor) -> Tensor:
        return (
            values if self.fabric.world_size == 1 else torch.as_tensor(self.fabric.all_reduce(values, reduce_op="sum"))
        )

    @property
    def scaled_gradients(self) -> bool:
        """Whether fp16 loss scaling is on: it overflows now and then by design, and the scaler skips such steps."""
        return getattr(self.fabric._precision, "scaler", None) is not None

    def require_finite(self, value: float, what: str, plan: Plan) -> None:
        if math.isfinite(value):
            return
        ids = ", ".join(self.store.utterances[item].id for item in plan.items)
        raise NonFiniteLossError(
            f"step {self.step + 1}: the {what} is {value}. Weights and checkpoints are untouched. The batch: {ids}. "
            "Look at these recordings (`clock-attention corpus stats`), lower learning_rate, or set clip=1."
        )

    def log_row(self) -> dict[str, float]:
        count, *sums = self.window
        self.window = self.empty_window()
        names = (*self.recipe.columns, "gradient_norm")
        return {
            "step": self.step,
            "epoch": self.batches.epoch_of(self.step - 1),
            "seconds": self.seconds[0],
            "cpu_seconds": self.seconds[1],
            "learning_rate": learning_rate(self.config.training, self.step - 1),
            **{name: value / max(1.0, count) for name, value in zip(names, sums, strict=True)},
        }

    def validated(self) -> tuple[dict[str, float], bool]:
        """Validation measures of the (averaged) weights, and whether they are the best so far."""
        model = self.average.module if self.average else self.module
        found = self.recipe.validate(self.fabric, model, self.valid_items)
        if self.fabric.is_global_zero and self.config.training.pictures:
            items = self.valid_items[: self.config.training.pictures]
            self.recipe.draw(model, items, self.run / "pictures", self.step, self.fabric.device)
        loss = self.recipe.objective(found, self.step)
        best = loss < self.best
        self.best = min(self.best, loss)
        return found, best


def train(
    config: RunConfig,
    store: Corpus,
    run: Path,
    *,
    start: Start | None = None,
    fabric: Fabric | None = None,
    resume: bool = False,
    max_steps: int | None = None,
    max_minutes: float | None = None,
    quiet: bool = False,
) -> Path:
    """Train until the schedule ends or a limit is reached; returns the last checkpoint.

    Args:
        config: preset with the user's changes; `symbols` and `mels` are taken from the corpus.
        store: a feature store, or any object with its interface.
        run: the folder to write to.
        start: a voice whose weights a new run starts from.
        fabric: a launched Fabric; None trains in this process on the CPU.
        resume: continue from the newest checkpoint in `run`, if there is one.
        max_steps, max_minutes: limits of this session; they do not shorten the schedule.
    """
    fabric = fabric or Fabric(accelerator="cpu", devices=1)
    recipe_for(config, store)  # raises for a corpus that does not suit the model, before anything is written
    with one_training(run, fabric):
        trainer = started(config, store, run, fabric, resume, quiet, start)
        last = trainer.config.training.steps
        if max_steps is not None:
            last = min(last, trainer.step + max_steps)
        loop(trainer, last, math.inf if max_minutes is None else 60 * max_minutes, quiet)
        return checkpoint.latest(run)


@contextmanager
def one_training(run: Path, fabric: Fabric) -> Iterator[None]:
    """Lock the training run's folder: the first process takes the lock; all processes fail if it cannot."""
    with ExitStack() as stack:
        fault: OSError | None = None
        if fabric.is_global_zero:
            try:
                stack.enter_context(locked(run, "a training run"))
            except OSError as error:
                fault = error
        fault = fabric.broadcast(fault)
        if fault is not None:
            raise fault
        yield


def started(
    config: RunConfig,
    store: Corpus,
    run: Path,
    fabric: Fabric,
    resume: bool,
    quiet: bool,
    start: Start | None = None,
) -> Trainer:
    """Start a training run, or continue it from its newest intact checkpoint; `run.json` describes it."""
    description = RunDescription.of(config, store)
    folder = run / "checkpoints"
    existing = checkpoint.checkpoints(folder)
    if existing and not resume:
        raise FileExistsError(f"{run} holds a run at {existing[-1].stem}: resume it, or choose another folder")
    if start and not existing:
        start.require_compatible(description.config.model, description.language)
        description = description.model_copy(update={"start": start.name})
    trainer = Trainer(description.config, store, run, fabric, None if existing else start)
    if existing:
        before = RunDescription.read(run)
        description.require_continues(before)
        description = description.model_copy(update={"start": before.start})
        newest = trainer.resume()
    fabric.barrier()
    if fabric.is_global_zero:
        folder.mkdir(parents=True, exist_ok=True)
        checkpoint.remove_unfinished(folder)
        if existing:
            checkpoint.set_aside(folder, newest)
        description.model_copy(update={"usage": trainer.usage}).write(run)
        trainer.usage.report(description.config.training.longest_tokens, quiet)
        if trainer.new_symbols:
            logger.warning(
                "symbols that the starting voice did not have begin untrained: %s", " ".join(trainer.new_symbols)
            )
    return trainer


def loop(trainer: Trainer, last: int, seconds: float, quiet: bool) -> None:
    """The training loop: steps, logging, validation, checkpoints until step `last`, the time limit or a signal."""
    training, fabric = trainer.config.training, trainer.fabric
    leader = fabric.is_global_zero
    log = RunLog(trainer.run, trainer.step, trainer.recipe.columns, trainer.recipe.measures) if leader else None
    reporter = Reporter(trainer.step, training.steps, quiet or not leader)
    stopwatch = Stopwatch(trainer.seconds)
    began = saved_at = time.monotonic()
    saved = trainer.step
    with PoliteStop() as stop:
        try:
            while trainer.step < last:
                with stopwatch:
                    l1, count = trainer.train_step()
                now = time.monotonic()
                reporter.advance(trainer.step, l1, count)
                row: dict[str, float] = {}
                best = False
                if trainer.step % training.validate_every == 0 or trainer.step == training.steps:
                    measures, best = trainer.validated()
                    row |= measures
                    reporter.say(f"step {trainer.step}: " + ", ".join(f"{k} {v:.4f}" for k, v in measures.items()))
                if row or trainer.step % training.log_every == 0:
                    row = trainer.log_row() | {"utterances_per_second": reporter.speed} | row
                    if log:
                        log.write(row)
                # One process decides by its own clock, and all others follow.
                due = now - saved_at > 60 * training.checkpoint_minutes
                wishes = fabric.broadcast([due, stop.asked or now - began > seconds])
                if best or wishes[0]:
                    trainer.save(best=best)
                    saved, saved_at = trainer.step, time.monotonic()
                if wishes[1]:
                    break
            if saved != trainer.step:
                trainer.save()
        finally:
            trainer.prefetch.close()
            reporter.close()
            if log:
                log.close()


def parameter_groups(model: nn.Module, training: TrainingConfig) -> list[dict[str, Any]]:
    """The optimizer's parameter groups: `logit_scale`, with its own learning rate and no decay, and the rest."""
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    scales = [parameter for name, parameter in named if name.endswith("logit_scale")]
    others = [parameter for name, parameter in named if not name.endswith("logit_scale")]
    groups: list[dict[str, Any]] = [{"params": others, "rate": 1.0}]
    if scales:
        groups.append({"params": scales, "rate": training.logit_scale_rate, "weight_decay": 0.0})
    return groups


def learning_rate(training: TrainingConfig, step: int) -> float:
    """The training loop's learning rate: linear warm-up, then constant or a cosine down to `final_rate` of it."""
    peak = training.learning_rate * min(1.0, (step + 1) / max(1, training.warmup_steps))
    if training.schedule == "constant" or step < training.warmup_steps:
        return peak
    share = min(1.0, (step - training.warmup_steps) / max(1, training.steps - training.warmup_steps))
    return peak * (training.final_rate + (1 - training.final_rate) * 0.5 * (1 + math.cos(math.pi * share)))


def step_seed(seed: int, step: int, rank: int) -> int:
    """The training loop's random seed for one step on one process."""
    return int(np.random.SeedSequence((seed, step, rank)).generate_state(1, np.uint64)[0] >> 1)


def within(store: Corpus, items: Sequence[int], longest: int) -> list[int]:
    """Select utterances of at most `longest` tokens for the training loop; 0 selects all."""
    return [item for item in items if not longest or len(store.utterances[item].tokens) <= longest]


class Stopwatch:
    """The training loop's stopwatch: adds up the wall time and CPU time of its blocks, without validation."""

    def __init__(self, totals: list[float]) -> None:
        self.totals = totals

    def __enter__(self) -> None:
        self.started = time.monotonic(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self.totals[0] += time.monotonic() - self.started[0]
        self.totals[1] += time.process_time() - self.started[1]


class PoliteStop:
    """Graceful stop: SIGTERM or the first Ctrl-C ends the training loop after the current step, with a checkpoint."""

    def __init__(self) -> None:
        self.asked = False
        self.previous: dict[int, Any] = {}

    def __enter__(self) -> PoliteStop:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self.previous[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)

    def _ask(self, number: int, _: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
