"""Preparation of a corpus into a feature store: parallel, resumable after any interruption, and deterministic.

Work is cut into shards of consecutive items. A worker writes a shard's frames and then, atomically, its table; a
shard with a table is done and never repeated. When all are there they are joined, in order, into the store. The
result depends on the items and settings only, not on the number of workers or on interruptions.
"""

from __future__ import annotations

import hashlib
import json
import logging
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clock_attention.files import locked, write_atomically
from clock_attention.speech.corpus.features import Item, Progress, Settings, Worker, read_shard, shard_path
from clock_attention.speech.corpus.splits import assign_splits
from clock_attention.speech.corpus.store import (
    FORMAT,
    STD_FLOOR,
    FeatureStore,
    Rejection,
    Utterance,
    write_rows,
)
from clock_attention.speech.text.phonemizers import phonemizer

logger = logging.getLogger(__name__)

SHARD_ITEMS = 64

_worker: Worker | None = None


def prepare(
    items: Sequence[Item],
    out: str | Path,
    settings: Settings,
    *,
    rejected: Sequence[Rejection] = (),
    workers: int = 2,
    source: str = "",
    report: Callable[[Progress], None] = lambda progress: None,
) -> FeatureStore:
    """Prepare items into a store at `out`.

    An interrupted preparation with the same inputs continues where it stopped; a finished one is opened as it is.
    """
    out = Path(out)
    shards = [items[start : start + SHARD_ITEMS] for start in range(0, len(items), SHARD_ITEMS)]
    if not shards:
        raise ValueError(f"nothing to prepare: no utterance found ({len(rejected)} rejected)")
    fingerprint = fingerprint_of(items, settings)
    if (out / "store.json").exists():
        store = FeatureStore.open(out)
        if store.header["format"] < FORMAT:
            logger.warning(
                "%s was made by an earlier version and is kept as it is: its split is by id, not by text", out
            )
        elif store.header.get("fingerprint") != fingerprint:
            raise FileExistsError(
                f"{out} holds a store of other inputs or settings: remove it or choose another folder"
            )
        return store
    with locked(out, "a corpus"):
        claim_folder(out, fingerprint)
        done: dict[int, float] = {}  # shard → seconds of audio
        for number in range(len(shards)):
            if shard_path(out, number, "json").exists():
                table = read_shard(out, number)
                done[number] = table["seconds"]
                report(Progress(len(shards[number]), len(table["rejected"]), table["seconds"], resumed=True))
        goal = float("inf") if settings.hours is None else settings.hours * 3600

        def todo() -> Iterator[tuple[int, Sequence[Item]]]:
            for number, shard in enumerate(shards):
                if contiguous_seconds(done) >= goal:
                    return
                if number not in done:
                    yield number, shard

        def finish(number: int, progress: Progress) -> None:
            done[number] = progress.seconds
            report(progress)

        run = run_here if workers <= 1 else run_in_pool
        run(out, settings, todo(), finish, workers)
        return finalize(out, sorted(done), settings, rejected, source, fingerprint)


Shards = Iterator[tuple[int, Sequence[Item]]]
Finish = Callable[[int, Progress], None]


def run_here(out: Path, settings: Settings, todo: Shards, finish: Finish, workers: int = 1) -> None:
    """One worker needs no process of its own."""
    worker: Worker | None = None
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in a pool: sums are split by thread, and the result must not depend on that
    try:
        for number, items in todo:
            worker = worker or Worker(out, settings)
            finish(number, worker.shard(number, items))
    finally:
        torch.set_num_threads(threads)


def run_in_pool(out: Path, settings: Settings, todo: Shards, finish: Finish, workers: int) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, start_worker, (out, settings)) as pool:
        running: dict[Future[Progress], int] = {}
        exhausted = False
        while True:
            # Few shards in flight: an end by `hours` or by the user should not wait for a long queue.
            while not exhausted and len(running) <= workers:
                shard = next(todo, None)
                exhausted = shard is None
                if shard is not None:
                    running[pool.submit(run_shard, *shard)] = shard[0]
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                finish(running.pop(future), future.result())


def start_worker(out: Path, settings: Settings) -> None:
    global _worker
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C, lets shards in flight finish, and ends
    threading.Thread(target=end_with_parent, daemon=True).start()
    # A line for every emoji that is not read would drown the progress bar.
    logging.getLogger("clock_attention").setLevel(logging.ERROR)
    _worker = Worker(out, settings)


