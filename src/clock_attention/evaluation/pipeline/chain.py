"""The chain from a log-mel to transcripts: one vocoder, any number of recognizers, in one process or several."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import soundfile
import torch

from clock_attention.evaluation.scoring.opinion import Predictor, load_predictor
from clock_attention.evaluation.scoring.recognizers import Recognizer, load_recognizer
from clock_attention.evaluation.systems.systems import SystemOutput
from clock_attention.processes import become_worker
from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.audio.sound_writing import SoundFile
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.vocoder.vocoder import Vocoder, load_vocoder


@dataclass(frozen=True)
class ChainJob:
    """One utterance for the chain, and the recognizers and opinion predictors that have no result for it yet."""

    key: str
    sound: SystemOutput
    recognizers: tuple[str, ...]
    predictors: tuple[str, ...] = ()
    audio: Path | None = None  # where to save it


@dataclass(frozen=True)
class ChainOutcome:
    """The chain's results for one utterance: seconds, transcripts and opinion scores."""

    key: str
    seconds: float
    transcripts: dict[str, str]  # by recognizer
    opinions: dict[str, dict[str, float]]  # by predictor


class Chain:
    """A chain: one loaded vocoder and its loaded recognizers."""

    def __init__(
        self, vocoder: Vocoder, recognizers: dict[str, Recognizer], predictors: dict[str, Predictor] | None = None
    ) -> None:
        self.vocoder = vocoder
        self.recognizers = recognizers
        self.predictors = predictors or {}

    def process(self, job: ChainJob) -> ChainOutcome:
        wave, rate = self.wave(job.sound)
        if job.audio is not None and not job.audio.exists():
            keep_audio(job.audio, wave, rate)
        return ChainOutcome(
            key=job.key,
            seconds=len(wave) / rate,
            transcripts={name: self.recognizers[name].transcribe(wave, rate) for name in job.recognizers},
            opinions={name: self.predictors[name](wave, rate) for name in job.predictors},
        )

    def wave(self, sound: SystemOutput) -> tuple[Wave, int]:
        if sound.wave is not None:
            return sound.wave, sound.sample_rate
        assert sound.mel is not None
        return self.vocoder(torch.from_numpy(sound.mel)), self.vocoder.mel.sample_rate


class ChainSource(Protocol):
    """Loads a chain; can be sent to other processes."""

    def load(self) -> Chain: ...


@dataclass(frozen=True)
class ChainSpec:
    """A chain by the names of its vocoder and recognizers."""

    mel: MelConfig
    vocoder: str = "auto"
    recognizers: tuple[str, ...] = ("moonshine",)
    predictors: tuple[str, ...] = ()
    threads: int = 1  # per recognizer

    def load(self) -> Chain:
        wanted = list(dict.fromkeys(self.recognizers))
        recognizers = [load_recognizer(name, self.threads) for name in wanted]
        names = [one.name for one in recognizers]
        for name, given in zip(names, wanted, strict=True):
            if names.count(name) > 1:
                raise ValueError(f"recognizer {given}: another one is called {name!r}, too; rename its folder")
        return Chain(
            load_vocoder(self.vocoder, self.mel),
            {one.name: one for one in recognizers},  # its name does not include the folder of the model
            {name: load_predictor(name) for name in self.predictors},
        )


class ChainWorkers:
    """Worker processes, each with its own loaded chain, kept for several evaluations. A context manager."""

    def __init__(self, source: ChainSource, workers: int = 1) -> None:
        if workers < 1:
            raise ValueError(f"workers: expected 1 or more, got {workers}")
        self.source = source
        self.workers = workers
        self.pool: ProcessPoolExecutor | None = None

    @cached_property
    def chain(self) -> Chain:
        """The chain in this process: it provides the fingerprints, and does all the work if there is one worker."""
        return self.source.load()

    def __enter__(self) -> ChainWorkers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if self.pool is not None:
            self.pool.shutdown(wait=True, cancel_futures=True)
            self.pool = None

    def process(self, jobs: Iterator[ChainJob]) -> Iterator[ChainOutcome]:
        """Results as they finish, in any order. Jobs are drawn only as needed, so that mels do not pile up."""
        if self.workers == 1:
            yield from map(self.chain.process, jobs)
            return
        if self.pool is None:
            context = multiprocessing.get_context("spawn")
            self.pool = ProcessPoolExecutor(self.workers, context, start_worker, (self.source,))
        try:
            yield from self._shared(self.pool, jobs)
        except BrokenProcessPool:  # raised when a job is submitted or its result requested
            raise ChildProcessError(
                "a worker process was killed, perhaps for lack of memory: the same command continues, "
                "with fewer workers if it happens again"
            ) from None

    def _shared(self, pool: ProcessPoolExecutor, jobs: Iterator[ChainJob]) -> Iterator[ChainOutcome]:
        running: set[Future[ChainOutcome]] = set()
        exhausted = False
        while True:
            while not exhausted and len(running) < 2 * self.workers:
                job = next(jobs, None)
                exhausted = job is None
                if job is not None:
                    running.add(pool.submit(process_job, job))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


_chain: Chain | None = None


def start_worker(source: ChainSource) -> None:
    """Load the chain in a worker process."""
    global _chain
    become_worker()
    _chain = source.load()


def process_job(job: ChainJob) -> ChainOutcome:
    """Run one job through the chain of this worker process."""
    assert _chain is not None
    return _chain.process(job)


def keep_audio(path: Path, wave: Wave, rate: int) -> None:
    """Save the audio from the chain's vocoder, for listening and for other measures."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with SoundFile(path, rate, "PCM_24") as file:
        file.write(wave)


def kept_audio(path: Path) -> dict[str, Any] | None:
    """Audio saved by the chain of an earlier evaluation, as fields of a `SystemOutput`. A damaged file is deleted."""
    try:
        wave, rate = soundfile.read(path, dtype="float32")
    except soundfile.LibsndfileError:
        path.unlink(missing_ok=True)
        return None
    return {"wave": wave, "sample_rate": rate}
