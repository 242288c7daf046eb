"""`clock-attention speak`: text to a sound file, with timestamps, a figure and the mel on request."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from clock_attention.commands.terminal import one_line_errors

PIPE = "-"


class Decoding(str, Enum):
    """Choices of `speak --decoding`."""

    parallel = "parallel"
    autoregressive = "autoregressive"


def speak(
    text: Annotated[str | None, typer.Argument(help="Text to speak; - or omitted: standard input.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read the text from a file (UTF-8).")] = None,
    out: Annotated[str, typer.Option("--out", "-o", help=".wav or .flac file; - writes WAV to standard output.")] = (
        "speech.wav"
    ),
    pace: Annotated[float | None, typer.Option(help="0.5 … 2 times natural speed; 2 is twice as fast.")] = None,
    mpr: Annotated[float | None, typer.Option(help="Mel frames per phoneme; natural speech has about 6.")] = None,
    duration: Annotated[str | None, typer.Option(help="Exact total duration, pauses included: 3.2s or 3200ms.")] = None,
    ssml: Annotated[bool, typer.Option("--ssml", help="The text is an SSML document: <speak>…</speak>.")] = False,
    pitch: Annotated[float, typer.Option(help="Semitones higher or lower, -12 … 12.")] = 0.0,
    energy: Annotated[float, typer.Option(help="Decibels louder or softer, -60 … 12.")] = 0.0,
    timeline: Annotated[
        Path | None, typer.Option(help="Reproduce the word or phone times in a .TextGrid or .json file.")
    ] = None,
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
    decoding: Annotated[Decoding | None, typer.Option(help=r"Decoder of the voice to use. \[default: its own]")] = None,
    steps: Annotated[int | None, typer.Option(help=r"Steps of a flow decoder, 1 … 100. \[default: 4]")] = None,
    guidance: Annotated[
        float | None, typer.Option(help=r"Clock-informed guidance of a flow decoder, 0 … 10. \[default: 0]")
    ] = None,
    vocoder: Annotated[
        str, typer.Option(help="auto, fast, hifigan, hifigan-universal, griffin-lim, or the path to a vocoder.")
    ] = "auto",
    timestamps: Annotated[
        Path | None,
        typer.Option(help="Also write words, phones and visemes: .TextGrid, .json, .srt, .vtt, .lab or .ctm."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw clocks, attention and mel of the first part: .png, .svg or .pdf.")
    ] = None,
    mel: Annotated[Path | None, typer.Option(help="Also write the log-mel frames, (frames, bins): .npy.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**62, help="Random seed for decoder and vocoder.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.")] = None,
) -> None:
    """Speak a text at any pace or exact duration, with timestamps and a figure on request."""
    console = Console(stderr=True, emoji=False)  # standard output may be the sound itself
    began = time.monotonic()
    with one_line_errors(console):
        # Importing torch takes seconds: errors that do not need it are reported first.
        words = wanted_text(text, file)

        with quick_loading():
            import torch

            from clock_attention.speech.voice.request import Request
            from clock_attention.speech.voice.speech_files import Outputs
            from clock_attention.speech.voice.voice import Voice

        outputs = Outputs(sys.stdout.buffer if out == PIPE else Path(out), mel=mel, timestamps=timestamps, plot=plot)
        if threads:
            torch.set_num_threads(threads)
        request = Request.of(
            None if ssml else words,
            ssml=words if ssml else None,
            pace=pace,
            mpr=mpr,
            duration=duration,
            pitch=pitch,
            energy=energy,
            timeline=timeline,
            seed=seed,
            pause=pause,
        )
        loaded = Voice.load(voice)
        if speaker is not None:
            loaded = loaded.with_speaker(speaker)
        if lexicon is not None:
            loaded = loaded.with_lexicon(lexicon)
        if decoding is not None:
            loaded = loaded.with_decoding(decoding.value)
        if steps is not None or guidance is not None:
            loaded = loaded.with_sampling(steps, guidance)
        with ThreadPoolExecutor(1) as background:
            # The vocoder's weights load while the phonemizer loads its lexicons: saves a third of a second.
            loading = background.submit(loaded.vocoder, vocoder)
            loaded.phonemizer("one")
            ready = loading.result()
        with outputs, progress(console, len(request.sentences)) as advance:
            for piece in loaded.perform(request, ready):
                outputs.write(piece)
                advance()
        phonemes = f"{outputs.phonemes} phoneme{'s' * (outputs.phonemes != 1)}"
        console.print(
            f"{out}: {outputs.seconds:.2f} s of speech, {outputs.frames} frames, {phonemes}, "
            f"in {time.monotonic() - began:.1f} s",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def wanted_text(text: str | None, file: Path | None) -> str:
    """The text of `speak`, from the command line, a file, or standard input."""
    if file is not None and text is not None:
        raise ValueError("got a text and --file: choose one")
    if text is not None and text != PIPE:
        return text
    if file is not None and str(file) != PIPE:
        try:
            return decoded(file.read_bytes(), str(file))
        except OSError as error:
            raise ValueError(f"{file}: cannot be read ({error.strerror})") from None
    if text is None and file is None and sys.stdin.isatty():
        raise ValueError('nothing to say: give a text in quotes, --file FILE, or "-" for standard input')
    return decoded(sys.stdin.buffer.read(), "standard input")


def decoded(content: bytes, name: str) -> str:
    """Decode bytes of a file or of standard input as UTF-8 text for `speak`; errors name the source."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None


@contextmanager
def quick_loading() -> Iterator[None]:
    """Turn off garbage collection during the imports of `speak`, which saves a second, half of it at exit."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def progress(console: Console, sentences: int) -> Iterator[Any]:
    """Progress bar of `speak` over sentences, for texts that have several; call what it yields after each."""
    columns = (
        TextColumn("speaking"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("sentences"),
        TimeRemainingColumn(),
    )
    shown = sentences > 1 and console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not shown) as bar:
        task = bar.add_task("speaking", total=sentences)
        yield lambda: bar.advance(task)
