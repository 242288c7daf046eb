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
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

from clock_attention.speech.audio import MelConfig, MelSpectrogram, resample, trim_silence
from clock_attention.speech.checks import Limits, Recording, Rejected, check_frames, check_wave, load_recording
from clock_attention.speech.phonemes import Phonemizer, UnreadableTextError, phonemizer, token_ids
from clock_attention.speech.store import (
    FORMAT,
    STD_FLOOR,
    FeatureStore,
    Rejection,
    Utterance,
    assign_splits,
    write_atomically,
    write_rows,
)
from clock_attention.speech.teacher import TEACHER_RATE, Reading, Teacher

Item = Recording | Reading
SHARD_ITEMS = 64


@dataclass(frozen=True)
class Settings:
    """Everything besides the items that decides what the store will contain."""

    mel: MelConfig
    phonemizer: str = "hibari"
    dtype: str = "float16"
    silence: float = 0.05
    silence_db: float = 45.0
    valid: float = 0.02
    test: float = 0.02
    limits: Limits = field(default_factory=Limits)
    hours: float | None = None
    keep_audio: bool = False

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "mel": self.mel.model_dump()}


@dataclass(frozen=True)
class Progress:
    """What the progress bar shows after each shard."""

    items: int
    rejected: int
    seconds: float
    resumed: bool


class Worker:
    """Turns shards of items into files. One per process; models are loaded once."""

    def __init__(self, out: Path, settings: Settings) -> None:
        self.out = out
        self.settings = settings
        self.mel = MelSpectrogram(settings.mel)
        self.reader: Phonemizer = phonemizer(settings.phonemizer)
        self.teacher = Teacher()

    def shard(self, number: int, items: Sequence[Item]) -> Progress:
        frames, rows, rejected = [], [], []
        for item in items:
            try:
                row, mel = self.utterance(item)
            except Rejected as rejection:
                rejected.append(asdict(Rejection(item.id, rejection.reason, rejection.detail)))
                continue
            frames.append(mel)
            rows.append(row)
        n_mels = self.settings.mel.n_mels
        joined = np.concatenate(frames) if frames else np.zeros((0, n_mels), self.settings.dtype)
        save_atomically(shard_path(self.out, number, "npy"), joined)
        seconds = len(joined) / self.settings.mel.frames_per_second
        done = {"utterances": rows, "rejected": rejected, "seconds": seconds}
        write_atomically(shard_path(self.out, number, "json"), json.dumps(done, ensure_ascii=False))
        return Progress(len(items), len(rejected), seconds, resumed=False)

    def utterance(self, item: Item) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
        settings, rate = self.settings, self.settings.mel.sample_rate
        try:
            phonemes = self.reader(item.text)
        except UnreadableTextError as error:
            raise Rejected("no phonemes", str(error)) from None
        if isinstance(item, Reading):
            wave = resample(self.teacher(item), TEACHER_RATE, rate)
        else:
            wave = load_recording(item, rate)
        check_wave(wave, settings.limits)
        wave = trim_silence(wave, rate, settings.silence, settings.silence_db)
        check_frames(len(wave) / rate, settings.mel.frames(len(wave)), len(phonemes), settings.limits)
        if settings.keep_audio:
            soundfile.write(self.out / "wavs" / f"{item.id}.wav", wave, rate, subtype="PCM_16")
        mel = self.mel(wave).numpy().astype(settings.dtype)
        row = {
            "id": item.id,
            "text": item.text,
            "tokens": token_ids(phonemes.tokens, self.reader.symbols),
            "word_index": phonemes.word_index,
            "words": phonemes.words,
            "frames": len(mel),
            "group": item.group,
            "speed": item.speed if isinstance(item, Reading) else 1.0,
        }
        return row, mel


_worker: Worker | None = None


def _start_worker(out: Path, settings: Settings) -> None:
    global _worker
    torch.set_num_threads(1)
    # Characters that are not read were reported when the text was first cleaned; a line each would drown the bar.
    logging.getLogger("clock_attention").setLevel(logging.ERROR)
    _worker = Worker(out, settings)


