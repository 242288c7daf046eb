"""Names that are imported when first asked for."""

import subprocess
import sys

import pytest

from clock_attention.lazy import attach


def test_a_name_is_imported_once_and_kept(monkeypatch):
    package = "clock_attention.speech.training"
    found = attach(package, {"train": "loop"})("train")
    from clock_attention.speech.training.loop import train

    assert found is train
    assert vars(sys.modules[package])["train"] is train
    with pytest.raises(AttributeError, match=r"'clock_attention\.speech\.training' has no attribute 'nothing'"):
        attach(package, {"train": "loop"})("nothing")


def test_importing_the_package_and_help_do_not_import_torch():
    code = "import sys, clock_attention; import clock_attention.commands.main; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
