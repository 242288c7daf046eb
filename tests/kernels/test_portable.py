"""The portable path is the literal algorithm, without its rounding errors and its memory."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from clock_attention import clock_attention
from clock_attention.kernels import portable

from .attention_cases import CONTENTS, OPTIONS, content_of, features, gradients, padding, shapes


@settings(max_examples=60)
@given(shapes(), st.integers(0, 999), st.sampled_from(OPTIONS), st.sampled_from(CONTENTS), st.booleans())
def test_outputs_weights_and_gradients_equal_the_reference(shape, seed, options, content, dirty):
    """In fp64, NaN in the padding included: any option, odd lengths, items of one step."""
    inputs = [*features(shape, seed), *content_of(content, shape, seed)]
    masks = {
        "query_padding_mask": padding(shape[0], shape[2], seed),
        "key_padding_mask": padding(shape[0], shape[3], seed + 1),
    }
    if dirty:
        inputs[0].masked_fill_(masks["query_padding_mask"][:, None, :, None], torch.nan)
        inputs[1].masked_fill_(masks["key_padding_mask"][:, None, :, None], torch.nan)
        inputs[2].masked_fill_(masks["key_padding_mask"][:, None, :, None], torch.nan)
    options = {**options, **masks, "logit_scale": torch.linspace(0.5, 2.0, shape[1], dtype=torch.float64)}
    expected = gradients(tuple(inputs), **options, impl="reference")
    found = gradients(tuple(inputs), **options, impl="portable")
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7 * max(1.0, float(b.abs().max())))


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("options", OPTIONS)
def test_weights_logits_and_clocks_equal_the_reference(options, content):
    shape = (2, 2, 13, 7, 5, 3)
    query, key, value, *extra = (*features(shape, 1), *content_of(content, shape, 1))
    options = {
        **options,
        "content": tuple(extra) if content == "features" else extra[0] if extra else None,
        "attn_mask": torch.rand(2, 1, 13, 7, dtype=torch.float64),
        "key_padding_mask": padding(2, 7, 3),
        "return_clocks": True,
        "return_logits": True,
    }
    _, expected, clocks, logits = clock_attention(query, key, value, **options, impl="reference")
    _, weights, found_clocks, found_logits = clock_attention(query, key, value, **options, impl="portable")
    torch.testing.assert_close(weights, expected, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(found_logits, logits, rtol=1e-6, atol=1e-7)
    for a, b in zip(found_clocks, clocks, strict=True):
        torch.testing.assert_close(*torch.broadcast_tensors(a, b), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("shape", "tolerance"), [((2, 4, 650, 100, 64, 64), 2e-5), ((1, 1, 4096, 1024, 64, 64), 2e-4)])
def test_fp32_is_accurate_where_the_gram_form_is_not(shape, tolerance):
    exact = gradients(features(shape, 1), impl="reference")
    found = gradients(features(shape, 1, torch.float32), impl="portable")
    literal = gradients(features(shape, 1, torch.float32), impl="reference")
    assert (found[0] - exact[0]).abs().max() <= tolerance
    assert (literal[0] - exact[0]).abs().max() > 100 * tolerance  # why the literal form is not the one in use
    for gradient, truth in zip(found[1:], exact[1:], strict=True):
        assert (gradient - truth).abs().max() <= tolerance * max(1.0, float(truth.abs().max()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_keeps_to_flash_attentions_rule(dtype):
    """At most twice the error of the literal algorithm in the same dtype, forward and backward."""
    shape = (1, 2, 130, 40, 32, 32)
    inputs = features(shape, 2, dtype)
    truth = gradients(tuple(x.double() for x in inputs), impl="reference")
    literal = gradients(inputs, impl="reference")
    found = gradients(inputs, impl="portable")
    for index in range(4):
        error = (found[index].double() - truth[index]).abs().max()
        assert error <= 2 * (literal[index].double() - truth[index]).abs().max() + 1e-3
        assert found[index].dtype == dtype


def test_clocks_stay_in_fp32_under_autocast():
    query, key, value = features((1, 2, 200, 50, 16, 16), 3, torch.float32)
    plain, _ = clock_attention(query, key, value)
    with torch.autocast("cpu", torch.bfloat16):
        cast, _ = clock_attention(query, key, value)
    torch.testing.assert_close(cast, plain)


def test_blocks_of_queries_do_not_show(monkeypatch):
    query, key, value = features((2, 2, 37, 11, 4, 3), 4)
    mask = torch.rand(2, 1, 37, 11) < 0.3
    whole = gradients((query, key, value), attn_mask=mask)
    monkeypatch.setattr(portable, "BLOCK_ROWS", 5)
    blocked = gradients((query, key, value), attn_mask=mask)
    for a, b in zip(blocked, whole, strict=True):
        torch.testing.assert_close(a, b)


def test_memory_of_training_stays_with_the_block():
    """Saved for backward: O(S + T) tensors, no S × T one."""
    query, key, value = (x.requires_grad_() for x in features((1, 1, 1500, 700, 4, 4), 5, torch.float32))
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
        clock_attention(query, key, value, impl="portable", return_weights=False)
    assert max(sizes) <= 1500 * 8


@pytest.mark.parametrize("options", OPTIONS)
def test_gradcheck(options):
    shape = (1, 2, 5, 4, 3, 2)
    inputs = tuple(x.requires_grad_() for x in (*features(shape, 6), *content_of("features", shape, 6, width=2)))
    scale = torch.tensor([0.7, 1.3], dtype=torch.float64, requires_grad=True)

    def function(query, key, value, content_query, content_key, scale):
        content = content_query, content_key
        return clock_attention(query, key, value, content=content, logit_scale=scale, impl="portable", **options)[0]

    assert torch.autograd.gradcheck(function, (*inputs, scale))


def test_vmap_over_an_ensemble():
    query, key, value = features((3, 2, 9, 5, 4, 4), 7)

    def one(query, key, value):
        return clock_attention(query[None], key[None], value[None], impl="portable")[0][0]

    torch.testing.assert_close(torch.func.vmap(one)(query, key, value), clock_attention(query, key, value)[0])
    jacobian = torch.func.jacrev(lambda q: one(q, key[0], value[0]).sum())(query[0])
    direct = gradients((query[:1], key[:1], value[:1]), impl="portable")
    assert jacobian.shape == direct[1][0].shape


@pytest.mark.slow
def test_compiles_without_graph_breaks():
    query, key, value = features((1, 2, 33, 9, 8, 8), 8, torch.float32)
    compiled = torch.compile(lambda *x: clock_attention(*x, impl="portable")[0], fullgraph=True)
    torch.testing.assert_close(compiled(query, key, value), clock_attention(query, key, value, impl="portable")[0])


@pytest.mark.parametrize("clocks", ["normalized", "causal"])
def test_second_derivatives_of_double_precision(clocks):
    torch.manual_seed(0)
    leaves = [torch.randn(1, 1, length, 2, dtype=torch.float64, requires_grad=True) for length in (4, 3, 3)]
    pace = 2.0 if clocks == "causal" else None

    def attend(query, key, value):
        return clock_attention(query, key, value, clocks=clocks, pace=pace, impl="portable", phi="softplus")[0]

    assert torch.autograd.gradgradcheck(attend, leaves)


class CountLaunches(TorchDispatchMode):
    """Operations that a GPU would launch: everything but views and empty memory. Fails on matrix products in fp64."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        idle = ("detach", "empty", "_unsafe_view", "promote_types")
        if not function.is_view and not any(word in function.name() for word in idle):
            self.count += 1
        tensors = [x for x in args if isinstance(x, torch.Tensor)]
        assert "mm" not in function.name() or all(x.dtype != torch.float64 for x in tensors), function  # slow on most
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_few_launches_off_the_cpu(dtype):
    """Counted on the meta device, at the paper's sizes: a batch of 48, four heads. No product in fp64 among them."""
    leaves = [torch.empty(48, 4, n, 64, device="meta", dtype=dtype, requires_grad=True) for n in (650, 100, 100)]
    with CountLaunches() as forward:
        output, _ = clock_attention(*leaves, impl="portable", return_weights=False)
    with CountLaunches() as backward:
        torch.autograd.grad(output, leaves, torch.empty_like(output))
    assert forward.count <= 60
    assert backward.count <= 120


@pytest.mark.parametrize(("shape", "tolerance"), [((2, 2, 650, 100, 64, 64), 2e-5), ((1, 1, 4096, 1024, 64, 8), 2e-4)])
def test_distances_of_a_gpu_survive_fp32(shape, tolerance, monkeypatch):
    """The path without fp64 products, run on the CPU."""
    monkeypatch.setattr(
        portable, "block_distance", lambda pair: portable.deviation_distance(pair.query.double(), pair.key.double())
    )
    monkeypatch.setattr(portable, "few_launches", lambda inputs, options: True)
    exact = gradients(features(shape, 1), impl="reference")
    found = gradients(features(shape, 1, torch.float32), impl="portable", return_weights=False)
    assert (found[0] - exact[0]).abs().max() <= tolerance
    for gradient, truth in zip(found[1:], exact[1:], strict=True):
        assert (gradient - truth).abs().max() <= tolerance * max(1.0, float(truth.abs().max()))
