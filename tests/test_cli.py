"""`python -m clock_attention.cli`, which torchrun is given."""

from clock_attention import cli
from clock_attention.commands import main


def test_it_is_the_command_itself():
    assert cli.app is main.app
    assert cli.main is main.main
