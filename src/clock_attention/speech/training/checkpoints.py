"""Checkpoints that cannot be half-written, and that are data only: nothing in them is ever executed."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

FORMAT = 1
KEEP = 2
NAME = re.compile(r"step-(\d+)\.pt")


def checkpoints(folder: Path) -> list[Path]:
    """Numbered checkpoints, oldest first."""
    found = [(int(match[1]), path) for path in folder.glob("step-*.pt") if (match := NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def save(fabric: Fabric, folder: Path, state: dict[str, Any], *, best: bool = False) -> Path:
    """Write `step-N.pt` under a temporary name, rename it, and forget all but the last two. All processes call it."""
    path = folder / f"step-{state['step']:08d}.pt"
    temporary = folder / f".{path.name}.unfinished"
    if fabric.is_global_zero:
        folder.mkdir(parents=True, exist_ok=True)
    fabric.save(temporary, {"format": FORMAT, **state})
    if fabric.is_global_zero:
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
        if best:
            link_atomically(path, folder / "best.pt")
        for old in checkpoints(folder)[:-KEEP]:
            old.unlink()
    fabric.barrier()
    return path


def link_atomically(source: Path, target: Path) -> None:
    """Another name for the same file, which outlives the first; a copy where the file system has no hard links."""
    temporary = target.with_name(f".{target.name}.unfinished")
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except OSError:
        temporary.write_bytes(source.read_bytes())
    os.replace(temporary, target)


def read(path: Path) -> dict[str, Any]:
    """The contents of a checkpoint, as plain tensors and numbers on the CPU."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"{path}: not a checkpoint of this program, or damaged ({type(error).__name__})") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        found = state.get("format") if isinstance(state, dict) else None
        raise ValueError(f"{path}: checkpoint format {found}, this version reads {FORMAT}")
    return state


def latest(run: Path) -> Path:
    """The newest complete checkpoint of a run."""
    found = checkpoints(run / "checkpoints")
    if not found:
        raise FileNotFoundError(
            f"{run}: no checkpoint in {run / 'checkpoints'}; start a run with `clock-attention train`"
        )
    return found[-1]


def remove_unfinished(folder: Path) -> None:
    """What a killed process left behind."""
    for path in folder.glob(".*.unfinished"):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
