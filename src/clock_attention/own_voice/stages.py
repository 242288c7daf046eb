"""Stages of creating a voice that are done once: each leaves a file that says what it was done with and found.

A stage is repeated when anything that it depends on has changed, and whenever it is, every stage after it is that
depends on it.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from clock_attention.files import make_folder, write_atomically

StageResult = dict[str, Any]


class Stages:
    """The files of all stages of creating a voice in one folder, and the chain of what each depends on."""

    def __init__(self, folder: Path, begin: Callable[[str], None] = lambda stage: None) -> None:
        """`begin` is told which stage has something to do."""
        self.folder, self.begin = make_folder(folder), begin
        self.before = ""

    def run(
        self,
        name: str,
        inputs: Any,
        work: Callable[[], StageResult],
        outputs: Iterable[Path] = (),
        own: Path | None = None,
        chained: bool = True,
    ) -> StageResult:
        """What the stage found, now or earlier.

        Args:
            outputs: files that it writes; where one is missing, the stage is done again.
            own: the folder that it alone writes into. Emptied before the work, unless the same work was interrupted.
            chained: whether later stages depend on it, except by what they take from it as inputs.
        """
        key = digest([self.before, name, inputs])
        path = self.folder / f"{name}.json"
        done = self.read(path)
        same = done.get("key") == key
        if not (same and "result" in done and all(output.exists() for output in outputs)):
            interrupted = same and "result" not in done
            if own is not None and not interrupted:
                path.unlink(missing_ok=True)  # first, since half a folder is not what it says
                shutil.rmtree(own, ignore_errors=True)
            # Later stages depend on this very run of the work: some of them change what it leaves behind.
            done = {"key": key, "run": done["run"] if interrupted else secrets.token_hex(8)}
            write_atomically(path, json.dumps(done))
            self.begin(name)
            done["result"] = work()
            write_atomically(path, json.dumps(done, indent=1, ensure_ascii=False))
        if chained:
            self.before = digest([key, done["run"]])
        result: StageResult = done["result"]
        return result

    @staticmethod
    def read(path: Path) -> dict[str, Any]:
        """The file of a stage: key and run, and what it found unless it was interrupted. Empty where damaged."""
        try:
            found = json.loads(path.read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) and {"key", "run"} <= found.keys() else {}


def digest(value: Any) -> str:
    """For stages: hash of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


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
