"""Prepare a corpus as a feature store: in parallel, resumable after any interruption, and deterministic.

Work is cut into shards of consecutive items. A worker writes a shard's frames and then, atomically, its table; a
shard with a table is done and never repeated. When all shards are done they are joined, in order, into the store. The
result depends only on the items and settings, not on the number of workers or on interruptions.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from clock_attention.files import locked, write_atomically
from clock_attention.speech.corpus.feature_extraction import (
    Item,
    Settings,
    Worker,
    read_shard,
    shard_path,
    written_atomically,
)
from clock_attention.speech.corpus.shards import Progress, run_shards
from clock_attention.speech.corpus.splits import assign_splits
from clock_attention.speech.corpus.store import (
    FORMAT,
    STD_FLOOR,
    FeatureStore,
    Rejection,
    StoredUtterance,
    write_rows,
)
from clock_attention.speech.corpus.teacher import TeacherPhrase
from clock_attention.speech.text.phonemizers import phonemizer

logger = logging.getLogger(__name__)

SHARD_ITEMS = 64


def prepare(
    items: Sequence[Item],
    out: str | Path,
    settings: Settings,
    *,
    rejected: Sequence[Rejection] = (),
    workers: int = 2,
    source: str = "",
    folder: Path | None = None,
    report: Callable[[Progress], None] = lambda progress: None,
) -> FeatureStore:
    """Prepare a corpus: turn items into a feature store at `out`.

    An interrupted preparation with the same inputs continues where it stopped; a finished store is opened as is.

    Args:
        source: description of the corpus for people; stored in voices.
        folder: folder of the recordings, so that `corpus align` finds them again.
    """
    out = Path(out)
    shards = [items[start : start + SHARD_ITEMS] for start in range(0, len(items), SHARD_ITEMS)]
    if not shards:
        raise ValueError(f"nothing to prepare: no utterance found ({len(rejected)} rejected)")
    fingerprint = fingerprint_of(items, settings)
    origin: dict[str, Any] = {"source": source, **audio_origin(items, folder)}
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

        run_shards(partial(Worker, out, settings), todo(), finish, workers)
        return finalize(out, sorted(done), settings, rejected, origin, fingerprint)


def audio_origin(items: Sequence[Item], folder: Path | None) -> dict[str, Any]:
    """How to get a prepared store's audio again: a store keeps none of it unless asked to."""
    if isinstance(items[0], TeacherPhrase):
        return {"reading_seed": items[0].seed}
    return {"folder": str(folder.resolve())} if folder else {}


def contiguous_seconds(done: dict[int, float]) -> float:
    """Seconds of audio in a corpus's shards up to the first unfinished one: what a preparation by hours can rely on."""
    total, number = 0.0, 0
    while number in done:
        total += done[number]
        number += 1
    return total


def fingerprint_of(items: Sequence[Item], settings: Settings) -> str:
    """Hash of the settings and items of a corpus preparation."""
    rows = [asdict(item) for item in items]
    for row in rows:
        if not row["speaker"]:
            del row["speaker"]  # as items were described before they had one
    plan = json.dumps([settings.to_json(), rows], default=str, sort_keys=True)
    return hashlib.sha256(plan.encode()).hexdigest()


def claim_folder(out: Path, fingerprint: str) -> None:
    """Record in a folder which corpus is being prepared there, and refuse to mix two preparations."""
    (out / "shards").mkdir(parents=True, exist_ok=True)
    claim = out / "shards" / "plan.json"
    if claim.exists() and json.loads(claim.read_text(encoding="utf-8"))["fingerprint"] != fingerprint:
        raise FileExistsError(
            f"{out} holds an unfinished preparation with other inputs or settings: "
            "repeat that command to finish it, or remove the folder"
        )
    write_atomically(claim, json.dumps({"fingerprint": fingerprint}))


def finalize(
    out: Path,
    numbers: list[int],
    settings: Settings,
    rejected: Sequence[Rejection],
    origin: dict[str, Any],
    fingerprint: str,
) -> FeatureStore:
    """Finish a preparation: join the shards in order, compute statistics, and write the table and the header."""
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
    join_frames(out, numbers, total, settings)
    train = [row for row in rows if row["split"] == "train"]
    symbols = phonemizer(settings.phonemizer).symbols
    utterances = [StoredUtterance.from_row(row) for row in rows]
    write_rows(out / "utterances.jsonl", [utterance.to_row() for utterance in utterances])
    write_rows(out / "rejected.jsonl", rejections)
    if settings.keep_audio:
        texts = (" ".join(row["text"].replace("|", ",").split()) for row in rows)  # on one line, whatever it contained
        speakers = (f"||{row['speaker']}" if "speaker" in row else "" for row in rows)
        lines = zip(rows, texts, speakers, strict=True)
        metadata = "".join(f"{row['id']}|{text}{speaker}\n" for row, text, speaker in lines)
        write_atomically(out / "metadata.csv", metadata)
    header = {
        "format": FORMAT,
        **origin,
        "fingerprint": fingerprint,
        "mel": settings.mel.model_dump(),
        "phonemizer": {"name": settings.phonemizer, "symbols": symbols},
        **statistics(out, train),
        **speaker_statistics(out, rows),
        "utterances": len(utterances),
        "rejected": len(rejections),
        "hours": total / per_second / 3600,
        "settings": settings.to_json(),
    }
    write_atomically(out / "store.json", json.dumps(header, indent=1, ensure_ascii=False))
    shutil.rmtree(out / "shards")
    return FeatureStore.open(out)


def join_frames(out: Path, numbers: list[int], total: int, settings: Settings) -> None:
    """Finish a preparation: join the frames of all shards in mel.npy."""
    dtype = np.dtype(settings.dtype)
    header = {"descr": dtype.str, "fortran_order": False, "shape": (total, settings.mel.n_mels)}
    # Not through a memory map: on a full disk, writing to one kills the process.
    with written_atomically(out / "mel.npy") as file:
        np.lib.format.write_array_header_1_0(file, header)
        place = 0
        for number in numbers:
            shard = np.load(shard_path(out, number, "npy"), mmap_mode="r")[: total - place]
            file.write(np.ascontiguousarray(shard, dtype).data)
            place += len(shard)


def statistics(out: Path, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Per-bin mean and floored standard deviation of the frames of these utterances, and their pace."""
    mel = np.load(out / "mel.npy", mmap_mode="r")
    count, sums, squares = 0, np.zeros(mel.shape[1]), np.zeros(mel.shape[1])
    for row in rows:
        frames = mel[row["offset"] : row["offset"] + row["frames"]].astype(np.float64)
        count, sums, squares = count + len(frames), sums + frames.sum(0), squares + np.square(frames).sum(0)
    mean = sums / count
    std = np.maximum(np.sqrt(np.maximum(squares / count - mean**2, 0)), STD_FLOOR)
    return {"mean": mean.tolist(), "std": std.tolist(), "mpr": count / sum(len(row["tokens"]) for row in rows)}


def speaker_statistics(out: Path, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Statistics of each speaker, if there are several; over all utterances of one who has none for training."""
    of: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        of.setdefault(row.get("speaker", ""), []).append(row)
    if len(of) == 1:
        return {}
    chosen = {name: [row for row in own if row["split"] == "train"] or own for name, own in of.items()}
    return {"speakers": [{"name": name, **statistics(out, own)} for name, own in chosen.items()]}
