"""`clock-attention evaluate`, `clock-attention sweep` and `clock-attention prompts`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from clock_attention.commands.terminal import clear_errors, console
from clock_attention.evaluation.prompts import LISTS, PUBLISHED, fetch_prompts, load_prompts

if TYPE_CHECKING:
    from clock_attention.evaluation.pipeline.evaluate import Evaluation
    from clock_attention.evaluation.pipeline.session import Session
    from clock_attention.evaluation.systems.systems import System

Prompts = Annotated[
    list[str],
    typer.Option("--prompts", help="Text file, arctic, harvard, hard, valid:CORPUS or test:CORPUS; repeatable."),
]
Subset = Annotated[int | None, typer.Option(min=1, help="Number of prompts, stratified by list and length.")]
Seed = Annotated[int, typer.Option(help="Random seed for subset and bootstrap.")]
Recognizers = Annotated[
    list[str] | None,
    typer.Option("--recognizer", help="moonshine (default), whisper:MODEL, wav2vec2:MODEL, pocketsphinx; repeatable."),
]
VocoderName = Annotated[str, typer.Option(help="auto, fast, hifigan, hifigan-universal, griffin-lim, or a checkpoint.")]
Workers = Annotated[int, typer.Option(min=1, help="Number of processes that vocode and recognize.")]
Threads = Annotated[int | None, typer.Option(min=1, help=r"CPU threads per process. \[default: all cores]")]
Out = Annotated[Path, typer.Option(help="Folder for the results and their cache.")]
KeepAudio = Annotated[bool, typer.Option("--keep-audio", help="Keep the audio, as FLAC, in OUT/audio.")]
Predictors = Annotated[list[str] | None, typer.Option("--mos", help="Predict opinion scores: dnsmos, distillmos.")]
SoundOption = Annotated[
    bool, typer.Option("--sound", help="Measure mel movement and pitch, and the distance to --compare.")
]
WholeOption = Annotated[bool, typer.Option("--whole", help="Speak long sentences in one piece instead of in phrases.")]
Checkpoint = Annotated[str, typer.Option(help="Checkpoint of a training run: best, last, or a file.")]
Devices = Annotated[int, typer.Option(min=1, help="Ranks on each node; each takes its share of the prompts.")]
Nodes = Annotated[int, typer.Option(min=1, help="Number of machines.")]
Lists = Annotated[Path, typer.Option(help="Folder of the downloaded lists.")]


def evaluate(
    system: Annotated[
        str, typer.Argument(help="Voice, training run, copy:CORPUS, teacher, teacher-paced or teacher-audio.")
    ],
    prompts: Prompts,
    subset: Subset = None,
    seed: Seed = 0,
    mpr: Annotated[float | None, typer.Option(help=r"Mel frames per phoneme. \[default: the natural length]")] = None,
    pace: Annotated[float | None, typer.Option(help="Speed relative to natural, instead of a length.")] = None,
    recognizer: Recognizers = None,
    vocoder: VocoderName = "auto",
    out: Out = Path("runs/evaluation"),
    compare: Annotated[str | None, typer.Option(help="Another system; the paired difference is reported.")] = None,
    workers: Workers = 1,
    threads: Threads = None,
    keep_audio: KeepAudio = False,
    mos: Predictors = None,
    sound: SoundOption = False,
    checkpoint: Checkpoint = "best",
    whole: WholeOption = False,
    lists: Lists = LISTS,
    devices: Devices = 1,
    nodes: Nodes = 1,
) -> None:
    """Speak prompts, recognize the speech, and score the transcripts."""
    from clock_attention.evaluation.pipeline.sound_measures import with_sound
    from clock_attention.evaluation.systems.opening import open_systems
    from clock_attention.evaluation.systems.systems import Length

    with clear_errors(), ExitStack() as stack:
        use_threads(threads)
        chosen = load_prompts(prompts, subset=subset, seed=seed, folder=lists)
        length = Length(mpr, pace)
        systems = open_systems([system, *([compare] if compare else [])], length, checkpoint, stack, whole)
        keep_audio = keep_audio or sound  # which needs it
        options: dict[str, Any] = {"workers": workers, "keep_audio": keep_audio, "devices": devices, "nodes": nodes}
        session = stack.enter_context(open_session(systems, out, vocoder, recognizer, mos, seed=seed, **options))
        found = [one for each in systems if (one := session.evaluate(each, chosen))]
        if session.leads:
            if sound and session.audio is not None:
                found = with_sound(found, session.audio, systems[0].mel)
            for one in found:
                one.write(out / file_name(one))
            show(found)
            console.print(f"{len(chosen)} prompts; sentence by sentence in {out}/*.json", highlight=False)


def sweep(
    systems: Annotated[list[str], typer.Argument(help="Voices, runs or copy:CORPUS; NAME=FOLDER gives one a name.")],
    prompts: Prompts,
    mpr: Annotated[
        list[str] | None, typer.Option(help="Mel frames per phoneme: 6, 3:10 (default), 3:10:0.5 or natural.")
    ] = None,
    cap: Annotated[
        float,
        typer.Option(
            min=1, max=50, help="Length at which autoregressive models without a stop signal are cut off, in MPR."
        ),
    ] = 7.0,
    teacher: Annotated[
        bool, typer.Option(help="Also evaluate the teacher's speech, time-stretched to the same lengths.")
    ] = True,
    subset: Subset = None,
    seed: Seed = 0,
    recognizer: Recognizers = None,
    vocoder: VocoderName = "auto",
    out: Out = Path("runs/sweep"),
    workers: Workers = 1,
    threads: Threads = None,
    keep_audio: KeepAudio = False,
    mos: Predictors = None,
    checkpoint: Checkpoint = "best",
    whole: WholeOption = False,
    lists: Lists = LISTS,
    devices: Devices = 1,
    nodes: Nodes = 1,
) -> None:
    """Evaluate systems over a range of lengths, and draw the counterparts of the paper's figures."""
    from clock_attention.evaluation.experiment.jobs import SweepSystems

    with clear_errors():
        found = SweepSystems(
            out,
            systems=tuple(systems),
            prompts=tuple(prompts),
            mprs=tuple(mpr or ["3:10"]),
            cap=cap,
            teacher=teacher,
            subset=subset,
            seed=seed,
            recognizers=tuple(recognizer or ["moonshine"]),
            predictors=tuple(mos or []),
            vocoder=vocoder,
            checkpoint=checkpoint,
            whole=whole,
            keep_audio=keep_audio,
            lists=lists,
            workers=workers,
            threads=threads,
            devices=devices,
            nodes=nodes,
        ).run(console)
        if found:
            show(found, differences=False)
            console.print(f"{len(found[0].results)} prompts; {out}/sweep.json, {out}/*.png", highlight=False)


