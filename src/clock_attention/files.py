"""Files that are complete or absent: written under a temporary name in the same folder, then renamed."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def check_writable(path: str | Path) -> Path:
    """Refuse early: nobody wants to hear after an hour that the folder does not exist."""
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path}: is a folder, expected the name of a file to write")
    if path.parent.exists() and not path.parent.is_dir():
        raise ValueError(f"{path}: {path.parent} is a file, expected a folder")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: the folder {path.parent} does not exist; create it first")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{path}: the folder {path.parent} is not writable")
    return path


def temporary_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")
