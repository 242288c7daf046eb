"""`clock-attention dub`: subtitles to a sound file in which every cue fills its slot."""

from __future__ import annotations

import time
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from clock_attention.commands.terminal import one_line_errors

MOST_SHOWN = 12  # problems shown on the terminal; the report has all


class Overlaps(str, Enum):
    """Choices of `dub --overlaps`: cues that share time are mixed, or end where the next begins."""

    mix = "mix"
    trim = "trim"


def dub(
    subtitles: Annotated[Path, typer.Argument(help=".srt or .vtt file.")],
    out: Annotated[Path, typer.Option("--out", "-o", help=".wav or .flac file.")] = Path("dubbed.wav"),
    fastest: Annotated[
        float, typer.Option(help="Pace above which a cue is reported, with how much to cut; 1 … 4.")
    ] = 1.6,
    slowest: Annotated[float, typer.Option(help="Slowest pace used to fill a slot; 0.3 … 1.")] = 0.8,
    length: Annotated[str | None, typer.Option(help=r"Total length: 90s. \[default: end of the last cue]")] = None,
    overlaps: Annotated[
        Overlaps, typer.Option(help="mix: both cues sound; trim: the earlier one ends where the later begins.")
    ] = Overlaps.mix,
    stems: Annotated[Path | None, typer.Option(help="Also keep a sound file of every cue in this folder.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report on every cue: .json, or .txt.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the timeline: .png, .svg or .pdf.")] = None,
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
    pitch: Annotated[float, typer.Option(help="Semitones higher or lower, -12 … 12.")] = 0.0,
    energy: Annotated[float, typer.Option(help="Decibels louder or softer, -60 … 12.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, max=2**62, help="Random seed for the vocoder.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, max=256, help="Number of processes that speak at the same time.")] = 1,
) -> None:
    """Speak subtitles (.srt, .vtt), each cue in exactly its time slot, and report cues that are too fast.

    The same command continues an interrupted run.
    """
    console = Console(stderr=True, emoji=False)
    began = time.monotonic()
    with one_line_errors(console):
        from clock_attention.files import check_writable
        from clock_attention.speech.dubbing.report import as_text, save_report, save_timeline
        from clock_attention.speech.dubbing.slot import Delivery
        from clock_attention.speech.dubbing.subtitles import read_subtitles
        from clock_attention.speech.dubbing.track import DubOptions
        from clock_attention.speech.dubbing.track import dub as speak_all
        from clock_attention.speech.voice.pacing import parse_duration
        from clock_attention.speech.voice.speech_figure import check_figure_path

        if plot is not None:
            check_figure_path(plot)
        if report is not None:
            if report.suffix.lower() not in (".json", ".txt"):
                raise ValueError(f"{report}: expected a name ending in .json or .txt")
            check_writable(report)
        cues = read_subtitles(subtitles)
        options = DubOptions(
            voice=voice,
            speaker=speaker,
            lexicon=lexicon,
            vocoder=vocoder,
            delivery=Delivery(slowest=slowest, fastest=fastest, pitch=pitch, energy=energy, seed=seed),
            overlaps=overlaps.value,
            length=None if length is None else parse_duration(length),
            stems=stems,
            jobs=jobs,
        )
        columns = (TextColumn("dubbing"), BarColumn(), MofNCompleteColumn(), TextColumn("cues"), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task("dubbing", total=len(cues))
            reports = speak_all(cues, out, options, lambda _: bar.advance(task))
        if report is not None:
            save_report(reports, report, fastest)
        if plot is not None:
            save_timeline(reports, plot, fastest)
        show(console, as_text(reports, fastest).splitlines(), f"{out}: in {time.monotonic() - began:.1f} s")


def show(console: Any, lines: list[str], last: str) -> None:
    """Print the report of `dub`: the first cues that need attention, and the counts."""
    more = len(lines) - 1 - MOST_SHOWN
    shown = [
        *lines[: MOST_SHOWN + 1],
        *([f"… and {more} more: --report report.txt lists all"] if more > 0 else []),
        last,
    ]
    for line in shown:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
