"""The table of a call: what compiled code is told lies where it says, and blocks of scratch do not overlap."""

import itertools

import pytest
import torch

from clock_attention.kernels.banded.table import CALL, PLAIN, SCRATCH, STRIDED, Call, scratch_memory, whole_vectors


def call(dtype=torch.float32, backward=True, heads=3, queries=70, keys=30):
    query, key = torch.randn(1, heads, queries, 5, dtype=dtype), torch.randn(1, heads, keys, 5, dtype=dtype)
    value, content = torch.randn(1, heads, keys, 7, dtype=dtype), torch.randn(1, heads, queries, 3, dtype=dtype)
    return Call(query, key, value, (content, content[:, :, :keys]), backward=backward)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("backward", [False, True])
def test_blocks_of_scratch_are_aligned_and_apart(dtype, backward):
    made = call(dtype, backward)
    owners = {"head": made.items if made.chunks > 1 else made.threads, "thread": made.threads}
    owners["chunk"] = owners["head"] * made.chunks
    ends, memory = [], made.held[-1]
    for name, (owner, kind) in SCRATCH.items():
        address, numbers = made.table[name][0]
        size = owners[owner] * numbers * (8 if kind != "work" else dtype.itemsize)
        ends.append((int(address), int(address + size)))
    ends.sort()
    assert all(before <= after for (_, before), (after, _) in itertools.pairwise(ends))
    assert memory.data_ptr() <= ends[0][0]
    assert ends[-1][1] <= memory.data_ptr() + memory.numel()


def test_tensors_are_found_at_their_addresses_with_padded_channels():
    made = call()
    address, batch, head, step = made.table["query"][0]
    held = next(x for x in made.held if x.data_ptr() == address)
    assert (batch, head, step) == held.stride()[:3]
    assert held.shape[-1] == 16
    assert not held[..., 5:].any()
    assert made.table["content_width"] == 16
    assert {*STRIDED, *PLAIN, *SCRATCH} <= set(CALL.names)


def test_whole_vectors_copies_only_where_it_must():
    whole = torch.randn(2, 3, 16)
    assert whole_vectors(whole).data_ptr() == whole.data_ptr()
    assert whole_vectors(whole.mT.contiguous().mT).is_contiguous()
    assert whole_vectors(torch.randn(2, 3, 17)).shape == (2, 3, 32)


def test_small_scratch_is_kept_and_grows():
    first = scratch_memory(1000)
    assert scratch_memory(900).data_ptr() == first.data_ptr()
    assert scratch_memory(first.numel() + 1).numel() > first.numel()
    assert call().held[-1].numel() > 0
