"""The Triton kernels in their interpreter: equal to the fp64 reference.

`benchmarks/triton_interpreter.py` runs thousands of such cases; these are the ones that show each property.
"""

import dataclasses

import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed: make gpu-tools")

from clock_attention import clock_attention
from clock_attention.kernels import triton as kernels
from clock_attention.kernels.triton import geometry, meeting, operator, readings, scores

from .attention_cases import features
from .triton_cases import CLOCKS, Case, judge, patch_interpreter, random_case, run, run_interpreted

pytestmark = [
    pytest.mark.skipif(not kernels.interpreted(), reason="TRITON_INTERPRET is off: `make gpu-check` runs on the GPU"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # the interpreter's numpy, for what is masked afterwards
]
TRITON = {"impl": "triton", "return_weights": False}


@pytest.fixture(autouse=True)
def _interpreter():
    patch_interpreter()


@pytest.mark.parametrize("seed", [3, 424, 1266, *range(6)])
def test_random_problems_are_within_bounds(seed):
    found = judge(random_case(seed))
    assert found["good"], found


@pytest.mark.parametrize("seed", [161, 248, 266, 318, 375, 398, 402, 451, 507, 568, 650, 938, 1051])
def test_rows_with_large_logits_keep_their_gradients(seed):
    """Once out of bounds: a log-sum-exp rounded at the size of the logits, and ∂/∂logit that did not add to 0."""
    found = judge(random_case(seed))
    assert found["good"], found


@pytest.mark.parametrize("seed", [389, 442, 684, 741, 870, 1138])
def test_features_that_hardly_differ_keep_their_clocks(seed):
    """Once out of bounds: a mean rounded to fp32 in the time norm, which is a drift of the clock."""
    found = judge(random_case(seed))
    assert found["good"], found
    assert not found["ill_conditioned"]


def test_the_scales_gradient_is_right_where_clocks_are_far_apart():
    """Once at 0.997 of what is allowed: scores of −2,000, rounded to fp32, in rows whose ∂/∂logit add to 0."""
    found = judge(random_case(53))
    assert found["errors"][-1] <= 2e-5


EVERYTHING = {"content_width": 4, "log_variance_term": True, "padding": "anywhere", "weights": True, "heads": 2}


@pytest.mark.parametrize(
    "case",
    [
        Case(1, queries=1, keys=1),
        Case(2, queries=33, keys=1, **EVERYTHING),
        Case(3, queries=1, keys=33, clocks=CLOCKS[5]),
        Case(4, queries=33, keys=19, width=9, value_width=17, **EVERYTHING),
        Case(5, queries=40, keys=33, full_band=True),
        Case(6, queries=40, keys=33, scale=-0.5),
    ],
    ids=["one-step", "one-key", "one-query", "all-options", "full-band", "negative-scale"],
)
def test_extremes_are_within_bounds(case):
    found = judge(case)
    assert found["good"], found


def test_no_valid_step_at_all_gives_zeros():
    query, key, value = (x.requires_grad_() for x in features((2, 1, 5, 4, 2, 3), 0, torch.float32))
    nothing = torch.tensor([[True] * 4, [False] * 4])
    output, _ = clock_attention(query, key, value, key_padding_mask=nothing, **TRITON)
    assert not output[0].any()
    assert output[1].any()
    gradients = torch.autograd.grad(output.sum(), (query, key, value))
    assert all(g.isfinite().all() and not g[0].any() for g in gradients)


@pytest.mark.parametrize("side", [0, 1])
def test_numbers_that_are_none_are_not_hidden(side):
    inputs = list(features((1, 2, 20, 17, 2, 3), 7, torch.float32))
    inputs[side][0, 0, 10] = torch.nan
    found, _ = clock_attention(*inputs, **TRITON)
    expected, _ = clock_attention(*inputs, impl="reference")
    assert torch.equal(found.isnan(), expected.isnan())


def chosen_tiles(query: torch.Tensor, key: torch.Tensor, cut: geometry.Geometry, **options: object) -> torch.Tensor:
    """[first, last) of every query tile, as `choose_tiles` left them."""
    kept = []
    original = meeting.Meeting.choose_tiles

    def remember(self, *arguments):
        original(self, *arguments)
        kept.append(self.ranges)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(meeting.Meeting, "choose_tiles", remember)
        patch.setattr(geometry, "tile_geometry", lambda *sizes: cut)
        clock_attention(query, key, key, **TRITON, **options)
    return kept[0]


def test_a_sharp_scale_leaves_a_band_of_one_or_two_tiles():
    line = torch.zeros(1, 1, 64, 2)
    ranges = chosen_tiles(line, line, geometry.Geometry(16, 16), logit_scale=1e4)
    assert ((ranges[..., 1] - ranges[..., 0]) <= 2).all()
    assert (ranges[0, 0, :, 0] <= torch.arange(4)).all()
    assert (ranges[0, 0, :, 1] > torch.arange(4)).all()


def test_a_step_never_depends_on_later_queries_bitwise():
    query, key, value = features((1, 1, 37, 20, 2, 3), 5, torch.float32)
    options = {"clocks": "causal", "pace": 2.0, **TRITON}
    output, _ = clock_attention(query, key, value, **options)
    for s in (0, 17, 31):
        changed = query.clone()
        changed[:, :, s + 1 :] = 30 * torch.randn_like(changed[:, :, s + 1 :])
        after, _ = clock_attention(changed, key, value, **options)
        assert torch.equal(after[:, :, : s + 1], output[:, :, : s + 1])


def test_results_are_deterministic():
    case = Case(8, queries=33, keys=33, heads=2)
    assert all(torch.equal(a, b) for a, b in zip(run_interpreted(case), run_interpreted(case), strict=True))


def test_forward_and_backward_find_the_same_bits_for_a_pair():
    """A row with one key has the weight 1 in the backward pass too, however far apart the clocks are."""
    query, key, value = features((1, 1, 40, 40, 2, 3), 21, torch.float32)
    value.requires_grad_()
    output, weights = clock_attention(
        query, key, value, clocks="unnormalized", logit_scale=-30.0, impl="triton", return_weights=True
    )
    assert torch.equal(weights.amax(-1), torch.ones_like(weights[..., 0]))
    (gradient,) = torch.autograd.grad(output.sum(), value)
    torch.testing.assert_close(gradient[..., 0], weights.sum(-2), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("content", [0, 3])
def test_gradients_in_several_launches_equal_those_in_one(content, monkeypatch):
    case = Case(10, queries=20, keys=17, content_width=content)
    expected = run_interpreted(case)
    cut = geometry.Geometry(16, 16, keys_at_once=False)
    monkeypatch.setattr(geometry, "tile_geometry", lambda *sizes: cut)
    found = run_interpreted(dataclasses.replace(case, tiles=None))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_constants_agree():
    assert 1 + readings.EVEN_PULL.value == meeting.FIELDS
    assert scores.SOFTMAX.value == operator.SOFTMAX
    assert run(Case(1), "reference", torch.float64)[0].shape == (1, 1, 17, 3)