def _run_shard(number: int, items: Sequence[Item]) -> Progress:
    assert _worker is not None
    return _worker.shard(number, items)


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
    """Prepare items into a store at `out`; continues where an interrupted preparation with the same inputs stopped."""
    out = Path(out)
    if (out / "store.json").exists():
        raise FileExistsError(f"{out} already holds a finished store: remove it or choose another folder")
    shards = [items[start : start + SHARD_ITEMS] for start in range(0, len(items), SHARD_ITEMS)]
    if not shards:
        raise ValueError(f"nothing to prepare: no utterance found ({len(rejected)} rejected)")
    claim_folder(out, items, settings)
    done: dict[int, float] = {}  # shard → seconds of audio
    for number in range(len(shards)):
        if shard_path(out, number, "json").exists():
            table = read_shard(out, number)
            done[number] = table["seconds"]
            report(Progress(len(shards[number]), len(table["rejected"]), table["seconds"], resumed=True))
    todo = [number for number in range(len(shards)) if number not in done]

    def enough() -> bool:
        return settings.hours is not None and contiguous_seconds(done) >= settings.hours * 3600

    if todo and not enough():
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(max(1, workers), context, _start_worker, (out, settings)) as pool:
            running: dict[Future[Progress], int] = {}
            while (todo and not enough()) or running:
                # Few shards in flight: an end by `hours` or by the user should not wait for a long queue.
                while todo and not enough() and len(running) <= workers:
                    number = todo.pop(0)
                    running[pool.submit(_run_shard, number, shards[number])] = number
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    progress = future.result()
                    done[running.pop(future)] = progress.seconds
                    report(progress)
    return finalize(out, sorted(done), settings, rejected, source)


def contiguous_seconds(done: dict[int, float]) -> float:
    """Audio in the shards from the first to the first gap: what a cut by hours may count on."""
    total, number = 0.0, 0
    while number in done:
        total += done[number]
        number += 1
    return total


def claim_folder(out: Path, items: Sequence[Item], settings: Settings) -> None:
    """Remember what is being prepared, and refuse to mix two preparations in one folder."""
    plan = json.dumps([settings.to_json(), [asdict(item) for item in items]], default=str, sort_keys=True)
    fingerprint = hashlib.sha256(plan.encode()).hexdigest()
    (out / "shards").mkdir(parents=True, exist_ok=True)
    if settings.keep_audio:
        (out / "wavs").mkdir(exist_ok=True)
    claim = out / "shards" / "plan.json"
    if claim.exists() and json.loads(claim.read_text(encoding="utf-8"))["fingerprint"] != fingerprint:
        raise FileExistsError(
            f"{out} holds an unfinished preparation with other inputs or settings: "
            "repeat that command to finish it, or remove the folder"
        )
    write_atomically(claim, json.dumps({"fingerprint": fingerprint}))


def finalize(
    out: Path, numbers: list[int], settings: Settings, rejected: Sequence[Rejection], source: str
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
        rows, assign_splits([row["group"] for row in rows], settings.valid, settings.test), strict=True
    ):
        row["split"] = split
    mean, std = join_frames(out, numbers, rows, total, settings)
    symbols = phonemizer(settings.phonemizer).symbols
    utterances = [Utterance.from_row(row) for row in rows]
    write_rows(out / "utterances.jsonl", [utterance.to_row() for utterance in utterances])
    write_rows(out / "rejected.jsonl", rejections)
    train = [utterance for utterance in utterances if utterance.split == "train"]
    header = {
        "format": FORMAT,
        "source": source,
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
    temporary = out / f".mel.npy.{os.getpid()}"
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


def shard_path(out: Path, number: int, suffix: str) -> Path:
    return out / "shards" / f"{number:06d}.{suffix}"


def read_shard(out: Path, number: int) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(shard_path(out, number, "json").read_text(encoding="utf-8"))
    return table


def save_atomically(path: Path, array: np.ndarray[Any, Any]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "wb") as file:
        np.save(file, array)
    os.replace(temporary, path)
