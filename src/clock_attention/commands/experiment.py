"""`clock-attention experiment`: the paper's experiment, from corpora to report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from clock_attention.commands.evaluate import Lists, Recognizers, Subset, VocoderName, Workers
from clock_attention.commands.terminal import clear_errors, console
from clock_attention.evaluation.prompts import LISTS

if TYPE_CHECKING:
    from clock_attention.evaluation.experiment.jobs import StageJob
    from clock_attention.evaluation.experiment.journal import Journal
    from clock_attention.evaluation.experiment.stages import Experiment


def experiment(
    out: Annotated[Path, typer.Option(help="Output folder of the experiment.")],
    preset: Annotated[
        str, typer.Option(help="small or rivals (CPU, synthetic speech), paper (GPU, LJSpeech).")
    ] = "small",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the plan, with estimated times.")] = False,
    prompts: Annotated[
        list[str] | None, typer.Option("--prompts", help="Prompts as for evaluate (default: arctic and harvard).")
    ] = None,
    subset: Subset = None,
    seed: Annotated[int, typer.Option(help="Random seed for corpora, training, subsets and bootstrap.")] = 0,
    hours: Annotated[float, typer.Option(min=0.001, help="Hours of speech in each synthetic corpus.")] = 6.0,
    text: Annotated[Path | None, typer.Option(help="Text for the corpora; default: generated sentences.")] = None,
    ljspeech: Annotated[Path | None, typer.Option(help="Folder of LJSpeech-1.1, for the paper preset.")] = None,
    recognizer: Recognizers = None,
    vocoder: VocoderName = "auto",
    systems: Annotated[list[str] | None, typer.Option("--system", help="Only these systems; repeatable.")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="key=value for every training run.")] = None,
    mpr: Annotated[list[str] | None, typer.Option(help="Lengths of the sweep (default: 3:10).")] = None,
    corpus: Annotated[list[str] | None, typer.Option(help="NAME=FOLDER: an existing corpus.")] = None,
    run: Annotated[list[str] | None, typer.Option(help="SYSTEM=FOLDER: an existing training run.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Also evaluate all prompts at the best length.")] = False,
    workers: Workers = 2,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads per training (default: all cores).")] = None,
    lists: Lists = LISTS,
) -> None:
    """Run the paper's experiment, from corpora to report. The same command continues an interrupted run."""
    from clock_attention.evaluation.experiment.journal import perform, require_models
    from clock_attention.evaluation.experiment.plan import PLANS
    from clock_attention.evaluation.experiment.results import report_experiment
    from clock_attention.evaluation.experiment.stages import Experiment

    with clear_errors():
        if preset not in PLANS:
            raise ValueError(f"--preset {preset}: expected one of {', '.join(PLANS)}")
        planned = Experiment(
            out,
            PLANS[preset],
            prompts=tuple(prompts or ["arctic", "harvard"]),
            subset=subset,
            seed=seed,
            hours=hours,
            text=text,
            recognizers=tuple(recognizer or ["moonshine"]),
            vocoder=vocoder,
            workers=workers,
            threads=threads,
            full=full,
            systems=tuple(systems or []),
            changes=tuple(changes or []),
            mprs=tuple(mpr or []),
            corpora=named_folders(corpus or [], "--corpus"),
            runs=named_folders(run or [], "--run"),
            lists=lists,
            ljspeech=ljspeech,
        )
        if dry_run:
            show_plan(planned)
            return
        require_models(planned)
        perform(
            planned,
            say=lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True),
            journal=journal_of(planned),
        )
        markdown, page = report_experiment(planned)
        console.print(f"{markdown}\n{page}", highlight=False)


def named_folders(texts: Sequence[str], option: str) -> dict[str, Path]:
    """Parse NAME=FOLDER options of `experiment` into folders by name."""
    folders = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        if not equals:
            raise ValueError(f"{option} {text}: expected NAME=FOLDER")
        folders[name] = Path(folder)
    return folders


