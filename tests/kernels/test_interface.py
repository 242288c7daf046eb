"""Inputs of an implementation: masks are made where none are given."""

import torch

from clock_attention.kernels.interface import AttentionInputs, all_valid, constant_when_compiled


def test_masks_that_are_not_given_say_that_all_is_valid():
    query, key, value = torch.randn(2, 3, 7, 4), torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 6)
    inputs = AttentionInputs(query, key, value, torch.ones(1, 1, 1))
    assert torch.equal(inputs.valid_queries(), torch.ones(2, 7, dtype=torch.bool))
    assert torch.equal(inputs.valid_keys(), all_valid(key))
    mask = torch.rand(2, 5) < 0.5
    given = AttentionInputs(query, key, value, torch.ones(1, 1, 1), key_valid=mask)
    assert given.valid_keys() is mask


def test_constants_of_a_compiled_graph_carry_torchs_own_mark():
    """It is set without loading the compiler; if torch renames the mark, this fails."""
    marked = constant_when_compiled(lambda: 1)
    assert vars(marked) == vars(torch.compiler.assume_constant_result(lambda: 1))
