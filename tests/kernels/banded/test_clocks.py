"""Compiled clocks: fp64 readings with small offsets, so that long and distant clocks keep their differences."""

import pytest
import torch

from clock_attention import clock_attention

from ..attention_cases import content_of, features, gradients

BANDED = {"impl": "banded"}


@pytest.mark.parametrize("content", [0, 32])
@pytest.mark.parametrize("shape", [(2, 4, 650, 100, 64, 64), (1, 1, 4096, 1024, 64, 64), (1, 1, 100, 650, 32, 48)])
def test_long_sequences_are_exact_to_1e_5(shape, content):
    pair = content_of("features" if content else "none", shape, 1, torch.float32, content)
    if pair:
        pair = pair[0] / content**0.5, pair[1]
    inputs = (*features(shape, 1, torch.float32), *pair)
    exact = gradients(tuple(x.double() for x in inputs), impl="reference")
    found = gradients(inputs, **BANDED)
    assert (found[0] - exact[0]).abs().max() <= 1e-5
    for gradient, truth in zip(found[1:], exact[1:], strict=True):
        assert (gradient - truth).abs().max() <= 2e-5 * max(1.0, float(truth.abs().max()))


def test_gradients_of_unnormalized_queries_far_from_every_key():
    """Their logits are in the tens of thousands, where fp32 would round a log-sum-exp by more than the weights."""
    inputs = features((1, 2, 300, 50, 48, 16), 3)
    options = {"clocks": "unnormalized", "logit_scale": 4.0}
    exact = gradients(inputs, impl="reference", **options)
    found = gradients(tuple(x.float() for x in inputs), **BANDED, **options)
    for a, b in zip(found[1:], exact[1:], strict=True):
        assert (a - b).abs().max() <= 3e-5 * b.abs().max()


def test_a_step_never_depends_on_later_queries_bitwise():
    query, key, value = features((2, 2, 150, 40, 16, 16), 5, torch.float32)
    options = {"clocks": "causal", "pace": 3.5, "return_weights": True, **BANDED}
    output, weights = clock_attention(query, key, value, **options)
    for s in (0, 7, 63, 64, 100, 148):
        changed = query.clone()
        changed[:, :, s + 1 :] = 30 * torch.randn_like(changed[:, :, s + 1 :])
        after, after_weights = clock_attention(changed, key, value, **options)
        assert torch.equal(after[:, :, : s + 1], output[:, :, : s + 1])
        assert torch.equal(after_weights[:, :, : s + 1], weights[:, :, : s + 1])
