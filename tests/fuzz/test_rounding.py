"""The yardstick of ill-conditioned cases: as large as rounding is, and no larger."""

import torch

from clock_attention import clock_attention
from tests.fuzz.rounding import rounding
from tests.kernels.attention_cases import features


def results(dtype, impl, scale=1.0, **options):
    query, key, value = (x.float().to(dtype).requires_grad_() for x in features((1, 2, 40, 20, 16, 8), 0))
    output, _ = clock_attention(query, key, value, impl=impl, logit_scale=scale, **options)
    return [output.detach(), *torch.autograd.grad(output.square().sum(), (query, key, value))]


def moved(**options):
    exact = results(torch.float64, "reference", **options)
    with rounding(0):
        rounded = results(torch.float64, "reference", **options)
    return [float((a - b).abs().max()) for a, b in zip(rounded, exact, strict=True)]


def test_a_well_conditioned_case_moves_by_a_few_units_of_fp32():
    assert all(1e-8 < move < 1e-5 for move in moved())


def test_large_scores_move_by_their_own_rounding():
    """What fp32 cannot hold: scores in the thousands are off by 1e-4, and so are the weights."""
    assert moved(clocks="unnormalized", scale=4.0)[0] > 3 * moved(clocks="unnormalized", scale=0.01)[0]


def test_clocks_and_distances_are_exempt():
    """The Gram form in fp32 would be off by more than 1e-3 here: it is no excuse."""
    exact, gram = (results(dtype, "reference", scale=30.0)[0] for dtype in (torch.float64, torch.float32))
    assert moved(scale=30.0)[0] < 0.3 * float((gram - exact).abs().max())


def test_nothing_is_rounded_outside():
    exact = results(torch.float64, "reference")
    with rounding(0):
        pass
    assert all(torch.equal(a, b) for a, b in zip(results(torch.float64, "reference"), exact, strict=True))
