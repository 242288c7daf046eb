"""Console output and error reporting of the commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

# ":x:" in a file name is not an emoji, and "[/b]" in an id is no markup.
console = Console(emoji=False, markup=False)
complaints = Console(stderr=True, emoji=False, markup=False)  # standard output is for results


def complain(error: Exception) -> None:
    complaints.print(f"error: {error}", style="bold red", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def clear_errors() -> Iterator[None]:
    """User errors and Ctrl-C end with one sentence instead of a traceback."""
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
    """An error about an argument as one about the option that gave it."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise ValueError(f"{name}: {error}") from error
