"""Progress of long evaluations: a bar on a terminal, otherwise a plain line every half minute."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from clock_attention.speech.training.progress import readable_duration

PLAIN_SECONDS = 30


class Watch:
    """Progress of a long evaluation; utterances from the cache do not count in the estimate of the time left."""

    def __init__(self, console: Console, total: int, title: str, quiet: bool = False) -> None:
        self.console, self.total, self.title, self.quiet = console, total, title, quiet
        self.done = self.cached = 0
        self.started = self.spoke = time.monotonic()
        self.bar: Progress | None = None

    def __enter__(self) -> Watch:
        if self.console.is_terminal and not self.quiet:
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(elapsed_when_finished=True),
                console=self.console,
            )
            self.task = self.bar.add_task(self.title, total=self.total)
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def advance(self, count: int) -> None:
        if not self.done:
            self.cached = count if count != 1 else 0
            self.started = time.monotonic()
        self.done += count
        if self.bar is not None:
            self.bar.update(self.task, completed=self.done)
        elif not self.quiet and time.monotonic() - self.spoke > PLAIN_SECONDS:
            self.spoke = time.monotonic()
            line = f"{self.title}: {self.done}/{self.total}, {readable_duration(self.left())} left"
            self.console.print(line, markup=False, highlight=False, soft_wrap=True)
            self.console.file.flush()

    def left(self) -> float:
        """Estimated seconds left."""
        fresh = self.done - self.cached
        return (self.total - self.done) * (time.monotonic() - self.started) / max(1, fresh)
