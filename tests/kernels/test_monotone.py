"""Sums over monotone paths: the compiled loops and the scan, which runs on every other device, agree."""

import pytest
import torch

from clock_attention.kernels.monotone import LogPathSum, compiled_sums, log_path_sum, path_posterior


@pytest.mark.parametrize("spread", [1.0, 50.0])
@pytest.mark.parametrize("with_optional", [True, False])
def test_scan_and_compiled_loops_agree(spread, with_optional):
    """Spread over 50 nats a cell, probabilities of whole paths are far below the smallest double."""
    torch.manual_seed(0)
    scores = spread * torch.randn(4, 60, 17, dtype=torch.float64)
    scores[0, 3, 2] = -torch.inf
    targets, sources = torch.tensor([60, 31, 17, 8]), torch.tensor([17, 17, 17, 3])
    optional = torch.rand(4, 17) < 0.4 if with_optional else None
    total, posterior = path_posterior(scores, targets, sources, optional)
    compiled_total, compiled_posterior = compiled_sums(scores, targets, sources, optional, True)
    assert total.isfinite().all()
    torch.testing.assert_close(compiled_total, total)
    torch.testing.assert_close(compiled_posterior, posterior)
    torch.testing.assert_close(log_path_sum(scores, targets, sources, optional)[0], total)
    inside = torch.arange(60) < targets[:, None]
    torch.testing.assert_close(compiled_posterior.sum(-1), inside.double())


def test_second_derivatives_are_refused_instead_of_wrong():
    scores = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.ones((), dtype=torch.float64, requires_grad=True)
    total, posterior = LogPathSum.apply(scores, torch.tensor([4, 3]), torch.tensor([3, 2]), None)
    (slope,) = torch.autograd.grad(weight * total.sum(), scores, create_graph=True)
    torch.testing.assert_close(slope, posterior)
    torch.testing.assert_close(
        torch.autograd.grad(slope.square().sum(), weight, retain_graph=True)[0], 2 * posterior.square().sum()
    )
    with pytest.raises(NotImplementedError, match="forward_sum_loss, have no second derivatives"):
        torch.autograd.grad(slope.square().sum(), scores)


def test_both_say_when_there_is_no_path_and_show_nan():
    scores = torch.zeros(2, 3, 5)
    scores[1, 1, 1] = torch.nan
    lengths = torch.tensor([3, 3]), torch.tensor([5, 3])
    for total, posterior in (path_posterior(scores, *lengths, None), compiled_sums(scores, *lengths, None, True)):
        assert total[0] == -torch.inf
        assert (posterior[0] == 0).all()
        assert total[1].isnan()
