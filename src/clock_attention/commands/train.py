"""`clock-attention train` and `clock-attention export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clock_attention.commands.terminal import as_argument, complain, console, option
from clock_attention.speech.corpus.joined_stores import open_corpora
from clock_attention.speech.model.config import AlignedConfig
from clock_attention.speech.training.config import RunConfig, load_preset
from clock_attention.speech.training.run import RunDescription
from clock_attention.speech.training.transfer import Start

if TYPE_CHECKING:
    from clock_attention.speech.voice.voice import Voice


def train(
    corpus: Annotated[
        list[Path],
        typer.Option(help="Feature store, from `clock-attention corpus …`; repeatable."),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the run.")],
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="VOICE|RUN", help="Start from the weights of a voice or run (fine-tuning)."),
    ] = None,
    start_speaker: Annotated[
        str | None,
        typer.Option(
            "--from-speaker", metavar="NAME", help=r"Which of several speakers to start from. \[default: their mean]"
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(help=r"small, finetune, small-l1, paper, or a TOML file. \[default: small; with --from finetune]"),
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="key=value, for example decoding=autoregressive; repeatable.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out, bit for bit.")] = False,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Stop this session after this many steps.")] = None,
    max_minutes: Annotated[float | None, typer.Option(min=0, help="Stop this session after this many minutes.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help=r"CPU threads per process. \[default: all cores]")] = None,
    accelerator: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    devices: Annotated[int, typer.Option(min=1, help="Processes or GPUs on each node.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Number of machines.")] = 1,
    precision: Annotated[str | None, typer.Option(help=r"32-true, bf16-mixed, 16-mixed. \[default: by device]")] = None,
) -> None:
    """Train a speech model on a prepared corpus."""
    import torch

    from clock_attention.speech.training.devices import launched_fabric
    from clock_attention.speech.training.loop import NonFiniteLossError
    from clock_attention.speech.training.loop import train as run_training
    from clock_attention.speech.voice.from_run import start_from

    try:
        with option("--from"):
            if start is None and start_speaker is not None:
                raise ValueError("--from-speaker needs a voice or run to start from")
            first = None if start is None else start_from(start, speaker=start_speaker)
        config = chosen_config(preset, changes or [], out, resume, first)
        store = open_corpora(corpus)
        if threads:
            torch.set_num_threads(threads)
        fabric = launched_fabric(accelerator, devices, nodes, precision)
        if resume and fabric.is_global_zero:
            say_what_changed(out, config)
        last = run_training(
            config,
            store,
            out,
            start=first,
            fabric=fabric,
            resume=resume,
            max_steps=max_steps,
            max_minutes=max_minutes,
        )
        if fabric.is_global_zero:
            console.print(f"{last}\nmake a voice from it: {export_command(out)}", highlight=False, soft_wrap=True)
    except (ValueError, OSError, NonFiniteLossError) as error:
        complain(error)
        raise typer.Exit(1) from None


def chosen_config(
    preset: str | None, changes: list[str], out: Path, resume: bool, start: Start | None = None
) -> RunConfig:
    """Configuration of `train`: the preset with --set changes, or the stored one of a resumed run with changes.

    A run that starts from a voice has the voice's model.
    """
    if resume and preset is None and (out / "run.json").exists():
        config = RunDescription.read(out).config
    else:
        usual = "small" if start is None else "finetune" if isinstance(start.model, AlignedConfig) else "small-l1"
        with option("--preset"):
            config = load_preset(preset or usual)
        if start is not None and type(start.model) is type(config.model):
            config = config.model_copy(update={"model": start.model})
    with option("--set"):
        return config.changed(changes)


def say_what_changed(out: Path, config: RunConfig) -> None:
    """Print the training options that `train` changes in a resumed run; a --preset given again replaces them all."""
    if not (out / "run.json").exists():
        return
    before, now = (one.training.model_dump() for one in (RunDescription.read(out).config, config))
    changed = [f"{key} {value} → {now[key]}" for key, value in before.items() if now[key] != value]
    if changed:
        console.print(f"the run continues with other options: {', '.join(changed)}", highlight=False)


def export(
    source: Annotated[
        str, typer.Argument(metavar="RUN", help="Folder of a training run; or of a voice, with --onnx or --runtime.")
    ],
    target: Annotated[Path, typer.Argument(metavar="VOICE", help="Folder to write; with --onnx a file.")],
    licence: Annotated[str, typer.Option(help="Licence of the voice and its data, for its users.")] = "unknown",
    checkpoint: Annotated[str, typer.Option(help="best, last, or a checkpoint file.")] = "best",
    half: Annotated[bool, typer.Option("--half", help="Store a voice's weights in half precision.")] = False,
    lexicon: Annotated[
        Path | None, typer.Option(help='Pronunciations to store in the voice, .toml: Siobhan = "/ʃɪˈvɔːn/".')
    ] = None,
    consent: Annotated[
        str | None, typer.Option(help="For the card of a real person's voice: who speaks, and that they agree.")
    ] = None,
    onnx: Annotated[
        bool, typer.Option("--onnx", help="Write the acoustic model as an .onnx file for use without torch.")
    ] = False,
    runtime: Annotated[
        bool,
        typer.Option("--runtime", help="Write voice and vocoder as a folder for clock_attention.runtime."),
    ] = False,
    vocoder: Annotated[str, typer.Option(help="With --runtime: as in `clock-attention speak`.")] = "auto",
    speaker: Annotated[
        str | None, typer.Option(help=r"Export only this one of several speakers. \[default: all]")
    ] = None,
) -> None:
    """Export a training run as a voice, or a run or voice as an ONNX file or for the runtime without torch.

    A voice is one folder with the weights and all they need, free of executable content. An ONNX file contains only the
    acoustic model (parallel decoding): phoneme ids in, mel frames and attention out.
    """
    from clock_attention.speech.voice.from_run import export as write_voice
    from clock_attention.speech.voice.from_run import opened_voice

    try:
        if onnx and runtime:
            raise ValueError("--onnx and --runtime were given together: choose one")
        if runtime and lexicon is not None:
            raise ValueError("--lexicon belongs to a voice: export that first, then the voice with --runtime")
        if onnx and lexicon is not None:
            raise ValueError("--lexicon belongs to a voice; an ONNX file holds the acoustic model alone")
        as_voice = not (onnx or runtime)
        if as_voice and target.suffix.lower() == ".onnx":
            raise ValueError(f"{target}: a voice is a folder; for an ONNX file add --onnx")
        if as_voice or (Path(source) / "run.json").exists():
            require_consent(Path(source), consent)
        elif consent is not None:
            raise ValueError(
                f"--consent belongs to the export of a run; the voice {source} has its own statement or none"
            )
        if as_voice:
            card = write_voice(
                Path(source),
                target,
                licence=licence,
                which=checkpoint,
                half=half,
                lexicon=lexicon,
                consent=consent,
                speaker=speaker,
            )
            names = ", ".join(one.name for one in card.language.speakers)
            message = f"{target}: {card.provenance.steps} steps, validation L1 {card.provenance.valid_l1}"
            message += f", speakers {names}" if names else ""
        else:
            with opened_voice(source, checkpoint, licence=licence, consent=consent) as voice:
                one = one_of(voice, speaker)
                message = write_onnx(one, target) if onnx else write_runtime(one, target, vocoder)
    except (ValueError, OSError, ImportError) as error:
        complain(error)
        raise typer.Exit(1) from None
    console.print(message, highlight=False)


def export_command(run: Path) -> str:
    """The command that exports a finished training run as a voice."""
    consent = ' --consent "…"' if RunDescription.read(run).recordings else ""
    return f"clock-attention export {as_argument(run)} VOICE{consent}"


def require_consent(run: Path, consent: str | None) -> None:
    """For `export`: refuse to make a person's voice without a statement of their consent."""
    if RunDescription.read(run).recordings and not (consent or "").strip():
        raise ValueError(
            f"{run} learned from recordings of people: say whose they are and what they agreed to, for the voice's "
            'card, for example --consent "I recorded myself, and anyone may use this voice"'
        )


