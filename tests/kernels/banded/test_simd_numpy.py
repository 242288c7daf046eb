"""The kernel as plain Python (NUMBA_DISABLE_JIT=1) is the kernel as compiled code."""

import os
import subprocess
import sys

import torch

from ..attention_cases import content_of, features, gradients, padding

SHAPE = (2, 1, 11, 9, 5, 3)  # two blocks of queries, two tiles of keys
CASES = [
    {},
    {"clocks": "unnormalized", "phi": "softplus"},
    {"clocks": "causal", "pace": 1.5, "log_variance_term": True},
]
PROGRAM = """
import sys, torch
from clock_attention import clock_attention
cases = torch.load(sys.argv[1])
results = []
for case in cases:
    inputs = [x.requires_grad_() for x in case["inputs"]]
    output, weights = clock_attention(*inputs[:3], content=tuple(inputs[3:]) or None, impl="banded", **case["options"])
    results.append((output.detach(), *torch.autograd.grad(output, inputs, case["cotangent"])))
torch.save(results, sys.argv[2])
"""


def test_rows_without_a_compiler_equal_the_compiled_ones(tmp_path):
    cases, expected = [], []
    for number, options in enumerate(CASES):
        content = content_of("features" if number else "none", SHAPE, number, torch.float32)
        inputs = (*features(SHAPE, number, torch.float32), *content)
        masks = {"query_padding_mask": padding(2, 11, number), "key_padding_mask": padding(2, 9, number + 1)}
        found = gradients(inputs, impl="banded", **options, **masks)
        expected.append(found)
        generator = torch.Generator().manual_seed(0)
        cotangent = torch.randn(found[0].shape, generator=generator, dtype=torch.float64).float()
        cases.append({"inputs": inputs, "options": options | masks, "cotangent": cotangent})
    torch.save(cases, tmp_path / "cases.pt")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "cases.pt"), str(tmp_path / "results.pt")]
    subprocess.run(command, check=True, env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, timeout=300)
    for simulated, compiled in zip(torch.load(tmp_path / "results.pt"), expected, strict=True):
        for a, b in zip(simulated, compiled, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
