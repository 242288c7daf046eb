"""The bound of the band: no key that matters is left out, whatever clocks, scale and content do."""

import pytest
import torch

from clock_attention import clock_attention
from clock_attention.kernels.banded import op

from ..attention_cases import content_of, features, gradients

BANDED = {"impl": "banded"}


@pytest.mark.parametrize("size", [1.0, 8.0])
@pytest.mark.parametrize("pull", [-1.0, 1.0])
def test_content_may_pull_the_band_far_from_where_the_clocks_cross(size, pull):
    """A key that no clock points at, but all content does: the bound must know how far content can reach."""
    shape = (1, 1, 120, 90, 8, 4)
    query, key, value = features(shape, 4)
    content_query, content_key = content_of("features", shape, 4, width=5)
    content_query[:] = torch.nn.functional.normalize(torch.ones(5, dtype=torch.float64), dim=0)
    content_key[:, :, 80] = pull * 60.0 * size * content_query[0, 0, 0]
    inputs = (query, key, value, content_query, content_key)
    exact = gradients(inputs, impl="reference")
    found = gradients(tuple(x.float() for x in inputs), **BANDED)
    _, weights = clock_attention(
        *(x.float() for x in inputs[:3]), content=tuple(x.float() for x in inputs[3:]), **BANDED
    )
    assert (weights[0, 0, 70, 80] > 0.5) == (pull > 0)  # the clocks alone come there at query 107
    for a, b in zip(found, exact, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=2e-4, atol=2e-4 * max(1.0, float(b.abs().max())))


def step_like(shape: tuple[int, ...], at: float) -> torch.Tensor:
    """Features whose clock stands still and then jumps: every query meets a crowd of keys."""
    x = torch.full(shape, -3.0, dtype=torch.float64) + 0.01 * torch.randn(shape, dtype=torch.float64)
    place = int(at * (shape[2] - 2))
    x[:, :, place : place + 2] = 40.0
    return x


@pytest.mark.parametrize("scale", [0.02, 1.0, 40.0, 0.0, -1.0])
@pytest.mark.parametrize("kind", ["flat", "steps", "opposite"])
def test_adversarial_clocks(kind, scale):
    """Wide bands, clocks that meet nowhere, and scales for which no bound holds."""
    shape = (1, 2, 83, 57, 9, 4)
    query, key, value = features(shape, 3)
    if kind == "flat":
        query, key = query * 0 + 1.0, key * 0 - 2.0
    elif kind == "steps":
        query, key = step_like(query.shape, 0.3), step_like(key.shape, 0.8)
    else:
        query, key = query + torch.linspace(-9, 9, 83)[:, None], key + torch.linspace(9, -9, 57)[:, None]
    exact = gradients((query, key, value), impl="reference", logit_scale=scale)
    found = gradients((query.float(), key.float(), value.float()), logit_scale=scale, **BANDED)
    for a, b in zip(found, exact, strict=True):
        # A jump in one step makes rounded features matter more than anything the kernel does.
        tolerance = 2e-3 if kind == "steps" else 2e-4
        torch.testing.assert_close(a.double(), b, rtol=tolerance, atol=tolerance * max(1.0, float(b.abs().max())))


def test_dropped_weights_are_within_the_stated_tolerance():
    """Keys outside the band together weigh less than fp32 can tell: 2⁻²⁴ of a row."""
    inputs = features((1, 2, 300, 200, 32, 8), 11)
    _, exact = clock_attention(*inputs, impl="reference")
    _, found = clock_attention(*(x.float() for x in inputs), **BANDED)
    assert (found == 0).float().mean() > 0.5  # there is a band
    assert (exact * (found == 0)).sum(-1).max() <= op.largest_drop(torch.float32) == 2**-24
