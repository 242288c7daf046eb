"""Training checkpoints, written atomically and containing only data (`weights_only=True`)."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric

from clock_attention.speech.model.weight_files import load_torch

logger = logging.getLogger(__name__)

FORMAT = 1
KEEP = 2
NAME = re.compile(r"step-(\d+)\.pt")
PARTS = {"model": dict, "optimizer": dict, "average": dict, "step": int, "seconds": list, "best": float, "window": list}


class DamagedCheckpointError(ValueError):
    """A checkpoint file that is truncated or corrupted, or never was a checkpoint."""


def checkpoints(folder: Path) -> list[Path]:
    """Numbered checkpoints of a run, oldest first."""
    found = [(int(match[1]), path) for path in folder.glob("step-*.pt") if (match := NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def save(fabric: Fabric, folder: Path, state: dict[str, Any], *, best: bool = False) -> Path:
    """Write the checkpoint `step-N.pt` atomically and keep the last two; must be called by all processes."""
    path = folder / f"step-{state['step']:08d}.pt"
    temporary = folder / f".{path.name}.unfinished"
    if fabric.is_global_zero:
        folder.mkdir(parents=True, exist_ok=True)
    try:
        fabric.save(temporary, {"format": FORMAT, **state})
        if fabric.is_global_zero:
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            if best:
                # Before the step's own file: a run killed in between repeats this step and finds it best again.
                link_atomically(temporary, folder / "best.pt")
            os.replace(temporary, path)
            for old in checkpoints(folder)[:-KEEP]:
                old.unlink()
    except (OSError, RuntimeError) as error:  # torch's writer reports a full disk as a RuntimeError
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
        raise OSError(
            f"{path}: the checkpoint cannot be written ({reason}); is the disk full? Earlier ones are untouched. "
            "Make room and resume"
        ) from error
    fabric.barrier()
    return path


def link_atomically(source: Path, target: Path) -> None:
    """Give a checkpoint a second name: a hard link, or a copy if the file system has no hard links."""
    temporary = target.with_name(f".{target.name}.unfinished")
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except OSError:
        temporary.write_bytes(source.read_bytes())
    os.replace(temporary, target)


def read(path: Path) -> dict[str, Any]:
    """Read a checkpoint, as plain tensors and numbers on the CPU."""
    try:
        state = load_torch(path)
    except FileNotFoundError:
        raise
    except Exception as error:
        reason = error if type(error) is ValueError else type(error).__name__  # torch's own messages are pages long
        raise DamagedCheckpointError(f"{path}: not a checkpoint of this program, or damaged ({reason})") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        found = state.get("format") if isinstance(state, dict) else None
        raise ValueError(f"{path}: checkpoint format {found}, this version reads {FORMAT}")
    for part, kind in PARTS.items():
        if not isinstance(state.get(part), kind):
            found = type(state[part]).__name__ if part in state else "nothing"
            raise DamagedCheckpointError(f"{path}: the part {part!r} should be a {kind.__name__}, found {found}")
    return state


def read_newest(run: Path) -> tuple[Path, dict[str, Any]]:
    """The newest readable checkpoint and its contents; warns if a newer one is damaged."""
    newest_first = [latest(run), *checkpoints(run / "checkpoints")[-2::-1]]
    faults = []
    for path in newest_first:
        try:
            state = read(path)
        except DamagedCheckpointError as error:
            faults.append(str(error))
            continue
        for fault in faults:
            logger.warning("%s; using %s instead", fault, path.name)
        return path, state
    raise DamagedCheckpointError("; ".join(faults) + ": no intact checkpoint is left; start the run again")


def latest(run: Path) -> Path:
    """The newest complete checkpoint of a run."""
    found = checkpoints(run / "checkpoints")
    if not found:
        raise FileNotFoundError(
            f"{run}: no checkpoint in {run / 'checkpoints'}; start a run with `clock-attention train`"
        )
    return found[-1]


def set_aside(folder: Path, newest: Path) -> None:
    """Rename damaged checkpoints newer than the newest intact one; the run will write these steps again."""
    found = checkpoints(folder)
    for path in found[found.index(newest) + 1 :]:
        os.replace(path, path.with_name(f"{path.name}.damaged"))


def remove_unfinished(folder: Path) -> None:
    """Remove temporary checkpoint files that killed processes left behind."""
    for path in folder.glob(".*.unfinished"):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
