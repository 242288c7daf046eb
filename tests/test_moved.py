"""Import paths of earlier versions."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from clock_attention.moved import MOVED


def test_a_moved_name_says_where_it_is_now() -> None:
    store = import_module("clock_attention.speech.store")
    with pytest.warns(DeprecationWarning, match=r"import FeatureStore from clock_attention\.speech\.corpus\.store"):
        assert store.FeatureStore is import_module("clock_attention.speech.corpus.store").FeatureStore
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = store.nothing


@pytest.mark.parametrize("old", MOVED)
def test_nothing_is_at_an_old_path_but_the_notice(old: str) -> None:
    module = import_module(old)
    assert "works until 1.0" in (module.__doc__ or "")
    for new in MOVED[old]:
        assert import_module(new).__name__ == new


def test_old_paths_are_found_by_the_import_statement() -> None:
    code = "from clock_attention.speech.store import FeatureStore; print(FeatureStore.__module__)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "clock_attention.speech.corpus.store"
