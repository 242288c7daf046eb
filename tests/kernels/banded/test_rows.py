"""The banded kernel is the literal algorithm, for everything it serves, and says so when it does not serve it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clock_attention import clock_attention

from ..attention_cases import OPTIONS, content_of, features, padding, shapes

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
