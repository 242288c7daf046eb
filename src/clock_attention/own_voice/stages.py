"""Stages of creating a voice, each run only once: a file per stage records its inputs and its results.

A stage is repeated when anything that it depends on has changed; every later stage that depends on it is then
repeated, too.
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
    """The files of all stages of creating a voice in one folder, and the chain of their dependencies."""

    def __init__(self, folder: Path, begin: Callable[[str], None] = lambda stage: None) -> None:
        """`begin` is called with the name of each stage that has work to do."""
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
        """Result of a stage, from its file if the stage has already run with these inputs.

        Args:
            outputs: files that the stage writes; if one is missing, the stage is repeated.
            own: folder that only this stage writes to. Emptied before the work, unless the same work was interrupted.
            chained: whether later stages depend on this one beyond the inputs that they list.
        """
        key = digest([self.before, name, inputs])
        path = self.folder / f"{name}.json"
        done = self.read(path)
        same = done.get("key") == key
        if not (same and "result" in done and all(output.exists() for output in outputs)):
            interrupted = same and "result" not in done
            if own is not None and not interrupted:
                path.unlink(missing_ok=True)  # first: it must not describe a partly deleted folder
                shutil.rmtree(own, ignore_errors=True)
            # Later stages depend on this particular run: some of them change its output.
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
        """Read the file of a stage: key, run, and the result unless it was interrupted. Empty if missing or damaged."""
        try:
            found = json.loads(path.read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) and {"key", "run"} <= found.keys() else {}


def digest(value: Any) -> str:
    """Hash of any JSON-serializable value, used as a stage key."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def digest_of(*paths: Path) -> str:
    """Hash of the names and contents of files, used as a stage input; for a folder, of all files in it, recursively."""
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
