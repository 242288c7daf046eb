"""The terminal: messages, warnings, errors and progress bars of all commands."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

# ":x:" in a file name is not an emoji, and "[/b]" in an id is not markup.
console = Console(emoji=False, markup=False)
complaints = Console(stderr=True, emoji=False, markup=False)  # standard output is for results


def complain(error: Exception) -> None:
    """Print an error on the terminal, in red."""
    complaints.print(f"error: {error}", style="bold red", markup=False, highlight=False, soft_wrap=True)


def say(line: str) -> None:
    """Print a line on the terminal's standard error; standard output is for results."""
    complaints.print(line, highlight=False, soft_wrap=True)


def warn(line: str) -> None:
    """Print a warning on the terminal, in yellow."""
    complaints.print(f"warning: {line}", style="yellow", highlight=False, soft_wrap=True)


def as_argument(path: object) -> str:
    """A path as an argument of a command that is printed: in quotes if it contains a space."""
    return f'"{path}"' if " " in str(path) else str(path)


@contextmanager
def clear_errors() -> Iterator[None]:
    """Make user errors and Ctrl-C end a command with one sentence on the terminal instead of a traceback."""
    try:
        yield
    except (ValueError, OSError, ImportError) as error:
        complain(error)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        complaints.print("interrupted; the same command continues where it stopped")
        raise typer.Exit(130) from None


@contextmanager
def option(name: str) -> Iterator[None]:
    """Report an error about an argument as one about the command-line option that set it."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise ValueError(f"{name}: {error}") from error


@contextmanager
def bar(what: str, total: float) -> Iterator[Any]:
    """A progress bar on the terminal; call what it yields with the amount done."""
    columns = (TextColumn(what), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=complaints, transient=True, disable=not complaints.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def one_line_errors(console: Console) -> Iterator[None]:
    """Make errors end a command with one sentence on the terminal, and print warnings as one line each."""

    def say(kind: str, message: object, style: str) -> None:
        line = " ".join(str(message).split())
        console.print(f"{kind}: {line}", style=style, highlight=False, markup=False, soft_wrap=True)

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            say("warning", record.getMessage(), "yellow")

    logger, handler = logging.getLogger("clock_attention"), Lines(logging.WARNING)
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: say("warning", message, "yellow")
            yield
    except BrokenPipeError:
        # The reader has closed the pipe; Python would report it again when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except (ValueError, OSError, ImportError, MemoryError) as error:
        say("error", error, "bold red")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        say("interrupted", "what was not complete has not been written", "bold red")
        raise typer.Exit(130) from None
    finally:
        logger.removeHandler(handler)
