"""Safe reading of untrusted weight files: data only, no tensor larger than its file, finite values only."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def load_torch(path: Path) -> Any:
    """Read a weight file written by `torch.save`: only tensors, numbers and containers.

    Raises ValueError if a few bytes would expand to gigabytes (compressed members, tensors larger than the file) or
    if a checksum is wrong; torch checks neither.
    """
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                raise ValueError("it is compressed, which torch.save never does")
            if (changed := archive.testzip()) is not None:
                raise ValueError(f"the check sum of {changed} is wrong")
    state = torch.load(path, map_location="cpu", weights_only=True)
    check_sizes(state, path.stat().st_size)
    return state


def check_sizes(state: Any, limit: int) -> None:
    """Check that no tensor of a weight file is larger than the file, as a view of a few bytes can be."""
    if isinstance(state, Tensor):
        if state.numel() * state.element_size() > limit:
            raise ValueError(f"a tensor of shape {tuple(state.shape)} in a file of {limit} bytes")
    elif isinstance(state, Mapping):
        for value in state.values():
            check_sizes(value, limit)
    elif isinstance(state, list | tuple):
        for value in state:
            check_sizes(value, limit)


def weights_fault(expected: Mapping[str, Tensor], found: Mapping[str, Any]) -> str:
    """Check of a weight file: describes the first mismatch with a model's weights; empty if there is none.

    `expected` may be on the "meta" device: only its names and shapes are compared, so it needs no memory.
    """
    missing, unknown = sorted(expected.keys() - found.keys()), sorted(map(str, found.keys() - expected.keys()))
    if missing or unknown:
        return f"missing {', '.join(missing[:3]) or 'none'}; unknown {', '.join(unknown[:3]) or 'none'}"
    for name, tensor in expected.items():
        weight = found[name]
        if not isinstance(weight, Tensor) or weight.is_sparse or weight.dtype not in FLOATS:
            kind = weight.dtype if isinstance(weight, Tensor) else type(weight).__name__
            return f"{name} holds {kind}, expected floating-point numbers"
        if weight.shape != tensor.shape:
            return f"{name} has shape {tuple(weight.shape)}, the model asks for {tuple(tensor.shape)}"
        if not bool(weight.isfinite().all()):
            return f"{name} holds values that are not finite numbers"
    return ""
