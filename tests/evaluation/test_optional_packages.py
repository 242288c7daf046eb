"""Packages that only some evaluations need."""

import pytest

from clock_attention.evaluation.optional_packages import installed, needs


def test_a_missing_package_names_its_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"nowhere is not installed: `pip install 'clock-attention\[mos\]'`"):
        needs("nowhere.inside", extra="mos")
    assert needs("json", extra="mos").loads("1") == 1


def test_a_package_that_misses_another_says_so_itself(tmp_path, monkeypatch) -> None:
    (tmp_path / "hungry.py").write_text("import nowhere")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'nowhere'"):
        needs("hungry", extra="mos")


def test_versions() -> None:
    assert installed("clock-attention")
    assert installed("no-such-package") == ""
