"""Jobs of an experiment's stages: corpora, training runs, voices and sweeps, each as a call with its options.

A job can be pickled, to run in a separate process, and compared with the job of an earlier run.
"""

from __future__ import annotations

import multiprocessing
from abc import ABC, abstractmethod
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from rich.console import Console

from clock_attention.evaluation.pipeline.chain import ChainSpec
from clock_attention.evaluation.pipeline.evaluate import Evaluation
from clock_attention.evaluation.pipeline.progress import Watch
from clock_attention.evaluation.pipeline.session import Session, shared_mel
from clock_attention.evaluation.pipeline.sweep import CAP, parse_range, sweep, write_sweep
from clock_attention.evaluation.prompts import LISTS, load_prompts
from clock_attention.evaluation.report.figures import draw_sample, draw_scores
from clock_attention.evaluation.systems.opening import open_systems, split_name
from clock_attention.evaluation.systems.systems import Length, VoiceSystem
from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.corpus.feature_extraction import Settings
from clock_attention.speech.corpus.joined_stores import open_corpora
from clock_attention.speech.corpus.ljspeech import read_folder
from clock_attention.speech.corpus.prepare import prepare
from clock_attention.speech.corpus.teacher import generate_readings
from clock_attention.speech.training.config import load_preset
from clock_attention.speech.training.devices import launched_fabric
from clock_attention.speech.training.loop import train
from clock_attention.speech.training.run import RunDescription
from clock_attention.speech.voice.from_run import export


@dataclass(frozen=True)
class StageJob(ABC):
    """The job of one stage of the experiment. The fields in `how` only affect how it runs, not its result."""

    out: Path
    how: ClassVar[tuple[str, ...]] = ("workers", "threads", "lists", "devices", "nodes")

    @abstractmethod
    def run(self, console: Console) -> Any: ...

    def options(self) -> dict[str, Any]:
        """Options that affect the job's result, for JSON. Defaults are left out: new options keep old results valid."""
        found: dict[str, Any] = {"job": type(self).__name__}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in self.how and value != field.default:
                found[field.name] = as_json(value)
        return found


@dataclass(frozen=True)
class SynthesizeCorpus(StageJob):
    """Job of an experiment: create a feature store of the teacher's speech."""

    text: Path | None = None  # None: generated sentences
    hours: float | None = None
    seed: int = 0
    speeds: tuple[float, ...] = (1.0,)
    shortest: int = 15  # length of a sentence in letters
    longest: int = 120
    workers: int = 1

    def run(self, console: Console) -> None:
        readings, rejected, source = generate_readings(
            self.text,
            hours=self.hours,
            seed=self.seed,
            speeds=self.speeds,
            shortest=self.shortest,
            longest=self.longest,
        )
        settings = Settings(mel=MelConfig.preset("hifigan"), hours=self.hours)
        with Watch(console, len(readings), self.out.name) as watch:
            prepare(
                readings,
                self.out,
                settings,
                rejected=rejected,
                workers=self.workers,
                source=source,
                report=lambda progress: watch.advance(progress.items),
            )


@dataclass(frozen=True)
class PrepareCorpus(StageJob):
    """Job of an experiment: create a feature store from recordings in LJSpeech's format."""

    folder: Path = Path("data/LJSpeech-1.1")
    phonemizer: str = "hibari"
    workers: int = 1

    def run(self, console: Console) -> None:
        recordings, rejected = read_folder(self.folder)
        settings = Settings(mel=MelConfig.preset("hifigan"), phonemizer=self.phonemizer)
        with Watch(console, len(recordings), self.out.name) as watch:
            prepare(
                recordings,
                self.out,
                settings,
                rejected=rejected,
                workers=self.workers,
                source=self.folder.resolve().name,
                folder=self.folder,
                report=lambda progress: watch.advance(progress.items),
            )


