"""Training progress: a live bar on a terminal, a plain line every 30 seconds elsewhere; CSV and TensorBoard."""

from __future__ import annotations

import csv
import io
import os
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from clock_attention.files import write_atomically

PLAIN_SECONDS = 30.0


class RunLog:
    """Training log: `log.csv` and TensorBoard events; on resume, rows after the resumed step are dropped."""

    def __init__(self, run: Path, step: int, losses: Sequence[str], measures: Sequence[str]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.path = run / "log.csv"
        self.columns = log_columns(losses, measures)
        kept = [row for row in read_log(self.path) if int(row["step"]) <= step] if step else []
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(kept)
        write_atomically(self.path, text.getvalue())
        self.board = SummaryWriter(str(run / "tensorboard"), purge_step=step + 1)

    def write(self, row: dict[str, float]) -> None:
        with open(self.path, "a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.columns, restval="").writerow({key: short(value) for key, value in row.items()})
            file.flush()
            os.fsync(file.fileno())
        for key, value in row.items():
            if key not in ("step", "seconds", "cpu_seconds"):
                self.board.add_scalar(key, value, int(row["step"]), walltime=None)

    def close(self) -> None:
        self.board.close()


def log_columns(losses: Sequence[str], measures: Sequence[str]) -> tuple[str, ...]:
    """Columns of the training log `log.csv`: step and time, losses, speed, and validation measures."""
    when = ("step", "epoch", "seconds", "cpu_seconds", "learning_rate")
    return (*when, *losses, "gradient_norm", "utterances_per_second", *measures)


def short(value: float) -> str:
    """Format a number for the training log."""
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def read_log(path: Path) -> list[dict[str, str]]:
    """Rows of a run's log, without the incomplete last line that a killed process may leave."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if (row["step"] or "").isdigit() and None not in row.values()]


class Reporter:
    """Training progress on the terminal: utterances per second and time left."""

    def __init__(self, step: int, steps: int, quiet: bool = False) -> None:
        self.console = Console(emoji=False)
        self.quiet = quiet
        self.steps = steps
        self.live = self.console.is_terminal and not quiet
        self.started, self.first_step, self.utterances = time.monotonic(), step, 0
        self.last_line = self.started
        if self.live:
            self.progress = Progress(
                TextColumn("[bold]step"),
                MofNCompleteColumn(),
                BarColumn(),
                TextColumn("L1 {task.fields[l1]:.4f}  {task.fields[speed]:.1f} utterances/s"),
                TimeRemainingColumn(elapsed_when_finished=True),
                console=self.console,
            )
            self.task = self.progress.add_task("train", total=steps, completed=step, l1=float("nan"), speed=0.0)
            self.progress.start()

    def advance(self, step: int, l1: float, utterances: int) -> None:
        self.utterances += utterances
        if self.live:
            self.progress.update(self.task, completed=step, l1=l1, speed=self.speed)
        elif not self.quiet and time.monotonic() - self.last_line > PLAIN_SECONDS:
            self.last_line = time.monotonic()
            left = (self.steps - step) * (self.last_line - self.started) / max(1, step - self.first_step)
            self.say(
                f"step {step}/{self.steps}  L1 {l1:.4f}  {self.speed:.1f} utterances/s  {readable_duration(left)} left"
            )

    @property
    def speed(self) -> float:
        """Utterances per second of this session, validation and checkpoints included."""
        return self.utterances / max(1e-9, time.monotonic() - self.started)

    def say(self, line: str) -> None:
        if not self.quiet:
            print_plain(self.console, line)

    def close(self) -> None:
        if self.live:
            self.progress.stop()


def readable_duration(seconds: float) -> str:
    """Format a duration in seconds, minutes or hours, as in progress lines."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def print_plain(console: Console, line: str) -> None:
    """Print a plain line of training progress, for output that is not a terminal."""
    console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.file.flush()
