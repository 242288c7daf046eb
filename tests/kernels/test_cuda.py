"""The mathematics of the CUDA path, checked on the CPU: FlexAttention runs there eagerly, forward only."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clock_attention import clock_attention
from clock_attention.clocks import clock_pair
from clock_attention.kernels import cuda
from clock_attention.kernels.interface import AttentionInputs, Wanted
from clock_attention.options import ClockOptions

from .attention_cases import features, padding, shapes

OPTIONS = [
    {"clocks": "normalized"},
    {"clocks": "unnormalized"},
    {"clocks": "causal", "pace": 1.5, "variance": "surrogate"},
    {"clocks": "causal", "pace": 1.5, "variance": "local"},
    {"clocks": "normalized", "variance": "exact", "log_variance_term": True},
]


def run_eagerly(inputs, query_valid, key_valid, scale, **options) -> Tensor:
    pace = options.pop("pace", None)
    given = AttentionInputs(*inputs, scale.reshape(-1, 1, 1), query_valid, key_valid, None, pace)
    return cuda.attend(given, ClockOptions(**options), Wanted(weights=False), compiled=False)[0]


@settings(max_examples=15)
@given(shapes(), st.integers(0, 999), st.sampled_from(OPTIONS))
def test_output_equals_the_reference(shape, seed, options):
    inputs = features(shape, seed)
    query_padding, key_padding = padding(shape[0], shape[2], seed), padding(shape[0], shape[3], seed + 1)
    scale = torch.linspace(0.5, 2.0, shape[1], dtype=torch.float64)
    expected, _ = clock_attention(*inputs, query_padding, key_padding, logit_scale=scale, impl="reference", **options)
    found = run_eagerly(inputs, ~query_padding, ~key_padding, scale, **options)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("shape", "tolerance"), [((1, 2, 650, 100, 64, 64), 2e-5), ((1, 1, 4096, 1024, 64, 16), 2e-4)])
def test_deviations_from_the_mean_clock_survive_the_gram_product_in_fp32(shape, tolerance):
    exact, _ = clock_attention(*features(shape, 1), impl="reference")
    inputs = features(shape, 1, torch.float32)
    valid = [torch.ones(1, n, dtype=torch.bool) for n in shape[2:4]]
    found = run_eagerly(inputs, *valid, torch.ones(1), clocks="normalized")
    literal, _ = clock_attention(*inputs, impl="reference")
    assert (found - exact).abs().max() <= tolerance
    assert (literal - exact).abs().max() > 20 * tolerance


@pytest.mark.parametrize("options", OPTIONS)
def test_gradients_of_the_score_function(options):
    """The score function on all pairs at once, as FlexAttention's backward pass differentiates it."""
    shape = (2, 2, 19, 8, 5, 3)
    inputs = [x.requires_grad_() for x in (*features(shape, 2), torch.tensor([0.7, 1.9], dtype=torch.float64))]
    pace, clock_options = options.get("pace"), ClockOptions(**{k: v for k, v in options.items() if k != "pace"})
    valid = [torch.ones(2, n, dtype=torch.bool) for n in (19, 8)]
    pair = clock_pair(*inputs[:2], *valid, clock_options, pace)
    query, key, score_mod = cuda.meeting(pair, inputs[3], clock_options, torch.float64)
    places = torch.meshgrid(*(torch.arange(n) for n in shape[:4]), indexing="ij")
    logits = score_mod(query @ key.mT, *places)
    found = torch.softmax(logits, -1) @ inputs[2]
    expected, _ = clock_attention(*inputs[:3], logit_scale=inputs[3], impl="reference", **options)
    cotangent = torch.randn_like(expected)
    for a, b in zip(
        torch.autograd.grad(found, inputs, cotangent), torch.autograd.grad(expected, inputs, cotangent), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_rows_and_items_without_keys_are_zero():
    inputs = features((2, 1, 6, 5, 4, 3), 3)
    query_valid, key_valid = torch.ones(2, 6, dtype=torch.bool), torch.ones(2, 5, dtype=torch.bool)
    query_valid[0, 4:], key_valid[1] = False, False
    found = run_eagerly(inputs, query_valid, key_valid, torch.ones(1), clocks="normalized")
    assert torch.isfinite(found).all()
    assert not found[0, :, 4:].any()
    assert not found[1].any()
    assert found[0, :, :4].any()


def test_a_cpu_tensor_is_refused_by_name():
    with pytest.raises(ValueError, match="CUDA devices only"):
        clock_attention(*features((1, 1, 4, 3, 2, 2), 4, torch.float32), impl="cuda")
