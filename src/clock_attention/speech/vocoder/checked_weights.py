"""Safetensors files that store a checksum of their contents, so that a flipped bit is detected on loading."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from safetensors.torch import load, save
from torch import Tensor

METADATA, CHECK_SUM = "__metadata__", "sha256"


def check_sum(file: bytes) -> tuple[str, str | None]:
    """Checksum of a safetensors file: SHA-256 of its table and data, and the one stored in its metadata, if any."""
    length = int.from_bytes(file[:8], "little")
    table = json.loads(file[8 : 8 + length])
    named = table.pop(METADATA, {}).get(CHECK_SUM)
    digest = hashlib.sha256(json.dumps(table, sort_keys=True).encode())
    digest.update(file[8 + length :])
    return digest.hexdigest(), named


def packed_weights(state: dict[str, Tensor]) -> bytes:
    """Weights as a safetensors file with their checksum in the metadata."""
    return save(state, {CHECK_SUM: check_sum(save(state))[0]})


def read_weights_file(path: Path) -> dict[str, Tensor]:
    """Read the weights of a safetensors file and verify its checksum, if any; files from other sources have none."""
    file = path.read_bytes()
    state = load(file)  # raises for anything but a safetensors file
    found, named = check_sum(file)
    if named not in (None, found):
        raise ValueError("the weights are not those that were written: their check sum differs")
    return state
