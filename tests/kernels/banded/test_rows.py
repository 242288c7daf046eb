"""The banded kernel is the literal algorithm, for everything it serves, and says so when it does not serve it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clock_attention import clock_attention
from clock_attention.kernels.banded import op

from ..attention_cases import OPTIONS, content_of, features, gradients, padding, shapes

BANDED = {"impl": "banded"}


def scales(heads: int) -> torch.Tensor:
    return torch.linspace(0.5, 2.0, heads)


def holes(batch: int, length: int, seed: int) -> torch.Tensor:
    """Padding anywhere, True = padding, sometimes everywhere."""
    g = torch.Generator().manual_seed(seed)
    return torch.rand(batch, length, generator=g) < torch.rand(batch, 1, generator=g)


@given(
    shapes(),
    st.integers(0, 999),
    st.sampled_from(OPTIONS),
    st.sampled_from([padding, holes, None]),
    st.sampled_from([0, 1, 7, 20]),
)
def test_outputs_weights_and_gradients_equal_the_reference(shape, seed, options, mask, content):
    """In fp32 against fp64, with NaN in the padding, the weights' own gradient included."""
    batch, heads, targets, sources = shape[:4]
    exact = [*features(shape, seed), scales(heads).double()]
    exact += content_of("features" if content else "none", shape, seed, width=content)
    masks = {}
    if mask is not None:
        masks = {
            "query_padding_mask": mask(batch, targets, seed),
            "key_padding_mask": mask(batch, sources, seed + 1),
        }
        sides = (*masks.values(), masks["key_padding_mask"], None, *masks.values())
        for x, padded in zip(exact, sides, strict=False):
            if padded is not None:
                x.masked_fill_(padded[:, None, :, None], torch.nan)
    found, expected = [], []
    for results, dtype, impl in ((found, torch.float32, "banded"), (expected, torch.float64, "reference")):
        inputs = [x.to(dtype).requires_grad_() for x in exact]
        pair = tuple(inputs[4:]) or None
        output, weights = clock_attention(
            *inputs[:3], content=pair, **masks, **options, logit_scale=inputs[3], impl=impl
        )
        g = torch.Generator().manual_seed(seed)
        loss = (output * torch.randn(output.shape, generator=g)).sum()
        loss = loss + (weights * torch.randn(weights.shape, generator=g)).sum()
        results += [output, weights, *torch.autograd.grad(loss, inputs)]
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-4 * max(1.0, float(b.detach().abs().max())))
    torch.testing.assert_close(found[0].double(), expected[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("side", ["query", "key"])
def test_numbers_that_are_none_are_not_hidden(side, bad, options):
    """A training that diverges must be seen to: NaN comes out where the reference has it, and in every gradient."""
    inputs = dict(zip(("query", "key", "value"), features((2, 2, 50, 20, 16, 8), 7, torch.float32), strict=True))
    inputs[side][1, 0, 10] = bad
    found = {}
    for impl in ("banded", "reference"):
        given = [x.clone().requires_grad_() for x in inputs.values()]
        output, weights = clock_attention(*given, **options, return_weights=True, impl=impl)
        found[impl] = [output, weights, *torch.autograd.grad(output.sum() + weights.square().sum(), given)]
    for a, b in zip(found["banded"][:2], found["reference"][:2], strict=True):
        assert not b[1, 0].isfinite().all()
        assert torch.equal(a.isfinite(), b.isfinite())
    for gradient in found["banded"][2:4]:
        assert gradient[0].isfinite().all()
        assert not gradient[1, 0].isfinite().any()


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


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_content_that_is_no_number_is_not_hidden(side, bad):
    shape = (2, 2, 50, 20, 16, 8)
    inputs = [*features(shape, 7, torch.float32), *content_of("features", shape, 7, torch.float32)]
    inputs[3 + side][1, 0, 10] = bad
    inputs = [x.requires_grad_() for x in inputs]
    output, _ = clock_attention(*inputs[:3], content=tuple(inputs[3:]), **BANDED)
    lost = output[1, 0, 10] if side == 0 else output[1, 0]
    assert not lost.isfinite().any()
    assert output[0].isfinite().all()
    assert not torch.autograd.grad(output.sum(), inputs[1])[0][1, 0].isfinite().any()


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


def test_batch_neighbours_and_padding_change_nothing():
    query, key, value = features((3, 2, 70, 30, 8, 8), 7, torch.float32)
    masks = {"query_padding_mask": torch.arange(70) >= torch.tensor([[70], [41], [9]]),
             "key_padding_mask": torch.arange(30) >= torch.tensor([[30], [17], [8]])}  # fmt: skip
    together, _ = clock_attention(query, key, value, **masks, **BANDED)
    for item, (s, t) in enumerate(((70, 30), (41, 17), (9, 8))):
        cut = (query[item : item + 1, :, :s], key[item : item + 1, :, :t], value[item : item + 1, :, :t])
        alone, _ = clock_attention(*cut, **BANDED)
        assert torch.equal(together[item : item + 1, :, :s], alone)
        assert not together[item, :, s:].any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_is_computed_in_fp32(dtype):
    inputs = features((1, 2, 66, 20, 16, 16), 9, dtype)
    output, _ = clock_attention(*inputs, **BANDED)
    exact, _ = clock_attention(*(x.float() for x in inputs), **BANDED)
    assert output.dtype == dtype
    assert torch.equal(output, exact.to(dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under_autocast, _ = clock_attention(*(x.float() for x in inputs), variance="exact", **BANDED)
    assert under_autocast.dtype == torch.float32
    torch.testing.assert_close(
        under_autocast, clock_attention(*(x.float() for x in inputs), variance="exact", impl="portable")[0]
    )


def test_weights_are_built_on_request_only():
    inputs = features((1, 1, 30, 20, 8, 8), 10, torch.float32)
    output, none = clock_attention(*inputs, return_weights=False, **BANDED)
    same, weights = clock_attention(*inputs, return_weights=True, **BANDED)
    assert none is None
    assert torch.equal(output, same)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 30))
    torch.testing.assert_close(weights @ inputs[2], output)


def test_dropped_weights_are_within_the_stated_tolerance():
    """Keys outside the band together weigh less than fp32 can tell: 2⁻²⁴ of a row."""
    inputs = features((1, 2, 300, 200, 32, 8), 11)
    _, exact = clock_attention(*inputs, impl="reference")
    _, found = clock_attention(*(x.float() for x in inputs), **BANDED)
    assert (found == 0).float().mean() > 0.5  # there is a band
    assert (exact * (found == 0)).sum(-1).max() <= op.DROPPED
