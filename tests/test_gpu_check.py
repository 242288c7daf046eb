"""`make gpu-check` on a machine without a GPU: says so, and fails."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[1] / "benchmarks/gpu_check.py"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here: run `make gpu-check`")
def test_without_a_gpu_it_says_so(tmp_path):
    out = tmp_path / "gpu.json"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(out)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 2
    assert "no GPU" in done.stderr
    assert "Roofline" in done.stdout  # what needs no GPU has run
    assert not out.exists()
