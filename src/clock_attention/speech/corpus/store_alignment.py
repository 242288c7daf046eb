"""Alignment of a feature store: durations of tokens and pitch of frames, which the aligned model learns from.

Boundaries come from an aligner, pitch from SwiftF0, both from the audio that the store was made from. Parallel and
resumable, like the preparation. Adds to the store

    STORE/pitch.npy          (all frames,) natural log of F0, 0 where unvoiced
    STORE/alignment.jsonl    score of every utterance, worst first, and why it is left out, if it is

and the durations in utterances.jsonl. `store.json` is written last: a store that is only half aligned counts as not
aligned. If too few utterances could be aligned, the store stays as it was, and the scores are in

    STORE/alignment.failed.jsonl
"""

from __future__ import annotations

import json
import logging
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from clock_attention.files import locked, write_atomically
from clock_attention.speech.audio.pitch import log_pitch
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.corpus.feature_extraction import save_atomically
from clock_attention.speech.corpus.recording_checks import Rejected
from clock_attention.speech.corpus.shards import Progress, run_shards
from clock_attention.speech.corpus.store import FeatureStore, read_rows, to_json, write_rows
from clock_attention.speech.corpus.store_audio import StoreAudio
from clock_attention.speech.text.phonemes import PAUSE_STRENGTH, Phonemes

logger = logging.getLogger(__name__)

SHARD_UTTERANCES = 32
DURATIONS = 2  # version of their derivation; 1 gave the silence after the last phoneme to the full stop
FEWEST_ALIGNED = 0.5  # of the utterances; below that, text and audio do not belong together
SCORES, FAILED_SCORES = "alignment.jsonl", "alignment.failed.jsonl"


class TimedTokens(Protocol):
    """Times of an utterance's tokens in seconds, as needed for the alignment of a store."""

    @property
    def starts(self) -> ArrayLike: ...
    @property
    def ends(self) -> ArrayLike: ...
    @property
    def score(self) -> float: ...
    @property
    def fits(self) -> bool: ...


class PhonemeAligner(Protocol):
    """An aligner for feature stores; raises ValueError for an utterance that it cannot align."""

    def align_phonemes(self, wave: Wave, sample_rate: int, phonemes: Phonemes) -> TimedTokens: ...


@dataclass(frozen=True)
class AlignmentRow:
    """The alignment of one utterance of a store, a row of alignment.jsonl. `reason` says why it is left out, or ""."""

    id: str
    score: float | None
    reason: str
    text: str


def align_store(
    path: str | Path,
    make_aligner: Callable[[], PhonemeAligner],
    *,
    name: str,
    least_score: float | None = None,
    folder: Path | None = None,
    workers: int = 2,
    report: Callable[[Progress], None] = lambda progress: None,
) -> tuple[FeatureStore, list[AlignmentRow]]:
    """Align a feature store: write durations and pitch; returns it with all utterances' scores, worst first.

    Args:
        make_aligner: called once in every process; must be picklable.
        name: name of the aligner and its weights (`model_name`). A store is not aligned again by the same one.
        least_score: utterances with a lower score are left out of training and validation; None: those that do not
            fit according to the aligner itself.
        folder: folder of the recordings, if the store does not know it.
    """
    store = FeatureStore.open(path)
    settings = {"aligner": name, "least_score": least_score, "durations": DURATIONS}
    if store.timed and store.header.get("alignment") == settings:
        return store, read_alignment(store.path)
    work = store.path / "aligning"
    with locked(store.path, "a corpus"):
        claim(work, name)
        StoreAudio(store, folder).check_first()
        indices = range(len(store))
        shards = [indices[start : start + SHARD_UTTERANCES] for start in range(0, len(store), SHARD_UTTERANCES)]

        def todo() -> Iterator[tuple[int, Sequence[int]]]:
            for number, shard in enumerate(shards):
                if (work / f"{number:06d}.json").exists():
                    rows = read_shard(work, number)
                    report(Progress(len(rows), failures(rows), seconds_of(store, shard), resumed=True))
                else:
                    yield number, shard

        make = partial(AlignmentWorker, store, folder, make_aligner, work)
        run_shards(make, todo(), lambda number, progress: report(progress), workers)
        rows = [row for number in range(len(shards)) for row in read_shard(work, number)]
        pitch = np.concatenate([np.load(work / f"{number:06d}.npy") for number in range(len(shards))])
        return finalize(store, rows, pitch, least_score, settings)


