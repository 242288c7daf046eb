"""The `clock-attention` command. Each part of the toolkit brings its own sub-commands, imported when they are used."""

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
    """Where a sub-command is, and its line in the overview, which is shown without importing it."""

    module: str
    name: str
    help: str
    extra: str = "speech"  # what to install for it


COMMANDS = {
    "speak": Command(
        "clock_attention.commands.speak",
        "speak",
        "Say a text at any pace or exact duration, with timestamps and a picture on request.",
    ),
    "app": Command(
        "clock_attention.commands.app",
        "app",
        "Open a web page that speaks: pace, exact duration, timestamps, pictures.",
        "app",
    ),
    "corpus": Command("clock_attention.commands.corpus", "app", "Make, prepare, fetch and look at corpora."),
    "train": Command("clock_attention.commands.train", "train", "Train a speech model on a prepared corpus."),
    "export": Command(
        "clock_attention.commands.train",
        "export",
        "Make a voice of a training run, or an ONNX file of either.",
    ),
    "evaluate": Command(
        "clock_attention.commands.evaluate",
        "evaluate",
        "Speak prompts, recognise the speech, and score what was understood.",
    ),
    "sweep": Command(
        "clock_attention.commands.evaluate",
        "sweep",
        "Evaluate systems over a range of lengths, and draw the counterparts of the paper's figures.",
    ),
    "prompts": Command(
        "clock_attention.commands.evaluate",
        "prompts",
        "Say where the paper's prompts come from, and fetch them with --download.",
    ),
    "experiment": Command(
        "clock_attention.commands.experiment",
        "experiment",
        "The paper's experiment from nothing to a report: corpora, trainings, evaluations. Repeat it to continue it.",
    ),
}


class LazyGroup(TyperGroup):
    """Imports a sub-command when it is called: torch and its like take seconds, which the overview need not wait."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name].help) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name) if name in COMMANDS else command, rest


def load(name: str) -> Any:
    """The sub-command itself; says what to install where it needs something that is missing."""
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
    # Asked to end, a program closes and removes what it has begun, as it does after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        app()
    except SystemExit as end:
        if sys.argv[1:2] == ["speak"] and isinstance(end.code, int):
            # All files are closed; taking torch and ONNX Runtime apart in order takes a third of a second more.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code)
        raise


if __name__ == "__main__":
    main()
