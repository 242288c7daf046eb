"""`clock-attention vocoder …`: train and distil the small vocoder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clock_attention.commands.terminal import clear_errors, console

app = typer.Typer(no_args_is_help=True, help="Train a small vocoder on recordings, or distil one from the teacher.")

Seed = Annotated[int, typer.Option(min=0, help="Random seed for weights, crops and noise.")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads.")]


@app.callback()
def vocoder() -> None:
    """Train a small vocoder on recordings, or distil one from the teacher."""


def report(step: int, measured: dict[str, float]) -> None:
    """Print the losses of a step of `vocoder train`."""
    if step % 25 == 0 or step == 1:
        console.print(f"step {step}: " + ", ".join(f"{name} {value:.3f}" for name, value in measured.items()))


def done(made: Path) -> None:
    """Print the folder of the vocoder that was made, and how to use it."""
    console.print(f"{made}\nuse it: clock-attention speak TEXT --vocoder {made}", highlight=False)


@app.command()
def train(
    recordings: Annotated[list[Path], typer.Argument(help="Folders of .wav and .flac files.")],
    out: Annotated[Path, typer.Option(help="Folder of the vocoder, for `--vocoder` of other commands.")],
    start: Annotated[
        Path | None, typer.Option("--from", help="Vocoder to start from; default: the one in the package.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Total number of training steps.")] = 1000,
    batch: Annotated[int, typer.Option(min=1, help="Crops per step.")] = 8,
    seed: Seed = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the training in --out.")] = False,
    max_minutes: Annotated[float | None, typer.Option(min=0, help="Stop this session after this many minutes.")] = None,
    threads: Threads = None,
) -> None:
    """Fine-tune the small vocoder on recordings; the folder can be used at any time during training."""
    import torch

    from clock_attention.speech.vocoder.training import VocoderTraining, train_vocoder
    from clock_attention.speech.vocoder.training import recordings as files_in
    from clock_attention.speech.vocoder.vocoder import FAST

    with clear_errors():
        if threads:
            torch.set_num_threads(threads)
        options = VocoderTraining(steps=steps, batch=batch, seed=seed)
        files = files_in(recordings)
        console.print(f"{len(files)} recordings; tracking their pitch")
        done(train_vocoder(files, out, options, start or FAST, resume=resume, max_minutes=max_minutes, report=report))


@app.command()
def distil(
    texts: Annotated[Path, typer.Argument(help="Text file, one sentence per line, for the synthetic teacher to read.")],
    out: Annotated[Path, typer.Option(help="Folder of the vocoder.")],
    steps: Annotated[int, typer.Option(min=1, help="Total number of training steps.")] = 1200,
    seed: Seed = 0,
    threads: Threads = None,
) -> None:
    """Distil the small vocoder from hibari's decoder (needs the `onnx` extra); continue with `vocoder train --from`."""
    import torch

    from clock_attention.files import make_folder
    from clock_attention.speech.vocoder.distillation import Distillation, distil
    from clock_attention.speech.vocoder.harmonic import HarmonicConfig
    from clock_attention.speech.vocoder.training import write_vocoder

    with clear_errors():
        if threads:
            torch.set_num_threads(threads)
        lines = [line.strip() for line in texts.read_text("utf-8").splitlines() if line.strip()]
        make_folder(out)
        console.print(f"{len(lines)} texts; the teacher reads them")
        write_vocoder(distil(lines, Distillation(steps=steps, seed=seed), HarmonicConfig(), report), out)
        done(out)
