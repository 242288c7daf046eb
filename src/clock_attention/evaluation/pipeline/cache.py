"""The cache of an evaluation: results of utterances in files, for resuming and for sharing between ranks.

FOLDER/results-RANK.jsonl    one line per result: its key and values

A key is a digest of everything that the result depends on, so a result is never returned for another model, vocoder,
recognizer or text. Each process appends whole lines to its own file and reads the files of all processes.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from clock_attention.evaluation.digest import digest
from clock_attention.evaluation.pipeline.chain import Chain
from clock_attention.evaluation.prompts import Prompt
from clock_attention.evaluation.systems.systems import System

CacheEntry = dict[str, Any]


@dataclass(frozen=True)
class CacheKeys:
    """Keys of the cache for the results of one utterance."""

    spoken: str
    transcripts: dict[str, str]  # by recognizer
    opinions: dict[str, str]  # by predictor

    @classmethod
    def of(cls, system: System, prompt: Prompt, chain: Chain) -> CacheKeys:
        # A new version of the program can change what a model says; without the version, stale results would be used.
        spoken = digest(version("clock-attention"), system.fingerprint, system.identity(prompt))
        sound = digest(spoken, chain.vocoder.fingerprint if system.vocoded else "no vocoder")
        return cls(
            spoken=sound,
            transcripts={name: digest(sound, name, one.fingerprint) for name, one in chain.recognizers.items()},
            opinions={name: digest(sound, name, one.fingerprint) for name, one in chain.predictors.items()},
        )

    @property
    def file(self) -> str:
        """Name of the file that holds the audio."""
        return f"{self.spoken}.flac"

    @property
    def all(self) -> list[str]:
        return [self.spoken, *self.transcripts.values(), *self.opinions.values()]


class Cache:
    """The evaluation's cache: results of utterances by key, in memory and in the files of `folder`."""

    def __init__(self, folder: str | Path, rank: int = 0) -> None:
        self.folder = Path(folder)
        self.path = self.folder / f"results-{rank:03d}.jsonl"
        self.rows: dict[str, CacheEntry] = {}
        self.reload()

    def reload(self) -> None:
        """Read the results that other processes have written since the last time."""
        for path in sorted(self.folder.glob("results-*.jsonl")):
            with open(path, encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    try:
                        row = json.loads(line)
                        self.rows[row.pop("key")] = row
                    except (json.JSONDecodeError, KeyError, TypeError, AttributeError):
                        continue  # incomplete last line of a killed process: the result counts as missing

    def get(self, key: str) -> CacheEntry | None:
        return self.rows.get(key)

    def held(self, key: str) -> CacheEntry:
        """A result that must be in the cache."""
        return self.rows[key]

    def put(self, key: str, row: CacheEntry) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"key": key, **row}, ensure_ascii=False) + "\n"
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            size = os.fstat(file).st_size
            if size and os.pread(file, 1, size - 1) != b"\n":
                line = "\n" + line  # an incomplete line of a killed process must not absorb this one
            os.write(file, line.encode())  # one write in append mode: lines of two processes are never interleaved
        finally:
            os.close(file)
        self.rows[key] = row


def require_folder(out: Path) -> None:
    """Refuse a path for the cache that exists and is not a folder."""
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"{out}: is a file, expected a folder")