def one_of(voice: Voice, speaker: str | None) -> Voice:
    """The voice of one speaker for `export`; the speaker must be named if there are several."""
    if speaker is not None:
        return voice.with_speaker(speaker)
    if voice.speakers:
        raise ValueError(
            f"{voice.path}: has several speakers, and this file one: add --speaker {'|'.join(voice.speakers)}"
        )
    return voice


def write_runtime(voice: Voice, target: Path, vocoder: str) -> str:
    """Export a voice for the runtime without torch (`export --runtime`); returns the message."""
    try:
        from clock_attention.runtime.export import export_runtime
    except ModuleNotFoundError as error:
        raise ImportError(f"--runtime needs {error.name}: pip install 'clock-attention[onnx]'") from None

    export_runtime(voice, target, vocoder=vocoder)
    size = sum(file.stat().st_size for file in target.iterdir()) / 1e6
    return f"{target}: {size:.1f} MB; speak with `python -m clock_attention.runtime {as_argument(target)} TEXT`"


def write_onnx(voice: Voice, target: Path) -> str:
    """Export a voice to .onnx (`export --onnx`); returns the message for the user."""
    try:
        from clock_attention.speech.voice.onnx_export import export_onnx
    except ModuleNotFoundError as error:
        raise ImportError(f"--onnx needs {error.name}: pip install 'clock-attention[onnx]'") from None

    export_onnx(voice, target)
    return f"{target}: {target.stat().st_size / 1e6:.1f} MB, {len(voice.language.symbols)} phonemes"
