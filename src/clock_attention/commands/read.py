"""`clock-attention read`: a book to sound files, one for each chapter."""

from __future__ import annotations

import time
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from clock_attention.commands.terminal import one_line_errors


class SoundFormat(str, Enum):
    """Sound formats of the chapters that `read` writes."""

    wav = "wav"
    flac = "flac"


class Timestamps(str, Enum):
    """Timestamp formats of the chapters that `read` writes."""

    json = "json"
    textgrid = "TextGrid"
    srt = "srt"
    vtt = "vtt"


def read(
    book: Annotated[Path, typer.Argument(help=".txt, .md or .epub file.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the chapters.")] = Path("book"),
    chapters: Annotated[bool, typer.Option("--list", help="Only list the chapters.")] = False,
    sound: Annotated[SoundFormat, typer.Option("--format", help="Format of the sound files.")] = SoundFormat.flac,
    timestamps: Annotated[
        Timestamps, typer.Option(help="Format of the timestamp file next to each chapter.")
    ] = Timestamps.json,
    pace: Annotated[float | None, typer.Option(help="0.5 … 2 times natural speed; 2 is twice as fast.")] = None,
    pitch: Annotated[float, typer.Option(help="Semitones higher or lower, -12 … 12.")] = 0.0,
    energy: Annotated[float, typer.Option(help="Decibels louder or softer, -60 … 12.")] = 0.0,
    pause: Annotated[
        float, typer.Option(help="Seconds between sentences at natural pace; 2.5 times as long between paragraphs.")
    ] = 0.45,
    voice: Annotated[str, typer.Option(help="Voice name or folder; see `clock-attention voices`.")] = "default",
    speaker: Annotated[
        str | None, typer.Option(help=r"Speaker, in a voice with several. \[default: the first]")
    ] = None,
    lexicon: Annotated[
        Path | None, typer.Option(help='Words and their pronunciations, .toml: Siobhan = "/ʃɪˈvɔːn/".')
    ] = None,
    vocoder: Annotated[
        str, typer.Option(help="auto, hifigan, hifigan-universal, fast, griffin-lim, or the path to a vocoder.")
    ] = "auto",
    seed: Annotated[int, typer.Option(min=0, max=2**62, help="Random seed for the vocoder.")] = 0,
) -> None:
    """Read a book (.txt, .md, .epub) aloud, one sound file per chapter, with timestamps.

    The same command continues an interrupted run.
    """
    console = Console(stderr=True, emoji=False)
    began = time.monotonic()
    with one_line_errors(console):
        from clock_attention.speech.text.books import read_book

        found = read_book(book)
        if chapters:
            for number, chapter in enumerate(found, start=1):
                print(f"{number:3d}  {len(chapter.text.split()):6d} words  {chapter.title}")
            return

        from clock_attention.speech.voice.audiobook import speak_book
        from clock_attention.speech.voice.voice import Voice

        loaded = Voice.load(voice)
        if speaker is not None:
            loaded = loaded.with_speaker(speaker)
        if lexicon is not None:
            loaded = loaded.with_lexicon(lexicon)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task("reading", total=None)

            def advance(number: int, done: int, sentences: int) -> None:
                bar.update(task, description=f"chapter {number} of {len(found)}", completed=done, total=sentences)

            spoken = speak_book(
                loaded,
                found,
                out,
                vocoder=vocoder,
                form=f".{sound.value}",
                timestamps=f".{timestamps.value}",
                progress=advance,
                pace=pace,
                pitch=pitch,
                energy=energy,
                pause=pause,
                seed=seed,
            )
        seconds = sum(chapter.seconds for chapter in spoken)
        console.print(
            f"{out}: {len(spoken)} chapters, {seconds / 60:.1f} minutes, in {time.monotonic() - began:.1f} s",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
