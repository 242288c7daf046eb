"""`make gpu-check` and `benchmarks/attention.py --device cuda` on a machine without a GPU: say so, and fail."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here: run `make gpu-check`")


def run(script, *options):
    command = [sys.executable, str(BENCHMARKS / script), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_without_a_gpu_it_says_so(tmp_path):
    out = tmp_path / "gpu.json"
    done = run("gpu_check.py", "--out", str(out))
    assert done.returncode == 2
    assert "no GPU" in done.stderr
    assert "Roofline" in done.stdout  # what needs no GPU has run
    assert not out.exists()


def test_speed_on_a_gpu_needs_one():
    done = run("attention.py", "--device", "cuda")
    assert done.returncode == 2
    assert "there is no GPU here" in done.stderr