class AlignmentWorker:
    """Aligns shards of a store's utterances. One per process; the aligner is loaded once."""

    def __init__(
        self, store: FeatureStore, folder: Path | None, make_aligner: Callable[[], PhonemeAligner], work: Path
    ) -> None:
        self.store, self.work = store, work
        self.audio, self.aligner = StoreAudio(store, folder), make_aligner()

    def shard(self, number: int, items: Sequence[int]) -> Progress:
        rows, pitches = [], []
        for index in items:
            row, pitch = self.utterance(index)
            rows.append(row)
            pitches.append(pitch)
        save_atomically(self.work / f"{number:06d}.npy", np.concatenate(pitches))
        write_atomically(self.work / f"{number:06d}.json", to_json({"rows": rows}))
        return Progress(len(items), failures(rows), seconds_of(self.store, items), resumed=False)

    def utterance(self, index: int) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
        store, row = self.store, self.store.utterances[index]
        config = store.mel_config
        found: dict[str, Any] = {"score": None, "fits": False, "durations": None, "reason": ""}
        try:
            wave = self.audio(index)
            tokens = tuple(store.symbols[token] for token in row.tokens)
            times = self.aligner.align_phonemes(wave, config.sample_rate, Phonemes(tokens, row.word_index, row.words))
            found |= {"score": float(times.score), "fits": bool(times.fits)}
            optional = [token in PAUSE_STRENGTH for token in tokens]
            found["durations"] = whole_frames(times, row.frames, config.frames_per_second, optional)
        except Rejected as rejection:
            return found | {"reason": f"{rejection.reason}: {rejection.detail}"}, np.zeros(row.frames, np.float16)
        except ValueError as error:
            return found | {"reason": str(error)}, np.zeros(row.frames, np.float16)
        return found, log_pitch(wave, config).astype(np.float16)


def whole_frames(times: TimedTokens, frames: int, per_second: float, optional: Sequence[bool]) -> list[int]:
    """Alignment in whole frames, `frames` in all: of the silence before, of every token and of the silence after.

    Boundaries go to the nearest frame. Every token gets at least one frame, except for `optional` ones: a phoneme
    shorter than a frame takes one from its neighbours. Pauses before the first phoneme and after the last one get
    none: that time belongs to the silence before or after.
    """
    least = np.array([0, *(0 if free else 1 for free in optional), 0])
    if least.sum() > frames:
        raise ValueError(f"{frames} frames are too few for {least.sum()} phonemes: does the text belong to the audio?")
    seconds = np.concatenate([np.asarray(times.starts)[:1], np.asarray(times.ends)])
    ends = np.append(np.round(seconds * per_second), frames).astype(int)
    for place in range(len(ends)):
        ends[place] = max(ends[place], (ends[place - 1] if place else 0) + least[place])
    ends[-1] = frames
    for place in reversed(range(len(ends) - 1)):
        ends[place] = min(ends[place], ends[place + 1] - least[place + 1])
    spoken = np.flatnonzero(least)
    if len(spoken):
        ends[: spoken[0]] = ends[spoken[0] - 1]
        ends[spoken[-1] : -1] = ends[spoken[-1]]
    durations: list[int] = np.diff(ends, prepend=0).tolist()
    return durations


