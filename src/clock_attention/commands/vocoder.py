"""`clock-attention vocoder …`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clock_attention.commands.terminal import clear_errors, console

app = typer.Typer(no_args_is_help=True, help="Train a small vocoder on recordings.")


@app.callback()
def vocoder() -> None:
    """Train a small vocoder on recordings."""


@app.command()
def train(
    recordings: Annotated[list[Path], typer.Argument(help="Folders of .wav and .flac files.")],
    out: Annotated[Path, typer.Option(help="Folder of the vocoder: `--vocoder` of other commands takes it.")],
    steps: Annotated[int, typer.Option(min=1, help="Steps of the whole training.")] = 20000,
    likelihood_steps: Annotated[
        int, typer.Option(min=0, help="Of these, the first ones by likelihood alone, without discriminators.")
    ] = 1000,
    batch: Annotated[int, typer.Option(min=1, help="Crops per step.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Of weights, crops and noise.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the training in --out.")] = False,
    max_minutes: Annotated[float | None, typer.Option(min=0, help="Stop this session after so many minutes.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.")] = None,
) -> None:
    """Train a harmonic vocoder for HiFi-GAN's mel definition; the folder can be used at any time while it trains."""
    import torch

    from clock_attention.speech.vocoder.harmonic import HarmonicConfig
    from clock_attention.speech.vocoder.training import VocoderTraining, train_vocoder
    from clock_attention.speech.vocoder.training import recordings as files_in

    def report(step: int, measured: dict[str, float]) -> None:
        if step % 50 == 0 or step == 1:
            console.print(f"step {step}: " + ", ".join(f"{name} {value:.3f}" for name, value in measured.items()))

    with clear_errors():
        if threads:
            torch.set_num_threads(threads)
        options = VocoderTraining(steps=steps, likelihood_steps=likelihood_steps, batch=batch, seed=seed)
        files = files_in(recordings)
        console.print(f"{len(files)} recordings; tracking their pitch")
        made = train_vocoder(
            files, out, options, HarmonicConfig(), resume=resume, max_minutes=max_minutes, report=report
        )
        console.print(f"{made}\nuse it: clock-attention speak TEXT --vocoder {made}", highlight=False)
