"""The command line is an interface: scripts break when an option disappears or changes its name or default.

`command_line.txt` holds every argument and option of every command, one a line. After a deliberate change, write it
again:

    python -m tests.commands.test_command_line
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clock_attention.commands.main import COMMANDS, load

FROZEN = Path(__file__).with_name("command_line.txt")


def described(name: str, command: Any) -> Iterator[str]:
    """Arguments and options of a command or, for a group, of everything in it."""
    for parameter in command.params:
        spellings = ", ".join([*parameter.opts, *parameter.secondary_opts])
        many = " (repeatable)" if parameter.multiple or parameter.nargs == -1 else ""
        default = "required" if parameter.required else f"default {parameter.default}"
        yield f"{name}: {spellings}{many}: {default}"
    for child, subcommand in getattr(command, "commands", {}).items():
        yield from described(f"{name} {child}", subcommand)


def command_line() -> list[str]:
    return [line for name in COMMANDS for line in described(name, load(name))]


def test_no_option_disappears_or_changes() -> None:
    assert command_line() == FROZEN.read_text("utf-8").splitlines(), (
        "the command line has changed: keep old spellings working, then write the file again (see the top of this one)"
    )


if __name__ == "__main__":
    FROZEN.write_text("".join(f"{line}\n" for line in command_line()), "utf-8")
