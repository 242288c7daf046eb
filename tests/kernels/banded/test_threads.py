"""Compiled once, run on any number of threads, with the same result."""

import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import torch

from clock_attention import clock_attention
from clock_attention.kernels.banded import threads

from ..attention_cases import features, gradients

BANDED = {"impl": "banded"}


def test_several_python_threads_at_once():
    cases = [features((2, 2, 90 + i, 30, 16, 16), i, torch.float32) for i in range(4)]
    expected = [gradients(inputs, **BANDED) for inputs in cases]
    with ThreadPoolExecutor(4) as executor:
        for _ in range(3):
            for found, truth in zip(executor.map(lambda x: gradients(x, **BANDED), cases), expected, strict=True):
                assert all(torch.equal(a, b) for a, b in zip(found, truth, strict=True))


def test_without_libgomp_a_pool_of_python_threads_does_the_same(monkeypatch):
    inputs = features((2, 2, 90, 30, 16, 16), 16, torch.float32)
    expected = gradients(inputs, **BANDED)
    monkeypatch.setattr(threads, "team", lambda: None)
    assert all(torch.equal(a, b) for a, b in zip(gradients(inputs, **BANDED), expected, strict=True))


def test_compile_time_is_logged_once(caplog, monkeypatch):
    monkeypatch.setattr(threads, "entries", {})
    inputs = features((1, 1, 9, 5, 4, 4), 18, torch.float32)
    with caplog.at_level(logging.INFO, logger="clock_attention"):
        clock_attention(*inputs, return_weights=False, **BANDED)
        clock_attention(*inputs, return_weights=False, **BANDED)
    assert len([record for record in caplog.records if "ready after" in record.message]) == 1


def test_another_process_reads_the_cache():
    """This process has compiled the kernel or found it; a worker must find it."""
    threads.entry(False, False)
    code = "from clock_attention.kernels.banded import threads; assert threads.entry(False, False).cache_hits == 1"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ, timeout=300)
