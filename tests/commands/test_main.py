"""The command line before any sub-command is loaded."""

import subprocess
import sys

from typer.testing import CliRunner

from clock_attention.commands import main as cli
from clock_attention.commands.main import COMMANDS, app


def printed(result):
    """All that was printed, in one line."""
    return " ".join(result.output.split())


def test_the_overview_says_of_each_command_what_it_says_itself():
    for name, command in COMMANDS.items():
        assert " ".join(cli.load(name).help.split("\n\n")[0].split()) == command.help


def test_commands_whose_packages_are_missing_say_what_to_install(monkeypatch):
    monkeypatch.setitem(COMMANDS, "broken", cli.Command("soundfile_that_is_missing", "x", "Broken."))
    result = CliRunner().invoke(app, ["broken"])
    assert result.exit_code == 1
    assert "needs soundfile_that_is_missing, which is not installed: pip install 'clock-attention[speech]'" in printed(
        result
    )


def test_without_the_extra_the_command_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; import clock_attention.cli"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "pip install 'clock-attention[speech]'" in result.stderr
    assert "Traceback" not in result.stderr
