"""The `clock-attention` command. Sub-commands are imported when they are used."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from typing import Annotated, Any, NamedTuple

from clock_attention import __version__

INSTALL = "pip install 'clock-attention[speech]'"

try:
    import typer
    from typer.core import TyperCommand, TyperGroup
except ModuleNotFoundError as error:
    sys.exit(f"clock-attention: the command line needs {error.name}, which is not installed: {INSTALL}")


class Command(NamedTuple):
    """Where a sub-command of `clock-attention` is defined, and its help line, shown without importing it."""

    module: str
    name: str
    help: str
    extra: str = "speech"  # what to install for it


COMMANDS = {
    "speak": Command(
        "clock_attention.commands.speak",
        "speak",
        "Speak a text at any pace or exact duration, with timestamps and a figure on request.",
    ),
    "dub": Command(
        "clock_attention.commands.dub",
        "dub",
        "Speak subtitles (.srt, .vtt), each cue in exactly its time slot, and report cues that are too fast.",
    ),
    "read": Command(
        "clock_attention.commands.read",
        "read",
        "Read a book (.txt, .md, .epub) aloud, one sound file per chapter, with timestamps.",
    ),
    "pronounce": Command(
        "clock_attention.commands.pronounce",
        "pronounce",
        "Show how a text is read: its tokens, their kinds, the words they are read as, and their phonemes.",
    ),
    "app": Command(
        "clock_attention.commands.app",
        "app",
        "Open a web page that speaks: pace, exact duration, timestamps, figures.",
        "app",
    ),
    "serve": Command(
        "clock_attention.commands.serve",
        "serve",
        "Serve speech over HTTP, compatible with OpenAI's API, and over the Wyoming protocol.",
        "serve",
    ),
    "align": Command(
        "clock_attention.commands.align",
        "align",
        "Align a recording with its text: times of every word and phone.",
    ),
    "corpus": Command("clock_attention.commands.corpus", "app", "Make, prepare, download and inspect corpora."),
    "train": Command("clock_attention.commands.train", "train", "Train a speech model on a prepared corpus."),
    "export": Command(
        "clock_attention.commands.train",
        "export",
        "Export a training run as a voice, or a run or voice as an ONNX file or for the runtime without torch.",
    ),
    "voice": Command("clock_attention.commands.voice", "app", "Make a voice from your recordings.", "evaluation"),
    "voices": Command(
        "clock_attention.commands.voice",
        "voices",
        "List the voices of the package, and those in your folders, with origin, licence and measures.",
        "evaluation",
    ),
    "vocoder": Command(
        "clock_attention.commands.vocoder",
        "app",
        "Train a small vocoder on recordings, or distil one from the teacher.",
    ),
    "evaluate": Command(
        "clock_attention.commands.evaluate",
        "evaluate",
        "Speak prompts, recognize the speech, and score the transcripts.",
    ),
    "sweep": Command(
        "clock_attention.commands.evaluate",
        "sweep",
        "Evaluate systems over a range of lengths, and draw the counterparts of the paper's figures.",
    ),
    "prompts": Command(
        "clock_attention.commands.evaluate",
        "prompts",
        "Show the sources of the paper's prompts; download them with --download.",
    ),
    "experiment": Command(
        "clock_attention.commands.experiment",
        "experiment",
        "Run the paper's experiment, from corpora to report. The same command continues an interrupted run.",
    ),
}


class LazyGroup(TyperGroup):
    """The group of all sub-commands; imports one when it is called, because importing torch takes seconds."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name].help) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name) if name in COMMANDS else command, rest


def load(name: str) -> Any:
    """Import a sub-command; says what to install if a dependency is missing."""
    module, attribute, _, extra = COMMANDS[name]
    try:
        found = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("clock_attention"):
            raise
        install = f"pip install 'clock-attention[{extra}]'"
        typer.echo(f"`clock-attention {name}` needs {error.name}, which is not installed: {install}", err=True)
        raise typer.Exit(1) from None
    alone = typer.Typer(pretty_exceptions_show_locals=False, add_completion=False)
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
        command: Any = typer.main.get_command(alone)
        return command.commands[name]
    alone.command(name)(found)
    return typer.main.get_command(alone)


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, pretty_exceptions_show_locals=False)


def print_version(asked: bool) -> None:
    """`clock-attention --version`."""
    if asked:
        typer.echo(f"clock-attention {__version__}")
        raise typer.Exit


@app.callback()
def overview(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=print_version)
    ] = False,
) -> None:
    """Stochastic clock attention: prepare corpora, train, speak and evaluate."""


def main() -> None:
    """Entry point of the `clock-attention` command."""
    # On SIGTERM, close and remove unfinished files, as after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        app()
    except SystemExit as end:
        if sys.argv[1:2] == ["speak"] and isinstance(end.code, int):
            # All files are closed; an orderly shutdown of torch and ONNX Runtime takes another third of a second.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code)
        raise


if __name__ == "__main__":
    main()
