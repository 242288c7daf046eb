"""What was run once and is kept in results/: that it belongs to these kernels, is complete, and within its bounds."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed: make gpu-tools")

from clock_attention.clocks import clock_pair
from clock_attention.kernels import triton as kernels
from clock_attention.kernels.triton import geometry, meeting
from clock_attention.options import ClockOptions

from .triton_cases import patch_interpreter

ROOT = Path(__file__).parents[2]


def benchmark(name):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        return importlib.import_module(name)


gpu_cost, triton_resources, triton_interpreter, attention = (
    benchmark(name) for name in ("gpu_cost", "triton_resources", "triton_interpreter", "attention")
)


def result(name):
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


def test_the_table_of_resources_is_of_these_kernels_complete_and_within_budget():
    """Compiled for four chips by `benchmarks/triton_resources.py`: no spills, a quarter of the threads resident."""
    table = result("triton_resources")
    found = {triton_resources.identity(row): row["sources"] for row in table["rows"]}
    assert found == triton_resources.variants(), "stale: python benchmarks/triton_resources.py --out …"
    assert [row for row in table["rows"] if not triton_resources.within_budget(row)] == []


def test_two_thousand_interpreted_cases_are_within_bounds():
    found = result("triton_interpreter")
    assert tuple(found["sources"]) == triton_interpreter.fingerprints(), (
        "stale: python benchmarks/triton_interpreter.py …"
    )
    assert found["narrow"] >= 2000
    assert found["cases"] >= 2200
    assert found["out_of_bounds"] == []


def test_the_model_of_cost_has_the_kernels_tiles():
    cut = geometry.tile_geometry(64, 64, 0, torch.bfloat16)
    assert (cut.queries, cut.keys, cut.forward_warps) == (gpu_cost.QUERIES, gpu_cost.KEYS, gpu_cost.WARPS)
    rows = [row for row in result("gpu_cost")["rows"] if row["shape"] == "1x4x4096x1024x64"]
    assert {row["clocks"] for row in rows} == {"random", "trained"}
    assert all(row["visited"] <= 0.15 for row in rows)


@pytest.mark.skipif(not kernels.interpreted(), reason="TRITON_INTERPRET is off")
@pytest.mark.parametrize("kind", ["random", "trained"])
@pytest.mark.parametrize(
    ("queries", "keys", "width"), [(300, 120, 4), pytest.param(4096, 1024, 64, marks=pytest.mark.slow)]
)
def test_the_kernel_visits_the_tiles_that_the_model_of_cost_counts(queries, keys, width, kind):
    patch_interpreter()
    query, key, value, scale = attention.make_inputs(kind, (1, 1, queries, keys, width))
    pair = clock_pair(query, key, *(torch.ones(1, n, dtype=torch.bool) for n in (queries, keys)), ClockOptions(), None)
    variances = (x.float().expand(1, 1, -1) for x in (pair.query_variance, pair.key_variance))
    given = meeting.Operands(
        pair.query, pair.key, value.bfloat16(), *variances, None, None, torch.full((1,), scale), None, None, False, 1e-6
    )
    ranges = meeting.Meeting(given).ranges
    seen = int((ranges[..., 1] - ranges[..., 0]).sum())
    cut = geometry.tile_geometry(width, width, 0, torch.bfloat16)
    expected, total = gpu_cost.visited_tiles(pair, cut.queries, cut.keys)
    assert abs(seen - expected) <= 0.02 * expected  # the kernel's bounds are rounded to the safe side
    if (queries, keys) == (4096, 1024):
        assert seen <= 0.15 * total


@pytest.mark.slow
def test_kernels_compile_without_a_gpu_within_budget():
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    options = ["--only", "sm_90", "--widths", "64", "--dtypes", "bf16", "--options", "full"]
    command = [sys.executable, "benchmarks/triton_resources.py", *options]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
