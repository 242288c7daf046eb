"""Convolutions over time do not see padding, and blocks begin near the identity's scale."""

import torch

from clock_attention.speech.model.convolution import ConvStack


def test_what_lies_in_padding_changes_nothing_before_it():
    torch.manual_seed(0)
    stack = ConvStack(3, 8, layers=2, expansion=2, kernel=5)
    x = torch.randn(1, 10, 3)
    keep = torch.ones(1, 10, 1)
    keep[:, 7:] = 0
    other = x.clone()
    other[:, 7:] = 100.0
    torch.testing.assert_close(stack(other, keep)[:, :7], stack(x, keep)[:, :7])
    assert not torch.allclose(stack(other, torch.ones_like(keep))[:, :7], stack(x, torch.ones_like(keep))[:, :7])


def test_a_frame_sees_as_far_as_kernels_and_layers_allow():
    torch.manual_seed(0)
    stack = ConvStack(1, 4, layers=2, expansion=2, kernel=5)
    x, keep = torch.randn(1, 21, 1), torch.ones(1, 21, 1)
    other = x.clone()
    other[:, 10] += 1.0
    moved = (stack(other, keep) - stack(x, keep)).abs().sum(-1)[0] > 1e-7
    assert moved.nonzero().flatten().tolist() == list(range(6, 15))
