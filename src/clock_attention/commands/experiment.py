"""`clock-attention experiment`."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from clock_attention.commands.evaluate import Lists, Recognizers, Subset, VocoderName, Workers
from clock_attention.commands.terminal import clear_errors, console
from clock_attention.evaluation.prompts import LISTS

if TYPE_CHECKING:
    from clock_attention.evaluation.experiment.stages import Experiment


def experiment(
    out: Annotated[Path, typer.Option(help="Folder of everything that the experiment makes.")],
    preset: Annotated[
        str, typer.Option(help="small or rivals (CPU, synthetic speech), paper (GPU, LJSpeech).")
    ] = "small",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the plan with estimated times.")] = False,
    prompts: Annotated[
        list[str] | None, typer.Option("--prompts", help="As for evaluate (default: arctic and harvard).")
    ] = None,
    subset: Subset = None,
    seed: Annotated[int, typer.Option(help="Of corpora, trainings, subsets and bootstrap.")] = 0,
    hours: Annotated[float, typer.Option(min=0.001, help="Of each synthetic corpus.")] = 6.0,
    text: Annotated[Path | None, typer.Option(help="Text for the corpora; default: generated sentences.")] = None,
    ljspeech: Annotated[Path | None, typer.Option(help="Folder of LJSpeech-1.1, for the paper preset.")] = None,
    recognizer: Recognizers = None,
    vocoder: VocoderName = "auto",
    systems: Annotated[list[str] | None, typer.Option("--system", help="Only these; repeatable.")] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="key=value for every training.")] = None,
    mpr: Annotated[list[str] | None, typer.Option(help="Lengths of the sweep (default: 3:10).")] = None,
    corpus: Annotated[list[str] | None, typer.Option(help="NAME=FOLDER: a corpus that exists already.")] = None,
    run: Annotated[list[str] | None, typer.Option(help="SYSTEM=FOLDER: a training that exists already.")] = None,
    full: Annotated[bool, typer.Option("--full", help="All prompts at the best length, too.")] = False,
    workers: Workers = 2,
    threads: Annotated[int | None, typer.Option(min=1, help="Of each training (default: all cores).")] = None,
    lists: Lists = LISTS,
) -> None:
    """The paper's experiment from corpora to report. The same command continues an interrupted one."""
    from clock_attention.evaluation.experiment.plan import PRESETS
    from clock_attention.evaluation.experiment.results import report_experiment
    from clock_attention.evaluation.experiment.stages import Experiment, perform, require_listeners

    with clear_errors():
        if preset not in PRESETS:
            raise ValueError(f"--preset {preset}: expected one of {', '.join(PRESETS)}")
        planned = Experiment(
            out,
            PRESETS[preset],
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
        require_listeners(planned)
        perform(
            planned, run_command, say=lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True)
        )
        markdown, page = report_experiment(planned)
        console.print(f"{markdown}\n{page}", highlight=False)


def run_command(arguments: Sequence[str]) -> None:
    """In a process of its own, whose memory is free again when it ends."""
    ended = subprocess.run([sys.executable, "-m", "clock_attention.commands.main", *arguments])
    if ended.returncode:
        raise ChildProcessError(f"`clock-attention {shlex.join(arguments)}` ended with {ended.returncode}")


def named_folders(texts: Sequence[str], option: str) -> dict[str, Path]:
    folders = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        if not equals:
            raise ValueError(f"{option} {text}: expected NAME=FOLDER")
        folders[name] = Path(folder)
    return folders


def show_plan(planned: Experiment) -> None:
    """Stages, what is left of each, and the commands that do them."""
    from clock_attention.evaluation.experiment.stages import changed, read_journal, refuse_other_options
    from clock_attention.evaluation.pipeline.watching import duration

    stages, journal = planned.stages(), read_journal(planned.out)
    refuse_other_options(planned, journal)
    table = Table(title="Plan", title_justify="left")
    table.add_column("stage")
    table.add_column("about", justify="right")
    left = 0.0
    commands = []
    for stage in stages:
        arguments = stage.command()
        done = stage.done() and not changed(stage, arguments, journal)
        commands += [] if done else [f"clock-attention {shlex.join(arguments)}"]
        left += 0.0 if done else stage.seconds
        table.add_row(stage.name, "done" if done else duration(stage.seconds))
    table.add_row("all", duration(left))
    console.print(table)
    for line in commands:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
