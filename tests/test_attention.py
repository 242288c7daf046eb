"""What anyone may rely on when calling `clock_attention`, whichever implementation answers."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from clock_attention import clock_attention
from clock_attention import clocks as C
from clock_attention.kernels import reference
from clock_attention.kernels.reference import gram_distance

from .kernels.attention_cases import features, gradients, padding, shapes

IMPLEMENTATIONS = ["reference", "portable", "auto"]
CLOCKS = [{"clocks": "normalized"}, {"clocks": "unnormalized"}, {"clocks": "causal", "pace": 2.0}]


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@given(shape=shapes(), seed=st.integers(0, 999), options=st.sampled_from(CLOCKS))
def test_padding_may_hold_anything(impl, shape, seed, options):
    query, key, value = features(shape, seed)
    masks = {
        "query_padding_mask": padding(shape[0], shape[2], seed),
        "key_padding_mask": padding(shape[0], shape[3], seed + 1),
    }
    clean = gradients((query, key, value), impl=impl, **masks, **options)
    q_pad, k_pad = masks["query_padding_mask"][:, None, :, None], masks["key_padding_mask"][:, None, :, None]
    dirty = (
        query.masked_fill(q_pad, torch.nan),
        key.masked_fill(k_pad, torch.inf),
        value.masked_fill(k_pad, torch.nan),
    )
    found = gradients(dirty, impl=impl, **masks, **options)
    for a, b in zip(found, clean, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    assert (clean[0].masked_select(q_pad) == 0).all()


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("options", CLOCKS)
def test_a_batch_equals_its_items_run_alone(impl, options):
    shape = (3, 2, 41, 23, 6, 5)
    query, key, value = features(shape, 0)
    lengths, tokens = [41, 7, 1], [5, 23, 1]
    together, weights = clock_attention(
        query,
        key,
        value,
        query_padding_mask=torch.arange(41) >= torch.tensor(lengths)[:, None],
        key_padding_mask=torch.arange(23) >= torch.tensor(tokens)[:, None],
        impl=impl,
        **options,
    )
    for item, (s, t) in enumerate(zip(lengths, tokens, strict=True)):
        one = slice(item, item + 1)
        alone, alone_weights = clock_attention(
            query[one, :, :s], key[one, :, :t], value[one, :, :t], impl=impl, **options
        )
        torch.testing.assert_close(together[one, :, :s], alone)
        torch.testing.assert_close(weights[one, :, :s, :t], alone_weights)
        assert (weights[one, :, :, t:] == 0).all()


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_rows_with_no_allowed_key_are_zero_in_output_and_gradient(impl):
    query, key, value = features((2, 2, 6, 4, 3, 3), 1)
    forbidden = torch.zeros(6, 4, dtype=torch.bool)
    forbidden[2] = True
    all_padding = torch.tensor([[False] * 4, [True] * 4])
    output, grad_q, grad_k, grad_v = gradients(
        (query, key, value), key_padding_mask=all_padding, attn_mask=forbidden, impl=impl
    )
    assert (output[0, :, 2] == 0).all()
    assert (output[1] == 0).all()
    for gradient in (grad_q, grad_k, grad_v):
        assert torch.isfinite(gradient).all()
        assert (gradient[1] == 0).all()


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_attn_mask_forbids_or_adds(impl):
    query, key, value = features((2, 2, 6, 5, 3, 3), 2)
    forbidden = torch.rand(2, 1, 6, 5) < 0.4
    forbidden[..., 0] = False
    _, weights = clock_attention(query, key, value, attn_mask=forbidden, impl=impl)
    assert (weights.masked_select(forbidden) == 0).all()
    additive = torch.zeros(2, 1, 6, 5, dtype=torch.float64).masked_fill(forbidden, -torch.inf)
    _, same = clock_attention(query, key, value, attn_mask=additive, impl=impl)
    torch.testing.assert_close(same, weights)
    bias = torch.randn(6, 5, dtype=torch.float64)
    _, biased = clock_attention(query, key, value, attn_mask=bias, impl=impl)
    _, plain = clock_attention(query, key, value, impl=impl)
    torch.testing.assert_close(biased, torch.softmax(plain.log() + bias, -1))


def test_reduces_to_scaled_dot_product_attention():
    """Paper, end of section II: λ := η, Σ² := 1, and norms that are constant in t leave q·k/√d."""
    eta_s = torch.randn(2, 3, 7, 16, dtype=torch.float64)
    eta_t = F.normalize(torch.randn(2, 3, 5, 16, dtype=torch.float64), dim=-1) * 4.0  # (iii): constant norms
    value = torch.randn(2, 3, 5, 16, dtype=torch.float64)
    score = -gram_distance(eta_s, eta_t) / (2 * 16**0.5 * 1.0)  # (i) the raw feature is the clock, (ii) Σ² = 1
    reduced = torch.softmax(score, -1) @ value
    torch.testing.assert_close(reduced, F.scaled_dot_product_attention(eta_s, eta_t, value))


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize(("targets", "sources"), [(500, 3), (3, 500), (1, 1), (1, 9), (9, 1)])
def test_lopsided_lengths(impl, targets, sources):
    query, key, value = features((1, 1, targets, sources, 5, 2), 3)
    output, weights = clock_attention(query, key, value, impl=impl)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, targets, dtype=torch.float64))
    assert output.shape == (1, 1, targets, 2)


def test_alignment_is_monotone_and_covers_both_ends():
    """No training: random features already give a path from the first token to the last."""
    query, key, value = features((1, 4, 300, 40, 64, 8), 4)
    _, weights = clock_attention(query, key, value)
    path = (weights @ torch.arange(40, dtype=torch.float64)[:, None]).squeeze(-1)  # expected token (1, 4, 300)
    assert (path.diff(dim=-1) > -0.25).all()
    assert path[..., 0].max() < 0.5
    assert path[..., -1].min() > 38.5


def test_logit_scale_sharpens_each_head_by_its_own_factor():
    query, key, value = features((1, 2, 30, 10, 8, 8), 5)
    _, plain = clock_attention(query, key, value)
    _, scaled = clock_attention(query, key, value, logit_scale=torch.tensor([1.0, 3.0]))
    torch.testing.assert_close(scaled[:, 0], plain[:, 0])
    torch.testing.assert_close(scaled[:, 1], torch.softmax(3 * plain[:, 1].log(), -1), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("norm", C.CAUSAL_NORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_causal_clocks_are_bitwise_blind_to_later_queries_and_to_neighbours(impl, norm, dtype):
    query, key, value = features((2, 2, 150, 40, 8, 8), 6, dtype)
    options = {"clocks": "causal", "pace": 4.0, "causal_norm": norm, "impl": impl}
    before, _ = clock_attention(query, key, value, **options)
    for s in (0, 1, 63, 64, 100):
        changed = query.clone()
        changed[:, :, s + 1 :] = 50 * torch.randn_like(changed[:, :, s + 1 :])
        after, _ = clock_attention(changed, key, value, **options)
        assert torch.equal(after[:, :, : s + 1], before[:, :, : s + 1])
    neighbour = query.clone()
    neighbour[1] = torch.randn_like(neighbour[1])
    assert torch.equal(clock_attention(neighbour, key, value, **options)[0][0], before[0])


def test_local_variance_is_as_sharp_for_long_sequences_as_for_short_ones():
    """Even clocks: the diffusive variance blurs with length, the local one does not."""

    def width(tokens, variance):
        query, key = torch.ones(1, 1, 4 * tokens, 8), torch.ones(1, 1, tokens, 8)
        query, key = query.double(), key.double()
        _, weights = clock_attention(
            query * 0, key * 0, key, clocks="causal", causal_norm="none", pace=4.0 * 0.5 / C.mean_rate("rational"),
            variance=variance,
        )  # fmt: skip
        middle = weights[0, 0, 2 * tokens]
        place = torch.arange(tokens, dtype=torch.float64)
        return float((middle * (place - (middle * place).sum()).square()).sum())

    assert width(160, "surrogate") > 5 * width(20, "surrogate")
    assert width(160, "local") == pytest.approx(width(20, "local"), rel=0.2)


def test_pace_per_item_moves_only_that_item():
    query, key, value = features((2, 1, 60, 10, 8, 8), 7)
    position = torch.arange(10, dtype=torch.float64)

    def reached(pace):
        _, weights = clock_attention(query, key, value, clocks="causal", pace=pace)
        return weights[:, 0, -1] @ position

    slow, mixed = reached(12.0), reached(torch.tensor([12.0, 3.0]))
    assert mixed[0] == slow[0]
    assert mixed[1] > slow[1] + 2


def in_segments(batch: int, length: int, count: int, seed: int) -> torch.Tensor:
    """`count` segments of random lengths, none empty.  (B, L)"""
    g = torch.Generator().manual_seed(seed)
    starts = torch.stack([torch.randperm(length - 1, generator=g)[: count - 1].sort().values + 1 for _ in range(batch)])
    return (torch.arange(length)[None, :, None] >= starts[:, None]).sum(-1)


@pytest.mark.parametrize("impl", ["portable", "banded"])
def test_segments_and_ranges_equal_the_reference(impl):
    shape = (2, 2, 41, 23, 6, 5)
    padded = {
        "query_padding_mask": torch.arange(41) >= torch.tensor([[41], [30]]),
        "key_padding_mask": torch.arange(23) >= torch.tensor([[20], [23]]),
    }
    segments = in_segments(2, 41, 3, 0), in_segments(2, 23, 3, 1)
    partly = torch.arange(41).div(20, rounding_mode="floor")[None].expand(2, -1) * 2 + 1  # neither 0 nor 2, but 5
    weights = torch.softmax(torch.randn(2, 2, 2, 23, dtype=torch.float64), -1)
    weights = weights.masked_fill(padded["key_padding_mask"][:, None, None], 0.0)
    for options in (
        {"segments": segments},
        {"segments": (partly, torch.arange(23).div(4, rounding_mode="floor")[None].expand(2, -1))},
        {"target_range": (0.2, torch.tensor([0.5, 0.9], dtype=torch.float64))},
        {"target_range": (weights[:, :, 0] * 0.1, weights[:, :, 1]), "variance": "exact"},
        {"segments": segments, "target_range": (torch.rand(2, 2).double() / 4, 1.0)},
    ):
        expected = gradients(features(shape, 8), impl="reference", **padded, **options)
        dtype, tolerance = (torch.float64, 1e-6) if impl == "portable" else (torch.float32, 1e-4)
        found = gradients(features(shape, 8, dtype), impl=impl, **padded, **options)
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a.double(), b, rtol=tolerance, atol=tolerance * max(1.0, float(b.abs().max())))


def test_one_segment_and_the_whole_range_are_the_plain_clocks():
    query, key, value = features((2, 2, 31, 17, 6, 5), 9)
    plain, _ = clock_attention(query, key, value)
    one = torch.zeros(2, 31, dtype=torch.long), torch.zeros(2, 17, dtype=torch.long)
    torch.testing.assert_close(clock_attention(query, key, value, segments=one)[0], plain)
    torch.testing.assert_close(clock_attention(query, key, value, target_range=(0, 1))[0], plain)


def test_every_segment_starts_at_the_same_reading_of_both_clocks():
    query, key, value = features((2, 2, 60, 25, 6, 5), 10)
    segments = in_segments(2, 60, 4, 2), in_segments(2, 25, 4, 3)
    _, weights, clocks = clock_attention(query, key, value, segments=segments, return_clocks=True)
    for clock in (clocks.query, clocks.key):
        assert (clock.diff(dim=-2) >= 0).all()
    for item in range(2):
        for segment in range(4):
            first = [int((numbers[item] == segment).nonzero()[0]) for numbers in segments]
            torch.testing.assert_close(clocks.query[item, :, first[0]], clocks.key[item, :, first[1]])
    inside = segments[0][:, None, :, None] == segments[1][:, None, None]  # (B, 1, S, T)
    _, plain = clock_attention(query, key, value)
    assert (weights * inside).sum(-1).mean() > (plain * inside).sum(-1).mean() + 0.2  # attention stays in its segment


def test_a_segment_that_one_side_lacks_does_not_shift_those_after_it():
    query, key, value = features((1, 2, 8, 9, 6, 5), 10)
    segments = torch.tensor([[0, 0, 0, 0, 2, 2, 2, 2]]), torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2, 2]])
    _, _, clocks = clock_attention(query, key, value, segments=segments, return_clocks=True)
    torch.testing.assert_close(clocks.query[0, :, 4], clocks.key[0, :, 6])
    torch.testing.assert_close(clocks.query[0, :, -1], torch.ones_like(clocks.query[0, :, -1]))
    starting = torch.tensor([[1] * 4 + [2] * 4]), segments[1]
    _, _, clocks = clock_attention(query, key, value, segments=starting, return_clocks=True)
    torch.testing.assert_close(clocks.query[0, :, 0], clocks.key[0, :, 3])


def test_a_cropped_target_attends_to_its_range_only():
    query, key, value = features((1, 2, 80, 100, 16, 5), 11)
    place = torch.arange(100, dtype=torch.float64)
    _, weights = clock_attention(query, key, value, target_range=(0.3, 0.6))
    position = weights @ place
    torch.testing.assert_close(position[..., 0], torch.full((1, 2), 30.0, dtype=torch.float64), atol=4.0, rtol=0)
    torch.testing.assert_close(position[..., -1], torch.full((1, 2), 59.0, dtype=torch.float64), atol=4.0, rtol=0)
    ends = [torch.tensor([[x]], dtype=torch.float64, requires_grad=True) for x in (0.3, 0.6)]
    output, _ = clock_attention(query[:, :1], key[:, :1], value[:, :1], target_range=tuple(ends))
    assert all(gradient.abs() > 0 for gradient in torch.autograd.grad(output.square().sum(), ends))


def test_ranges_may_be_transformed_and_may_be_rounded():
    query, key, value = features((3, 2, 9, 7, 6, 5), 12)
    starts = torch.tensor([0.0, 0.2, 0.4], dtype=torch.float64)

    def attend(q, k, v, start):
        return clock_attention(q[None], k[None], v[None], target_range=(start, 1.000001))[0][0]

    found = torch.func.vmap(attend)(query, key, value, starts)
    torch.testing.assert_close(
        found, clock_attention(query, key, value, target_range=(starts, 1.0))[0], rtol=1e-4, atol=1e-4
    )


Q, K, V = (torch.zeros(2, 3, n, 4) for n in (5, 6, 6))
STEADY = torch.zeros(2, 5, dtype=torch.long), torch.zeros(2, 6, dtype=torch.long)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((Q[0], K, V), {}, r"query: got shape \(3, 5, 4\).*4 dimensions"),
        ((Q, K[:, :2], V), {}, r"key: got shape \(2, 2, 6, 4\).*\(2, 3, T, 4\)"),
        ((Q, K, V[:, :, :5]), {}, r"value: got shape \(2, 3, 5, 4\).*\(2, 3, 6, Dv\)"),
        ((Q, K[:, :, :0], V[:, :, :0]), {}, r"key: got shape \(2, 3, 0, 4\).*at least one step"),
        ((Q.long(), K, V), {}, r"query: got dtype torch.int64"),
        ((Q, K, V), {"key_padding_mask": torch.zeros(2, 6)}, r"key_padding_mask: got dtype.*True = padding"),
        ((Q, K, V), {"query_padding_mask": torch.zeros(2, 6, dtype=torch.bool)}, r"query_padding_mask: got shape"),
        ((Q, K, V), {"attn_mask": torch.zeros(5, 7)}, r"attn_mask: got shape \(5, 7\).*\(2, 3, 5, 6\)"),
        ((Q, K, V), {"attn_mask": torch.zeros(5, 6, dtype=torch.long)}, r"attn_mask: got dtype torch.int64"),
        ((Q, K, V), {"clocks": "standard"}, r"clocks: got 'standard'.*'normalized'"),
        ((Q, K, V), {"variance": "none"}, r"variance: got 'none'.*'surrogate'"),
        ((Q, K, V), {"variance": "local"}, r"variance: got 'local' with clocks='normalized'"),
        ((Q, K, V), {"impl": "flash"}, r"impl: got 'flash'.*'portable'"),
        ((Q, K, V), {"phi": "relu"}, r"phi: got 'relu'"),
        ((Q, K, V), {"logit_scale": torch.ones(2)}, r"logit_scale: got 2 values.*3 heads"),
        ((Q, K, V), {"clocks": "causal"}, r"pace: got None"),
        ((Q, K, V), {"pace": 2.0}, r"pace: got 2.0 with clocks='normalized'"),
        ((Q, K, V), {"clocks": "causal", "pace": -1.0}, r"pace: got -1.0, expected a positive"),
        ((Q, K, V), {"clocks": "causal", "pace": torch.ones(3)}, r"pace: got shape \(3,\)"),
        ((Q, K, V), {"content": torch.zeros(2, 3, 5, 5)}, r"content: got scores of shape .*\(2, 3, 5, 6\)"),
        ((Q, K, V), {"content": (Q, K[:, :2])}, r"content: got key features of shape \(2, 2, 6, 4\)"),
        ((Q, K, V), {"content": (Q, K[..., :3])}, r"content: got 4 channels for queries and 3 for keys"),
        ((Q, K, V), {"content": (Q, K, V)}, r"content: got 3 tensors, expected a pair"),
        ((Q, K, V), {"segments": (torch.zeros(2, 5),) * 2}, r"segments: got \(2, 5\) of torch.float32 for the query"),
        (
            (Q, K, V),
            {"segments": (torch.zeros(2, 5).long(), torch.ones(2, 6).long().cumsum(1).flip(1))},
            r"decreasing numbers for the key",
        ),
        (
            (Q, K, V),
            {"segments": (torch.zeros(2, 5).long(), torch.zeros(2, 6).long()), "variance": "exact"},
            r"surrogate",
        ),
        ((Q, K, V), {"target_range": (0.5, 0.2)}, r"target_range: got \(0.5, 0.2\), expected 0 ≤ start ≤ end ≤ 1"),
        ((Q, K, V), {"target_range": (10, 30)}, r"target_range: got \(10, 30\), .*divide positions in steps"),
        ((Q, K, V), {"target_range": (-0.1, 0.5)}, r"target_range: got \(-0.1, 0.5\), expected 0 ≤ start"),
        ((Q, K, V), {"target_range": (float("nan"), 1.0)}, r"target_range: got \(nan, 1.0\), expected 0 ≤ start"),
        ((Q, K, V), {"target_range": (0.2, 0.5, 0.7)}, r"target_range: got .*expected a pair \(start, end\)"),
        ((Q, K, V), {"target_range": 0.5}, r"target_range: got 0.5, expected a pair \(start, end\)"),
        ((Q, K, V), {"target_range": (torch.zeros(3), 1.0)}, r"target_range: got shape \(3,\)"),
        ((Q, K, V), {"target_range": (0, 1), "clocks": "unnormalized"}, r"target_range: got clocks='unnormalized'"),
        ((Q, K, V), {"content": (Q.long(), K)}, r"content: got query features of torch.int64"),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_wants(arguments, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        clock_attention(*arguments, **options)


@pytest.mark.parametrize("impl", ["auto", "banded", "portable", "reference"])
@pytest.mark.parametrize(
    "name", ["key", "value", "query_padding_mask", "key_padding_mask", "attn_mask", "content", "segments"]
)
def test_tensors_of_different_devices_are_named(impl, name):
    """The meta device stands in for a GPU; such a call must not read memory that is not there."""
    given = {
        "key": K,
        "value": V,
        "query_padding_mask": torch.zeros(2, 5, dtype=torch.bool),
        "key_padding_mask": torch.zeros(2, 6, dtype=torch.bool),
        "attn_mask": torch.zeros(5, 6),
        "content": (Q, K),
        "segments": STEADY,
    }
    used = {"key": K, "value": V, name: given[name]}
    elsewhere = used[name].to("meta") if torch.is_tensor(used[name]) else (used[name][0], used[name][1].to("meta"))
    with pytest.raises(ValueError, match=rf"{name}: got a tensor on meta, expected it on cpu"):
        clock_attention(Q, **{**used, name: elsewhere}, impl=impl)


def test_the_environment_replaces_auto(monkeypatch):
    inputs = features((1, 1, 5, 4, 2, 2), 1, torch.float32)
    called = []
    monkeypatch.setattr(reference, "attend", lambda *arguments: called.append(1) or (inputs[2], None, None, None))
    monkeypatch.setenv("CLOCK_ATTENTION_IMPL", "reference")
    clock_attention(*inputs)
    assert called
    clock_attention(*inputs, impl="portable")
    assert len(called) == 1
    monkeypatch.setenv("CLOCK_ATTENTION_IMPL", "nonsense")
    with pytest.raises(ValueError, match="CLOCK_ATTENTION_IMPL: got 'nonsense'"):
        clock_attention(*inputs)