def show_plan(planned: Experiment) -> None:
    """Print the plan of `experiment`: stages, what is left of each, and the equivalent commands."""
    from clock_attention.evaluation.experiment.journal import changed, refuse_other_options
    from clock_attention.speech.training.progress import readable_duration

    stages, journal = planned.stages(), journal_of(planned)
    refuse_other_options(planned, journal)
    table = Table(title="Plan", title_justify="left")
    table.add_column("stage")
    table.add_column("about", justify="right")
    left = 0.0
    commands = []
    for stage in stages:
        job = stage.job()
        done = stage.done() and not changed(stage, job, journal)
        commands += [] if done else [f"clock-attention {shlex.join(as_command(job))}"]
        left += 0.0 if done else stage.seconds
        table.add_row(stage.name, "done" if done else readable_duration(stage.seconds))
    table.add_row("all", readable_duration(left))
    console.print(table)
    for line in commands:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def as_command(job: StageJob) -> list[str]:
    """The `clock-attention` command line equivalent to a job of the experiment."""
    from clock_attention.evaluation.experiment import jobs

    match job:
        case jobs.SynthesizeCorpus():
            spoken = job.speeds if job.speeds != (1.0,) else ()
            parts = ["corpus", "synthesize"]
            parts += ["--shortest", str(job.shortest)] if job.shortest != 15 else []
            parts += ["--longest", str(job.longest)] if job.longest != 120 else []
            parts += [*repeated("--speed", spoken), "--out", str(job.out), "--workers", str(job.workers)]
            parts += ["--hours", f"{job.hours:g}", "--seed", str(job.seed)]
            return parts + (["--text", str(job.text)] if job.text else [])
        case jobs.PrepareCorpus():
            parts = ["corpus", "prepare", str(job.folder), "--phonemizer", job.phonemizer]
            return [*parts, "--out", str(job.out), "--workers", str(job.workers)]
        case jobs.TrainSystem():
            parts = ["train", "--resume", "--out", str(job.out), *repeated("--corpus", job.corpora)]
            parts += ["--threads", str(job.threads)] if job.threads else []
            return parts + (["--preset", job.preset, *repeated("--set", job.changes)] if job.preset else [])
        case jobs.ExportVoice():
            parts = ["export", str(job.source), str(job.out), "--licence", job.licence]
            return parts + (["--consent", job.consent] if job.consent else [])
        case jobs.SweepSystems():
            lengths = repeated("--mpr", job.mprs) if not job.systems[0].startswith("copy:") else []
            parts = ["sweep", *job.systems, *lengths, "--teacher" if job.teacher else "--no-teacher"]
            parts += ["--out", str(job.out), "--seed", str(job.seed), "--vocoder", job.vocoder]
            parts += ["--workers", str(job.workers), "--lists", str(job.lists), *repeated("--prompts", job.prompts)]
            parts += repeated("--recognizer", job.recognizers)
            return parts + (["--subset", str(job.subset)] if job.subset else [])
    raise TypeError(f"no command does {job}")


def repeated(option: str, values: Sequence[object]) -> list[str]:
    """An option of a command line given once for each value."""
    return [part for value in values for part in (option, str(value))]


UNIMPORTANT = ("--workers", "--threads", "--lists")  # options that do not change results; the contents of the lists do


def journal_of(planned: Experiment) -> Journal:
    """The journal of an experiment's folder; one of version 0.2 or earlier holds command lines instead of jobs."""
    from clock_attention.evaluation.experiment.journal import read_journal

    journal = read_journal(planned.out)
    jobs, commands = journal.setdefault("jobs", {}), journal.pop("commands", {})
    for stage in planned.stages():
        if stage.name in commands and stage.name not in jobs:
            before, job = essence(commands[stage.name]), stage.job()
            jobs[stage.name] = job.options() if before == essence(as_command(job)) else {"command": before}
    return journal


def essence(arguments: Sequence[str]) -> list[str]:
    """A command line of an old experiment without the options that only affect how it is run."""
    kept: list[str] = []
    places = iter(arguments)
    for argument in places:
        if argument in UNIMPORTANT:
            next(places, None)
        else:
            kept.append(argument)
    return kept
