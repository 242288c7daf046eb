"""Console output and error reporting of the commands."""

import logging
import warnings
from pathlib import Path

import pytest
import typer
from rich.console import Console

from clock_attention.commands import terminal
from clock_attention.commands.terminal import as_argument, clear_errors, complain, one_line_errors, option


@pytest.fixture
def complaints(monkeypatch):
    """What goes to standard error."""
    console = Console(record=True, width=40, emoji=False, markup=False)
    monkeypatch.setattr(terminal, "complaints", console)
    return console


def test_errors_are_one_unwrapped_sentence_as_it_was_written(complaints):
    complain(ValueError("[/b] :x: " + "word " * 20))
    assert complaints.export_text() == "error: [/b] :x: " + "word " * 20 + "\n"


@pytest.mark.parametrize("error", [ValueError("wrong"), FileNotFoundError("gone"), ImportError("missing")])
def test_mistakes_end_with_status_1(error, complaints):
    with pytest.raises(typer.Exit) as end, clear_errors():
        raise error
    assert end.value.exit_code == 1
    assert str(error) in complaints.export_text()


def test_interruption_says_how_to_go_on(complaints):
    with pytest.raises(typer.Exit) as end, clear_errors():
        raise KeyboardInterrupt
    assert end.value.exit_code == 130
    assert "the same command continues" in complaints.export_text()


def test_a_path_can_be_copied_from_a_command_that_is_printed():
    assert as_argument(Path("voices/me")) == "voices/me"
    assert as_argument(Path("my voices/me")) == '"my voices/me"'


def test_faults_of_the_program_keep_their_traceback():
    with pytest.raises(ZeroDivisionError), clear_errors():
        _ = 1 / 0


def test_an_error_names_the_option_that_caused_it():
    with pytest.raises(ValueError, match="--preset: no such file"), option("--preset"):
        raise FileNotFoundError("no such file")


def test_warnings_are_one_line_each_and_handlers_are_removed():
    console = Console(record=True, width=200)
    logger = logging.getLogger("clock_attention")
    before = list(logger.handlers)

    def fail() -> None:
        warnings.warn("two\nlines", stacklevel=1)
        logger.warning("from %s", "the log")
        raise MemoryError("too large")

    with pytest.raises(typer.Exit), one_line_errors(console):
        fail()
    assert console.export_text().splitlines() == ["warning: two lines", "warning: from the log", "error: too large"]
    assert logger.handlers == before
