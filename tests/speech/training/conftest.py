"""One thread, and a tiny corpus."""

from __future__ import annotations

import pytest
import torch

from tests.speech.corpora import tiny_store


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tiny_store(tmp_path_factory.mktemp("tiny") / "store")
