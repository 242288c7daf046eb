"""Gradients where what cancels is large: few keys, one that has all the weight, clocks that hardly meet."""

import pytest
import torch

from clock_attention import clock_attention

from ..attention_cases import content_of, features, gradients

CAUSAL_EXP = {"clocks": "causal", "pace": 0.7, "causal_norm": "cumulative", "phi": "exp"}
CAUSAL_EMPIRICAL = {"clocks": "causal", "pace": 2.5, "causal_norm": "rms", "variance": "empirical"}
UNNORMALIZED = {"clocks": "unnormalized", "variance": "empirical", "phi": "softplus"}
EXACT = {"clocks": "unnormalized", "variance": "exact", "log_variance_term": True}
EMPIRICAL_EXP = {"variance": "empirical", "phi": "exp", "log_variance_term": True}


def gradients_of(impl, dtype, shape, options, scale, seed, padded=0):
    """By query, key and logit_scale; `padded` keys at the end are padding."""
    query, key, value = features(shape, seed)
    inputs = [query * scale, key * scale, value, torch.linspace(0.5, 2.0, shape[1], dtype=torch.float64)]
    inputs = [x.float().to(dtype).requires_grad_() for x in inputs]
    masks = {}
    if padded:
        masks["key_padding_mask"] = (torch.arange(shape[3]) >= shape[3] - padded).expand(shape[0], -1)
    output, weights = clock_attention(*inputs[:3], logit_scale=inputs[3], impl=impl, **masks, **options)
    draw = torch.Generator().manual_seed(seed)
    loss = (output * torch.randn(output.shape, generator=draw)).sum()
    loss = loss + (weights * torch.randn(weights.shape, generator=draw)).sum()
    by_query, by_key, _, by_scale = torch.autograd.grad(loss, inputs)
    return by_query, by_key, by_scale


@pytest.mark.parametrize("options", [{}, CAUSAL_EXP, CAUSAL_EMPIRICAL, UNNORMALIZED, EXACT, EMPIRICAL_EXP])
@pytest.mark.parametrize("scale", [1.0, 0.0])
@pytest.mark.parametrize("padded", [0, 6])
def test_a_single_key_pulls_at_nothing(options, scale, padded):
    """Its weight is 1 whatever the clocks say: all gradients through the weights are 0, not rounding errors over Σ²."""
    shape = (2, 2, 20, 1 + padded, 8, 16)
    for gradient in gradients_of("banded", torch.float32, shape, options, scale, 1, padded):
        assert not gradient.any()


@pytest.mark.parametrize(
    ("shape", "options", "scale"),
    [
        ((1, 2, 64, 2, 16, 2), UNNORMALIZED, 1.0),  # one of two keys has all the weight
        ((2, 1, 100, 2, 8, 3), EMPIRICAL_EXP, 0.0),  # variances at their floor
        ((2, 3, 65, 8, 3, 4), UNNORMALIZED, 1.0),
        ((2, 2, 100, 3, 32, 5), CAUSAL_EXP, 1.0),  # scores in the thousands
        ((2, 3, 63, 4, 15, 3), UNNORMALIZED, 10.0),
        ((2, 3, 33, 15, 15, 32), {"log_variance_term": True}, 1.0),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_gradients_of_few_keys_are_exact_to_1e_5(shape, options, scale, seed):
    found = gradients_of("banded", torch.float32, shape, options, scale, seed)
    exact = gradients_of("reference", torch.float64, shape, options, scale, seed)
    for a, b in zip(found, exact, strict=True):
        assert (a - b).abs().max() <= 1e-5 * max(1.0, float(b.abs().max()))


def test_content_on_top_of_large_scores_gives_the_same_weights_in_both_directions():
    """Scores in the thousands: a logit that the backward pass rounds differently is another weight, off by 1e-4."""
    shape = (2, 3, 63, 2, 15, 7)
    inputs = (*features(shape, 0), *content_of("features", shape, 0, width=5))
    inputs = tuple(x.float().double() for x in inputs)
    exact = gradients(inputs, impl="reference", **CAUSAL_EXP)
    found = gradients(tuple(x.float() for x in inputs), impl="banded", **CAUSAL_EXP)
    by_value = 3
    assert (found[by_value] - exact[by_value]).abs().max() <= 1e-6 * exact[by_value].abs().max()
