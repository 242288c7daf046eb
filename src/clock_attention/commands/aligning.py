"""What aligning one recording and aligning many have in common: adapting, progress, messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from clock_attention.commands.terminal import complaints, option

if TYPE_CHECKING:
    from clock_attention.speech.aligner import Aligner
    from clock_attention.speech.corpus.checks import Recording

SHOWN = 20  # failures and warnings; all failures are in the table
ADAPTED_TO = 3600.0  # seconds of speech that adapting learns from at most
LONGEST_ADAPTED = 60.0  # seconds of one recording among them


def check_not_an_input(path: Path) -> None:
    """A .lab may be a transcript: it is not to be overwritten with labels."""
    if path.suffix.lower() == ".lab" and path.exists():
        first = next((line for line in path.read_text("utf-8", errors="replace").splitlines() if line.strip()), "")
        if not first[:1].isdigit():
            raise ValueError(f"{path}: exists and is a transcript, not labels; write into another folder with -o")


def adapted(aligner: Aligner, recordings: Sequence[Recording]) -> Aligner:
    """Adapt to the recordings, or to an hour of them. Those that cannot be read are listed when they are aligned."""
    from clock_attention.speech.aligner.features import RATE
    from clock_attention.speech.audio.wave import audio_seconds

    chosen, total = [], 0.0
    for recording in recordings:
        try:
            if total < ADAPTED_TO and audio_seconds(recording.path) <= LONGEST_ADAPTED:
                chosen.append((aligner.wave(recording.path, None), recording.text))
                total += len(chosen[-1][0]) / RATE
        except ValueError:
            continue
    if not chosen:
        raise ValueError(f"--adapt: there is no recording of at most {LONGEST_ADAPTED:g} s to adapt to")

    def report(turn: int, count: int, score: float) -> None:
        say(f"adapting, pass {turn + 1}: {count} of {len(chosen)} recordings, mean score {score:.2f}")

    with option("--adapt"):
        return aligner.adapt(chosen, sample_rate=RATE, report=report)


@contextmanager
def bar(what: str, total: float) -> Iterator[Any]:
    """A progress bar on a terminal; call what it yields with how much is done."""
    columns = (TextColumn(what), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=complaints, transient=True, disable=not complaints.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


def say(line: str) -> None:
    complaints.print(line, highlight=False, soft_wrap=True)


def warn(line: str) -> None:
    complaints.print(f"warning: {line}", style="yellow", highlight=False, soft_wrap=True)