def end_with_parent() -> None:
    """A killed parent must not leave workers behind."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


def run_shard(number: int, items: Sequence[Item]) -> Progress:
    assert _worker is not None
    return _worker.shard(number, items)


def contiguous_seconds(done: dict[int, float]) -> float:
    """Audio in the shards from the first to the first gap: what a cut by hours may count on."""
    total, number = 0.0, 0
    while number in done:
        total += done[number]
        number += 1
    return total


def fingerprint_of(items: Sequence[Item], settings: Settings) -> str:
    plan = json.dumps([settings.to_json(), [asdict(item) for item in items]], default=str, sort_keys=True)
    return hashlib.sha256(plan.encode()).hexdigest()


def claim_folder(out: Path, fingerprint: str) -> None:
    """Remember what is being prepared, and refuse to mix two preparations in one folder."""
    (out / "shards").mkdir(parents=True, exist_ok=True)
    claim = out / "shards" / "plan.json"
    if claim.exists() and json.loads(claim.read_text(encoding="utf-8"))["fingerprint"] != fingerprint:
        raise FileExistsError(
            f"{out} holds an unfinished preparation with other inputs or settings: "
            "repeat that command to finish it, or remove the folder"
        )
    write_atomically(claim, json.dumps({"fingerprint": fingerprint}))


def finalize(
    out: Path, numbers: list[int], settings: Settings, rejected: Sequence[Rejection], source: str, fingerprint: str
) -> FeatureStore:
    """Join the shards in order, measure, and write the table and the header."""
    rows: list[dict[str, Any]] = []
    rejections = [asdict(rejection) for rejection in rejected]
    per_second = settings.mel.frames_per_second
    longest = float("inf") if settings.hours is None else settings.hours * 3600 * per_second
    total = 0
    for number in numbers:
        if total >= longest:
            break
        table = read_shard(out, number)
        rejections += table["rejected"]
        for row in table["utterances"]:
            if total >= longest:
                break
            rows.append({**row, "offset": total})
            total += row["frames"]
    if not rows:
        reasons = "; ".join(f"{row['id']}: {row['reason']}" for row in rejections[:5])
        raise ValueError(f"no utterance passed the checks, so there is no store to write ({reasons} …)")
    for row, split in zip(
        rows,
        assign_splits([row["group"] for row in rows], [row["text"] for row in rows], settings.valid, settings.test),
        strict=True,
    ):
        row["split"] = split
    mean, std = join_frames(out, numbers, rows, total, settings)
    symbols = phonemizer(settings.phonemizer).symbols
    utterances = [Utterance.from_row(row) for row in rows]
    write_rows(out / "utterances.jsonl", [utterance.to_row() for utterance in utterances])
    write_rows(out / "rejected.jsonl", rejections)
    if settings.keep_audio:
        texts = (" ".join(row["text"].replace("|", ",").split()) for row in rows)  # on one line, whatever it held
        metadata = "".join(f"{row['id']}|{text}\n" for row, text in zip(rows, texts, strict=True))
        write_atomically(out / "metadata.csv", metadata)
    train = [utterance for utterance in utterances if utterance.split == "train"]
    header = {
        "format": FORMAT,
        "source": source,
        "fingerprint": fingerprint,
        "mel": settings.mel.model_dump(),
        "phonemizer": {"name": settings.phonemizer, "symbols": symbols},
        "mean": mean.tolist(),
        "std": std.tolist(),
        "mpr": sum(u.frames for u in train) / sum(len(u.tokens) for u in train),
        "utterances": len(utterances),
        "rejected": len(rejections),
        "hours": total / per_second / 3600,
        "settings": settings.to_json(),
    }
    write_atomically(out / "store.json", json.dumps(header, indent=1, ensure_ascii=False))
    shutil.rmtree(out / "shards")
    return FeatureStore.open(out)


def join_frames(
    out: Path, numbers: list[int], rows: list[dict[str, Any]], total: int, settings: Settings
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Write mel.npy; returns per-bin mean and floored standard deviation of the training frames."""
    n_mels = settings.mel.n_mels
    temporary = out / "mel.npy.part"
    joined = np.lib.format.open_memmap(temporary, mode="w+", dtype=settings.dtype, shape=(total, n_mels))
    place = 0
    for number in numbers:
        shard = np.load(shard_path(out, number, "npy"), mmap_mode="r")[: total - place]
        joined[place : place + len(shard)] = shard
        place += len(shard)
    count, sums, squares = 0, np.zeros(n_mels), np.zeros(n_mels)
    for row in rows:
        if row["split"] == "train":
            frames = joined[row["offset"] : row["offset"] + row["frames"]].astype(np.float64)
            count, sums, squares = count + len(frames), sums + frames.sum(0), squares + np.square(frames).sum(0)
    joined.flush()
    del joined
    os.replace(temporary, out / "mel.npy")
    mean = sums / count
    return mean, np.maximum(np.sqrt(np.maximum(squares / count - mean**2, 0)), STD_FLOOR)
