"""`clock-attention voice …` and `clock-attention voices`: make voices from recordings, and list all voices."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from clock_attention.commands.terminal import as_argument, clear_errors, console, say
from clock_attention.own_voice.create import STAGES
from clock_attention.own_voice.create import create as run_creation
from clock_attention.own_voice.order import Order
from clock_attention.own_voice.report import REPORT, left_out, measures_table, minutes_used
from clock_attention.speech.training.progress import readable_duration
from clock_attention.speech.voice.voice_folder import CARD, WEIGHTS, VoiceCard, VoiceError, read_card, shipped_voices

app = typer.Typer(help="Make a voice from your recordings.", no_args_is_help=True)

DOING = {
    "gather": "reading recordings",
    "check": "checking the speaker",
    "prepare": "preparing",
    "align": "aligning",
    "plan": "timing",
    "train": "training",
    "export": "exporting",
    "evaluate": "speaking test sentences",
}


@app.callback()
def group() -> None:
    """Make a voice from your recordings."""


@app.command()
def create(
    recordings: Annotated[
        Path, typer.Argument(help="Folder of sound files with a .txt file each, or in LJSpeech format.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the voice to write.")],
    consent: Annotated[
        str, typer.Option(help='For the card: who speaks, and that they agree ("I recorded myself …"). Required.')
    ] = "",
    licence: Annotated[str, typer.Option(help="What others may do with the voice.")] = Order.licence,
    minutes: Annotated[
        float,
        typer.Option(
            min=0.1,
            help="Minutes of training; it ends earlier when more does not help. Everything else takes a few minutes.",
        ),
    ] = 30.0,
    base: Annotated[str, typer.Option("--from", help="Voice to start from: a name or folder.")] = "default",
    recognizer: Annotated[
        str, typer.Option(help="Transcribes recordings without text and scores the voice: moonshine or whisper:MODEL.")
    ] = "moonshine",
    aligner: Annotated[
        Path | None, typer.Option(help=r"Folder of an aligner's model. \[default: the one in the package]")
    ] = None,
    prompts: Annotated[Path | None, typer.Option(help="Test sentences, one per line.")] = None,
    sentences: Annotated[int, typer.Option(min=1, help="Number of test sentences.")] = 24,
    steps: Annotated[int | None, typer.Option(min=1, help="Train this many steps instead of a given time.")] = None,
    blend: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Share of the new weights: a lower one is clearer, a higher one is closer to the speaker.",
        ),
    ] = 1.0,
    one_speaker: Annotated[
        bool,
        typer.Option("--one-speaker", help="It is one person: only warn where recordings sound like several."),
    ] = False,
    seed: Annotated[int, typer.Option(help="Random seed of the training.")] = 0,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help=r"CPU threads and processes. \[default: all cores; one trains if that is faster]"),
    ] = None,
) -> None:
    """Make a voice from a folder of recordings: check, align, fine-tune, export, evaluate, report.

    The same command continues an interrupted creation. Only make voices of people who have agreed to it.
    """
    cores = threads or os.cpu_count() or 1
    with clear_errors():
        order = Order(
            recordings,
            out,
            consent,
            licence=licence,
            minutes=minutes,
            base=base,
            recognizer=recognizer,
            aligner=aligner,
            prompts=prompts,
            count=sentences,
            steps=steps,
            blend=blend,
            one_speaker=one_speaker,
            seed=seed,
            workers=cores,
            threads=threads,
        )
        started = time.monotonic()
        with StageLines() as lines:
            found = run_creation(order, lines.report, warn=lines.warn)
        table = Table()
        header, *rows = measures_table(found["evaluate"])
        for column in header:
            table.add_column(column)
        for row in rows:
            table.add_row(*row)
        console.print(table)
        for stage, reason, clips, seconds in left_out(found):
            console.print(f"left out when {stage}: {reason}: {clips} ({seconds} s)", highlight=False)
        console.print(
            f"{minutes_used(found):.1f} of {found['gather']['seconds_found'] / 60:.1f} minutes of recordings used. "
            f"Made in {readable_duration(time.monotonic() - started)}. Samples and details: {out / REPORT}\n"
            f'clock-attention speak "Hello." --voice {as_argument(out)}',
            highlight=False,
            soft_wrap=True,
        )


class StageLines:
    """Progress of `voice create`: a line per stage, on a terminal a bar with the time left; training shows its own."""

    def __init__(self) -> None:
        self.stage = ""
        self.bar: Progress | None = None

    def __enter__(self) -> StageLines:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_bar()

    def report(self, stage: str, done: int, of: int) -> None:
        if stage != self.stage:
            self.end_bar()
            self.stage = stage
            self.bar = stage_bar(stage)
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=done, total=of or None)

    def warn(self, warning: str) -> None:
        self.end_bar()  # which would overwrite the warning
        say(f"note: {warning}")

    def end_bar(self) -> None:
        if self.bar is not None:
            if self.bar.tasks[0].total is None:  # of a stage that does not count
                self.bar.update(self.bar.task_ids[0], completed=1, total=1)
            self.bar.stop()
            self.bar = None


def stage_bar(name: str) -> Progress | None:
    """Progress bar of a stage of `voice create`. None if only its name is shown."""
    title = f"{STAGES.index(name) + 1} of {len(STAGES)}: {DOING[name]}"
    if name == "train" or not console.is_terminal:  # there is room for one bar, and training has its own
        say(title)
        return None
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console)
    bar.add_task(title, total=None)
    bar.start()
    return bar


def voices(
    folder: Annotated[list[Path] | None, typer.Argument(help="Folders with your own voices.")] = None,
) -> None:
    """List the voices of the package, and those in your folders, with origin, licence and measures."""
    with clear_errors():
        found = dict(shipped_voices())
        for place in folder or []:
            if not place.is_dir():
                raise FileNotFoundError(f"{place}: there is no such folder")
            within = [place] if (place / CARD).is_file() else sorted(path.parent for path in place.glob(f"*/{CARD}"))
            found |= {str(path): path for path in within}
        table = Table()
        for column in ("voice", "language", "speakers", "licence", "WER", "DistillMOS", "MB"):
            table.add_column(column, overflow="fold")
        notes = []
        for name, path in found.items():
            try:
                card = read_card(path)
                row = described(card, path)
            except VoiceError as error:
                notes.append(f"{name} cannot be read: {error}")
                continue
            table.add_row(name, *row)
            notes.append(f"{name}: {origin(card)}")
        console.print(table)
        for note in notes:  # below the table, where long ones leave its columns their width
            console.print(note, highlight=False, markup=False, soft_wrap=True)


def described(card: VoiceCard, path: Path) -> tuple[str, ...]:
    """One voice as a row of the table of `voices`, with licence and measures."""
    measures = card.measures or {}
    if not (path / WEIGHTS).is_file():
        raise VoiceError(f"{path}: {WEIGHTS} is missing; export the voice again")
    size = (path / WEIGHTS).stat().st_size / 1e6
    return (
        "English",  # all phonemizers so far
        ", ".join(speaker.name for speaker in card.language.speakers) or "1",
        card.provenance.licence,
        f"{100 * measures['wer']:.1f} %" if "wer" in measures else "",
        f"{measures['distillmos']:.2f}" if "distillmos" in measures else "",
        f"{size:.1f}",
    )


def origin(card: VoiceCard) -> str:
    """What a voice learned from: each corpus once, and the voice that its training started from."""
    corpora = " + ".join(dict.fromkeys(card.provenance.corpus.split(" + ")))
    return corpora if card.provenance.start is None else f"{corpora}; fine-tuned from {card.provenance.start}"