@dataclass(frozen=True)
class TrainSystem(StageJob):
    """Job of an experiment: start or resume a training run; without a preset, it uses the run's own options."""

    corpora: tuple[Path, ...] = ()
    preset: str | None = None
    changes: tuple[str, ...] = ()
    threads: int | None = None

    def run(self, console: Console) -> None:
        stored = self.preset is None
        config = RunDescription.read(self.out).config if stored else load_preset(self.preset or "")
        use_threads(self.threads)
        train(
            config.changed(self.changes),
            open_corpora(self.corpora),
            self.out,
            fabric=launched_fabric(),
            resume=True,
        )


@dataclass(frozen=True)
class ExportVoice(StageJob):
    """Job of an experiment: export a voice from a run."""

    source: Path = Path()
    licence: str = "unknown"
    consent: str | None = None

    def run(self, console: Console) -> None:
        export(self.source, self.out, licence=self.licence, consent=self.consent)


@dataclass(frozen=True)
class SweepSystems(StageJob):
    """Job of an experiment: evaluate systems over a range of lengths; writes OUT/sweep.json and figures."""

    systems: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    mprs: tuple[str, ...] = ("3:10",)
    cap: float = CAP
    teacher: bool = True
    subset: int | None = None
    seed: int = 0
    recognizers: tuple[str, ...] = ("moonshine",)
    predictors: tuple[str, ...] = ()
    vocoder: str = "auto"
    checkpoint: str = "best"
    whole: bool = False
    keep_audio: bool = False
    lists: Path = LISTS
    workers: int = 1
    threads: int | None = None
    devices: int = 1
    nodes: int = 1

    def run(self, console: Console) -> list[Evaluation]:
        """Run the sweep; returns an empty list on all ranks but the first."""
        use_threads(self.threads)
        with ExitStack() as stack:
            chosen = load_prompts(self.prompts, subset=self.subset, seed=self.seed, folder=self.lists)
            mprs = parse_range(self.mprs)
            added = ["teacher"] if self.teacher and "teacher" not in map(folder_of, self.systems) else []
            opened = open_systems([*self.systems, *added], Length(), self.checkpoint, stack, self.whole)
            chain = ChainSpec(shared_mel(opened), self.vocoder, self.recognizers, self.predictors)
            session = stack.enter_context(
                Session(
                    chain,
                    self.out,
                    console=console,
                    seed=self.seed,
                    workers=self.workers,
                    keep_audio=self.keep_audio,
                    devices=self.devices,
                    nodes=self.nodes,
                )
            )
            found = sweep(opened, chosen, mprs, session, self.cap)
            if session.leads:
                draw_scores(found, self.out / "scores.png")
                draw_sample([one for one in opened if isinstance(one, VoiceSystem)], self.out, self.cap)
                # Written last: its presence means that the sweep is complete.
                write_sweep(
                    self.out / "sweep.json", found, prompts=list(self.prompts), subset=len(chosen), seed=self.seed
                )
            return found


def folder_of(system: str) -> str:
    """The folder of a system named in a job."""
    return split_name(system)[1]


def use_threads(threads: int | None) -> None:
    """Set torch's threads for a job of the experiment."""
    if threads:
        import torch

        torch.set_num_threads(threads)


def as_json(value: Any) -> Any:
    """Convert an option of a job to JSON."""
    if isinstance(value, Path):
        return str(value)
    return [as_json(one) for one in value] if isinstance(value, tuple) else value


def run_in_process(job: StageJob) -> None:
    """Run a job in a separate process, which frees its memory when it ends; its errors are raised here."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as pool:
        try:
            pool.submit(run_on_terminal, job).result()
        except BrokenProcessPool:
            raise ChildProcessError(
                f"the process of {job.out} was killed, perhaps for lack of memory: the same command continues it"
            ) from None


def run_on_terminal(job: StageJob) -> None:
    """Run a job of the experiment with its output on the terminal."""
    job.run(Console(emoji=False, markup=False))
