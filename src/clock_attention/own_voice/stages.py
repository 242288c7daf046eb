"""Stages of creating a voice that are done once: each leaves a file that says what it was done with and found.

A stage is repeated when anything that it depends on has changed, and with it every stage after it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from clock_attention.files import make_folder, write_atomically

StageResult = dict[str, Any]


class Stages:
    """The files of all stages of creating a voice in one folder, and the chain of what each depends on."""

    def __init__(self, folder: Path) -> None:
        self.folder = make_folder(folder)
        self.before = ""

    def run(self, name: str, inputs: Any, work: Callable[[], StageResult], outputs: Iterable[Path] = ()) -> StageResult:
        """What the stage found, now or earlier. `outputs` are what it writes; without them it is done again."""
        key = hashlib.sha256(json.dumps([self.before, name, inputs], sort_keys=True, default=str).encode()).hexdigest()
        path = self.folder / f"{name}.json"
        done = self.read(path)
        if done.get("key") == key and all(output.exists() for output in outputs):
            result: StageResult = done["result"]
        else:
            path.unlink(missing_ok=True)
            result = work()
            write_atomically(path, json.dumps({"key": key, "result": result}, indent=1, ensure_ascii=False))
        self.before = key
        return result

    def is_done(self, name: str) -> bool:
        return (self.folder / f"{name}.json").is_file()

    @staticmethod
    def read(path: Path) -> dict[str, Any]:
        try:
            found = json.loads(path.read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) and "result" in found else {}


def digest_of(*paths: Path) -> str:
    """For stages: hash of the names and contents of files; of a folder, of all files in it and below."""
    found = hashlib.sha256()
    for path in paths:
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        for file in files:
            name = file.relative_to(path).as_posix() if path.is_dir() else file.name
            found.update(f"{name}\0{file.stat().st_size}\0".encode())
            with open(file, "rb") as content:
                while block := content.read(1 << 20):
                    found.update(block)
    return found.hexdigest()[:16]
