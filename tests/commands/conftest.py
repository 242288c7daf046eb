"""The corpora of the speech tests, for commands that read them."""

import pytest
from typer.testing import CliRunner

from clock_attention.commands.main import app
from tests.speech.aligner.coded import CodedAligner
from tests.speech.conftest import ljspeech_folder, readings, store, store_settings  # noqa: F401


@pytest.fixture
def align(tmp_path, monkeypatch):
    """The command in an empty folder, with an aligner that understands coded speech."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("clock_attention.speech.aligner.Aligner", CodedAligner)

    def run(*arguments, **options):
        return CliRunner().invoke(app, ["align", *map(str, arguments)], **options)

    return run