def finalize(
    store: FeatureStore,
    rows: Sequence[dict[str, Any]],
    pitch: np.ndarray[Any, Any],
    least_score: float | None,
    settings: dict[str, Any],
) -> tuple[FeatureStore, list[AlignmentRow]]:
    """Finish the alignment of a store: write pitch, durations and scores, and the header last."""
    listed, utterances = [], []
    for row, utterance in zip(rows, store.utterances, strict=True):
        reason, durations = row["reason"], row["durations"]
        if durations is not None and not (row["fits"] if least_score is None else row["score"] >= least_score):
            reason, durations = "text and audio do not fit", None
        listed.append(AlignmentRow(utterance.id, row["score"], reason, utterance.text))
        utterances.append(replace(utterance, durations=None if durations is None else tuple(durations)))
    used = [row for row in utterances if row.durations is not None]
    listed.sort(key=lambda row: (float("-inf") if row.score is None else row.score, row.id))
    accepted = len(used) >= FEWEST_ALIGNED * len(utterances)
    scores = store.path / (SCORES if accepted else FAILED_SCORES)  # the scores of an earlier alignment are kept
    write_rows(scores, [asdict(row) for row in listed])
    if not accepted:
        [(commonest, _)] = Counter(row.reason for row in listed if row.reason).most_common(1)
        raise ValueError(
            f"{store.path}: {len(used)} of {len(utterances)} utterances could be aligned (most often: {commonest}); "
            f"all scores and reasons are in {scores}"
        )
    (store.path / FAILED_SCORES).unlink(missing_ok=True)
    save_atomically(store.path / "pitch.npy", pitch)
    write_rows(store.path / "utterances.jsonl", [utterance.to_row() for utterance in utterances])
    whole = FeatureStore.open(store.path)
    prosody = statistics(whole)
    header = {**store.header, "prosody": prosody, "alignment": settings}
    if len(store.speakers) > 1:
        own = [row | {"prosody": statistics(whole, row["name"]) or prosody} for row in header["speakers"]]
        header["speakers"] = own
    write_atomically(store.path / "store.json", json.dumps(header, indent=1, ensure_ascii=False))
    shutil.rmtree(store.path / "aligning")
    return FeatureStore.open(store.path), listed


def statistics(store: FeatureStore, speaker: str | None = None) -> dict[str, float]:
    """Mean and deviation of an aligned store's pitch and energy, over its training split.

    Of one speaker, or of all; empty if that speaker has no voiced frame to learn from.
    """
    pitches, energies = [], []
    for index, utterance in enumerate(store.utterances):
        if utterance.split != "train" or utterance.durations is None or speaker not in (None, utterance.speaker):
            continue
        contour = store.pitch(index).numpy()
        pitches.append(contour[contour > 0])
        level, durations = store.mel(index).numpy().mean(1), np.array(utterance.durations)
        starts = (durations.cumsum() - durations)[durations > 0]
        energies.append(np.add.reduceat(level, starts) / durations[durations > 0])
    pitch, energy = (np.concatenate(values) if values else np.zeros(0) for values in (pitches, energies))
    if not len(pitch) and speaker is not None:
        return {}
    if not len(pitch):
        raise ValueError(f"{store.path}: no voiced frame in the training split: is this speech?")
    return {
        "pitch_mean": float(pitch.mean()),
        "pitch_std": max(float(pitch.std()), 0.01),
        "energy_mean": float(energy.mean()),
        "energy_std": max(float(energy.std()), 0.01),
    }


def claim(work: Path, name: str) -> None:
    """Continue an interrupted alignment of a store by the same aligner; one by another aligner is discarded."""
    plan = work / "plan.json"
    if plan.exists() and json.loads(plan.read_text(encoding="utf-8")) != {"aligner": name}:
        shutil.rmtree(work)
    work.mkdir(exist_ok=True)
    write_atomically(plan, json.dumps({"aligner": name}))


def read_shard(work: Path, number: int) -> list[dict[str, Any]]:
    """The rows of one shard of a store's alignment."""
    rows: list[dict[str, Any]] = json.loads((work / f"{number:06d}.json").read_text(encoding="utf-8"))["rows"]
    return rows


def read_alignment(path: Path) -> list[AlignmentRow]:
    """The alignment of a store, from alignment.jsonl."""
    return [AlignmentRow(**row) for row in read_rows(path / SCORES)]


def failures(rows: Sequence[dict[str, Any]]) -> int:
    """Number of utterances that are left out of a store's alignment."""
    return sum(bool(row["reason"]) for row in rows)


def seconds_of(store: FeatureStore, items: Sequence[int]) -> float:
    """Seconds of some utterances of a store, for the progress of its alignment."""
    return sum(store.utterances[index].frames for index in items) / store.mel_config.frames_per_second
