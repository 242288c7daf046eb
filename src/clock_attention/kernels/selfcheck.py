"""Self-check of the Triton kernel: can it be trusted on this device? One small problem, compared with plain torch.

The kernel was tested without a GPU (docs/guides/gpu.md); an untested driver, compiler or chip may still break it. So
before `impl="auto"` uses it on a device, the forward and backward pass of a small problem run through it and through
the portable path. The verdict is kept for the process, and a positive one in a file in the user's cache, by device and
versions. Where the two disagree, or the kernel does not compile, a warning gives the figures and the portable path is
used.
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
from pathlib import Path

import torch

from clock_attention.files import write_atomically
from clock_attention.kernels import portable
from clock_attention.kernels.interface import AttentionInputs, Wanted, constant_when_compiled
from clock_attention.options import ClockOptions

logger = logging.getLogger(__name__)

TOLERANCES = {"output": 1e-4, "gradients": 1e-3}  # relative; twenty times the error of either path
verdicts: dict[tuple[str, int], bool] = {}


@constant_when_compiled
def trusted(kind: str, index: int) -> bool:
    """The Triton self-check: whether `auto` may use Triton on this device. The first call runs it."""
    place = (kind, index)
    if place not in verdicts:
        if kind == "cuda" and torch.cuda.is_current_stream_capturing():
            return False  # nothing can be compared while a graph is being captured; ask again later
        verdicts[place] = check(torch.device(kind, index) if kind == "cuda" else torch.device(kind))
    return verdicts[place]


def check(device: torch.device) -> bool:
    """The self-check's verdict from its file, or from a run; a positive one is saved."""
    try:
        name = identity(device)
    except ImportError:
        return False  # no triton: nothing to warn about
    path = verdict_file()
    known = read_verdicts(path)
    if name in known:
        return True
    try:
        errors = largest_differences(device)
    except Exception as error:  # whatever a compiler may raise: the portable path still works
        logger.warning("the Triton kernel does not run on %s (%s); using the portable path", name, error)
        return False
    if not all(errors[what] <= bound for what, bound in TOLERANCES.items()):  # NaN fails too
        logger.warning(
            "the Triton kernel disagrees with plain torch on %s: output off by %.1e (at most %.0e expected), gradients "
            "by %.1e (%.0e); using the portable path. Please report this with the output of `make gpu-check`.",
            *(name, errors["output"], TOLERANCES["output"], errors["gradients"], TOLERANCES["gradients"]),
        )
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps({**known, name: errors}, indent=1))
    except OSError as error:
        logger.info("the verdict on %s is not kept: %s", name, error)
    return True


def identity(device: torch.device) -> str:
    """Device and versions for which one verdict of the Triton self-check holds."""
    import triton

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    package = importlib.metadata.version("clock-attention")
    return f"{name}, torch {torch.__version__}, triton {triton.__version__}, clock-attention {package}"


def verdict_file() -> Path:
    """Path of the file that holds verdicts of the Triton self-check."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "clock-attention" / "triton.json"


def read_verdicts(path: Path) -> dict[str, dict[str, float]]:
    """Earlier verdicts of the Triton self-check; none if the file is missing or not in this format."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def largest_differences(device: torch.device) -> dict[str, float]:
    """Run the Triton self-check: output and gradients against the portable kernel, relative differences."""
    from clock_attention.kernels import triton

    g = torch.Generator().manual_seed(0)
    # Several tiles of queries and keys, odd lengths, padding, content, both kinds of gradient.
    sizes = ((150, 16), (70, 16), (70, 24), (150, 8), (70, 8))
    inputs = [torch.randn(2, 1, *size, generator=g).to(device) for size in sizes]
    queries, keys = torch.tensor([[150], [97]]), torch.tensor([[61], [70]])
    valid = [(torch.arange(n) < lengths).to(device) for n, lengths in ((150, queries), (70, keys))]
    cotangent = torch.randn(2, 1, 150, 24, generator=g).to(device)
    found = []
    for implementation in (triton, portable):
        query, key, value, *content = (x.clone().requires_grad_() for x in inputs)
        scale = torch.full((1, 1, 1), 0.7, device=device, requires_grad=True)
        leaves = (query, key, value, *content, scale)
        given = AttentionInputs(query, key, value, scale, valid[0], valid[1], content=(content[0], content[1]))
        with torch.enable_grad():
            output = implementation.attend(given, ClockOptions(), Wanted(weights=False))[0]
            found.append((output.detach(), *torch.autograd.grad(output, leaves, cotangent)))
    errors = [float((a - b).abs().max() / b.abs().max()) for a, b in zip(*found, strict=True)]
    return {"output": errors[0], "gradients": max(errors[1:], key=lambda e: e if e == e else float("inf"))}