def use_threads(threads: int | None) -> None:
    """Set the number of torch's threads to the --threads of `evaluate`."""
    if threads:
        import torch

        torch.set_num_threads(threads)


def prompts(
    download: Annotated[bool, typer.Option("--download", help="Download both lists.")] = False,
    out: Annotated[Path, typer.Option(help="Folder to keep the lists in.")] = LISTS,
) -> None:
    """Show the sources of the paper's prompts; download them with --download."""
    with clear_errors():
        for name, source in PUBLISHED.items():
            console.print(
                f"{name}: {source.size} sentences, {source.url} ({source.licence})", highlight=False, soft_wrap=True
            )
            path = fetch_prompts(name, out) if download else out / f"{name}.txt"
            state = str(path) if path.exists() else f"not in {out}: add --download, or put it at {path} yourself"
            console.print(f"  {state}", highlight=False, soft_wrap=True)


def open_session(
    systems: Sequence[System],
    out: Path,
    vocoder: str,
    recognizers: Sequence[str] | None,
    predictors: Sequence[str] | None,
    **options: Any,
) -> Session:
    """Open the session of `evaluate` and `sweep` with the vocoder and recognizers that the options name."""
    from clock_attention.evaluation.pipeline.chain import ChainSpec
    from clock_attention.evaluation.pipeline.session import Session, shared_mel

    chain = ChainSpec(shared_mel(systems), vocoder, tuple(recognizers or ["moonshine"]), tuple(predictors or []))
    return Session(chain, out, console=console, **options)


def show(evaluations: Sequence[Evaluation], differences: bool = True) -> None:
    """Print the tables of `evaluate`: error rates, alignment, differences."""
    from clock_attention.evaluation.report.tables import alignment_table, difference_table, score_table, sound_table

    # Files and pipes are at least as wide as a table needs.
    wide = console if console.is_terminal else Console(file=console.file, width=200, emoji=False, markup=False)
    for title, (header, *rows) in (
        ("Recognition", score_table(evaluations)),
        ("Alignment", alignment_table(evaluations)),
        ("Sound", sound_table(evaluations, against=False)),
        ("Sound, against the other", sound_table(evaluations, against=True)),
        ("Differences, on the same sentences", difference_table(evaluations, None if differences else [])),
    ):
        if rows:
            table = Table(title=title, title_justify="left")
            for place, column in enumerate(header):
                table.add_column(column, justify="left" if place == 0 else "right")
            for cells in rows:
                table.add_row(*cells)
            wide.print(table)


def file_name(evaluation: Evaluation) -> str:
    """Name of the result file of `evaluate`: by system, length, list, state of training, vocoder and recognizer."""
    from clock_attention.evaluation.digest import digest

    prompts = [(result.id, result.text) for result in evaluation.results]
    made = digest(evaluation.fingerprint, evaluation.vocoder, evaluation.recognizers, prompts)
    lists = "+".join(sorted({result.group.split("/")[0] for result in evaluation.results}))
    title = f"{evaluation.title}-{lists}-{len(evaluation.results)}-{made[:6]}"
    plain = "".join(letter if letter.isalnum() or letter in ".-+_" else "-" for letter in title)
    return "-".join(part for part in plain.split("-") if part) + ".json"
