"""Files of weights that know their own check sum."""

import random
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from clock_attention.speech.vocoder.checked_weights import packed_weights, read_weights_file
from tests.fuzz.damage import damaged

STATE = {"weight": torch.randn(5, 7).half(), "bias": torch.arange(5.0)}


def test_weights_come_back_and_any_reader_of_safetensors_takes_them(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(packed_weights(STATE))
    for found in (read_weights_file(tmp_path / "model.safetensors"), load_file(tmp_path / "model.safetensors")):
        assert all(torch.equal(found[name], tensor) for name, tensor in STATE.items())


def test_files_of_others_have_no_check_sum(tmp_path: Path) -> None:
    save_file(STATE, tmp_path / "model.safetensors")
    assert torch.equal(read_weights_file(tmp_path / "model.safetensors")["bias"], STATE["bias"])


def test_any_damage_is_noticed(tmp_path: Path) -> None:
    whole, path = packed_weights(STATE), tmp_path / "model.safetensors"
    chance = random.Random(0)
    for _ in range(300):
        broken = damaged(whole, chance)
        path.write_bytes(broken)
        try:
            found = read_weights_file(path)
        except (SafetensorError, ValueError):
            continue
        assert all(torch.equal(found[name], tensor) for name, tensor in STATE.items())  # a blank in the header


def test_a_flipped_bit_is_named_as_such(tmp_path: Path) -> None:
    whole, path = bytearray(packed_weights(STATE)), tmp_path / "model.safetensors"
    whole[-3] ^= 1
    path.write_bytes(whole)
    with pytest.raises(ValueError, match="check sum differs"):
        read_weights_file(path)
