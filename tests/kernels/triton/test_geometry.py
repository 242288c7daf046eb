"""Tile sizes and warps: legal for the matrix units, and alike in both directions."""

import pytest

pytest.importorskip("triton", reason="triton is not installed: make gpu-tools")

import torch

from clock_attention.kernels.triton.geometry import WIDEST, block_width, launch, step_keys, tile_geometry


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [1, 16, 64, 65, 128, 129, WIDEST])
def test_tiles_are_powers_of_two_that_matrix_units_take(width, dtype):
    cut = tile_geometry(width, 16, 0, dtype)
    for size in (cut.queries, cut.keys):
        assert size >= 16
        assert size & (size - 1) == 0
    assert cut == tile_geometry(16, width, 0, dtype)  # the widest counts
    assert tile_geometry(width, 16, 16, dtype) == tile_geometry(16, 16, width, dtype)
    for warps in (cut.forward_warps, cut.query_warps, cut.key_warps):
        assert launch(warps)["num_warps"] in (4, 8, 16)


@pytest.mark.parametrize(("width", "block"), [(1, 16), (16, 16), (17, 32), (64, 64), (100, 128), (256, 256)])
def test_channels_are_padded_to_a_power_of_two(width, block):
    assert block_width(width) == block
    assert 16 <= step_keys(width) <= 64
