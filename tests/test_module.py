"""ClockAttention can stand where nn.MultiheadAttention stood."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from clock_attention import ClockAttention, clock_attention
from clock_attention.alignment import measure_quality

OLD = {"embed_dim": 12, "num_heads": 3}


def inputs(batch=2, targets=9, sources=5, width=12):
    return torch.randn(batch, targets, width), torch.randn(batch, sources, width)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("average", [True, False])
def test_call_and_return_value_are_those_of_multihead_attention(batch_first, average):
    query, memory = inputs()
    if not batch_first:
        query, memory = query.transpose(0, 1), memory.transpose(0, 1)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    old = nn.MultiheadAttention(12, 3, batch_first=batch_first)
    new = ClockAttention(12, 3, batch_first=batch_first, out_proj=True)
    arguments = {"key_padding_mask": padding, "average_attn_weights": average}
    old_output, old_weights = old(query, memory, memory, **arguments)
    output, weights = new(query, memory, memory, **arguments)
    assert output.shape == old_output.shape
    assert weights.shape == old_weights.shape
    assert (weights[1, ..., 3:] == 0).all()
    assert new(query, memory, memory, need_weights=False)[1] is None
    counts = [sum(p.numel() for p in m.parameters()) for m in (old, new)]
    assert counts[1] == counts[0] + 3  # the logit scales


def test_unbatched_input_equals_a_batch_of_one():
    query, memory = inputs(batch=1)
    attention = ClockAttention(12, 3)
    together = attention(query, memory, memory)
    alone = attention(query[0], memory[0], memory[0])
    for a, b in zip(alone, together, strict=True):
        torch.testing.assert_close(a, b[0])


def test_masks_in_every_form_multihead_attention_takes():
    query, memory = inputs()
    attention = ClockAttention(12, 3)
    forbidden = torch.zeros(9, 5, dtype=torch.bool)
    forbidden[:, 1] = True
    expected, _ = attention(query, memory, memory, attn_mask=forbidden)
    per_head = forbidden.expand(6, 9, 5)
    torch.testing.assert_close(attention(query, memory, memory, attn_mask=per_head)[0], expected)
    additive = torch.zeros(9, 5).masked_fill(forbidden, -torch.inf)
    torch.testing.assert_close(attention(query, memory, memory, attn_mask=additive)[0], expected)
    padding = torch.tensor([[False] * 4 + [True]] * 2)
    as_float = torch.zeros(2, 5).masked_fill(padding, -torch.inf)
    torch.testing.assert_close(
        attention(query, memory, memory, key_padding_mask=as_float)[0],
        attention(query, memory, memory, key_padding_mask=padding)[0],
    )
    with pytest.raises(ValueError, match=r"key_padding_mask: got a float mask.*attn_mask"):
        attention(query, memory, memory, key_padding_mask=torch.randn(2, 5))


def test_heads_are_split_as_multihead_attention_splits_them():
    query, memory = inputs()
    attention = ClockAttention(12, 3)
    heads = [
        clock_attention(*(p(x)[..., None, 4 * h : 4 * h + 4].transpose(1, 2) for p, x in zip(
            (attention.q_proj, attention.k_proj, attention.v_proj), (query, memory, memory), strict=True
        )))[0]
        for h in range(3)
    ]  # fmt: skip
    torch.testing.assert_close(attention(query, memory, memory)[0], torch.cat(heads, -1).squeeze(1))


def test_query_padding_reaches_the_clock():
    query, memory = inputs(targets=9)
    attention = ClockAttention(12, 3)
    padding = torch.arange(9) >= torch.tensor([[9], [4]])
    masked, _ = attention(query, memory, memory, query_padding_mask=padding)
    alone, _ = attention(query[1:, :4], memory[1:], memory[1:])
    torch.testing.assert_close(masked[1:, :4], alone)
    unmasked, _ = attention(query, memory, memory)
    assert (unmasked[1:, :4] - alone).abs().max() > 1e-3


def test_dropout_acts_on_the_weights_in_training_only():
    query, memory = inputs(targets=50)
    attention = ClockAttention(12, 3, dropout=0.5)
    memory[0, 3:] = torch.nan
    padding = torch.tensor([[False] * 3 + [True] * 2, [False] * 5])
    dropped = attention(query, memory, memory, key_padding_mask=padding)[0]
    assert torch.isfinite(dropped).all()
    attention.eval()
    kept = attention(query, memory, memory, key_padding_mask=padding)[0]
    assert not torch.allclose(dropped, kept)
    torch.testing.assert_close(kept, attention(query, memory, memory, key_padding_mask=padding)[0])


def test_keys_and_values_of_other_widths():
    attention = ClockAttention(12, 3, kdim=7, vdim=5, bias=False, logit_scale=2.0)
    output, _ = attention(torch.randn(2, 9, 12), torch.randn(2, 4, 7), torch.randn(2, 4, 5))
    assert output.shape == (2, 9, 12)
    assert sorted(name for name, _ in attention.named_parameters()) == [
        "k_proj.weight",
        "q_proj.weight",
        "v_proj.weight",
    ]


def test_nothing_of_a_call_is_kept():
    query, memory = inputs()
    attention = ClockAttention(12, 3, clocks="causal", pace=2.0)
    before = {k: v.clone() for k, v in attention.state_dict().items()}, set(vars(attention))
    attention(query, memory, memory)
    assert set(vars(attention)) == before[1]
    assert all(torch.equal(v, before[0][k]) for k, v in attention.state_dict().items())


def test_pace_is_saved_with_the_weights_and_overridden_per_call():
    query, memory = inputs(targets=30)
    attention = ClockAttention(12, 3, clocks="causal", pace=2.0)
    attention.set_pace(5.0)
    other = ClockAttention(12, 3, clocks="causal")
    other.load_state_dict(attention.state_dict())
    torch.testing.assert_close(other(query, memory, memory)[0], attention(query, memory, memory)[0])
    slow = attention(query, memory, memory, pace=torch.tensor([5.0, 9.0]))[0]
    torch.testing.assert_close(slow[0], attention(query, memory, memory)[0][0])
    assert not torch.allclose(slow[1], attention(query, memory, memory)[0][1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_heads": 5}, r"embed_dim=12, num_heads=5"),
        ({"clocks": "wall"}, r"clocks: got 'wall'"),
        ({"causal_norm": "batch"}, r"causal_norm: got 'batch'"),
        ({"logit_scale": "big"}, r"logit_scale: got 'big'"),
        ({"phi": "relu"}, r"phi: got 'relu'"),
        ({"clocks": "causal", "pace": 0.0}, r"pace: got 0.0"),
        ({"variance": "local"}, r"variance: got 'local' with clocks='normalized'"),
        ({"clock_width": 0}, r"clock_width: got 0"),
        ({"pace": 5.0}, r"clocks='normalized' take neither pace nor causal_norm"),
        ({"causal_norm": "rms"}, r"clocks='normalized' take neither pace nor causal_norm"),
        ({"clocks": "causal", "causal_norm": "channel", "clock_width": 1}, r"causal_norm: got 'channel' with one"),
        ({"impl": "fast"}, r"impl: got 'fast'"),
    ],
)
def test_wrong_options_are_refused_when_the_module_is_built(options, message):
    with pytest.raises(ValueError, match=message):
        ClockAttention(**{**OLD, **options})


def test_scalar_clocks_pass_no_token_over_and_never_come_back():
    """One channel per head: the nearest token is a step function of the reading, whatever the features."""
    attention = ClockAttention(16, 2, clocks="causal", clock_width=1, pace=40.0, out_proj=True)
    assert attention.q_proj.weight.shape == (2, 16)
    query, memory = 3 * torch.randn(1, 1500, 16), 3 * torch.randn(1, 12, 16)
    output, weights = attention(query, memory, memory, average_attn_weights=False)
    assert output.shape == (1, 1500, 16)
    for head in weights[0]:
        quality = measure_quality(head)
        assert (quality.skipped, quality.repeated) == (0, 0)


def test_only_causal_clocks_can_be_stepped():
    attention = ClockAttention(12, 3)
    with pytest.raises(ValueError, match="needs clocks='causal'"):
        attention.start(torch.randn(1, 5, 12))
    with pytest.raises(ValueError, match="take no pace"):
        attention.set_pace(3.0)


@pytest.mark.parametrize("clocks", ["normalized", "unnormalized", "causal"])
def test_nothing_in_the_padding_reaches_a_parameter(clocks):
    torch.manual_seed(0)
    attention = ClockAttention(8, 2, clocks=clocks, out_proj=True)
    query, memory = torch.randn(2, 6, 8), torch.randn(2, 5, 8)
    masks = {
        "key_padding_mask": torch.arange(5) >= torch.tensor([[5], [3]]),
        "query_padding_mask": torch.arange(6) >= torch.tensor([[4], [6]]),
    }

    def gradients(fill):
        keys = memory.masked_fill(masks["key_padding_mask"][..., None], fill)
        queries = query.masked_fill(masks["query_padding_mask"][..., None], fill)
        output, _ = attention(queries, keys, keys, **masks)
        return torch.autograd.grad(output.square().sum(), tuple(attention.parameters()))

    for found, expected in zip(gradients(float("nan")), gradients(0.0), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("clocks", ["normalized", "causal"])
def test_shapes_can_be_planned_on_the_meta_device(clocks):
    with torch.device("meta"):
        attention = ClockAttention(8, 2, clocks=clocks)
        output, weights = attention(torch.empty(2, 6, 8), torch.empty(2, 5, 8), torch.empty(2, 5, 8))
        if clocks == "causal":
            state = attention.start(torch.empty(2, 5, 8), margin=1.0)
            assert attention.step(torch.empty(2, 8), state)[0].shape == (2, 8)
    assert output.shape == (2, 6, 8)
    assert weights.shape == (2, 6, 5)
    attention = attention.to_empty(device="cpu")
    attention.reset_parameters()
    assert (attention.logit_scale == 1).all()
    assert clocks == "normalized" or attention.pace == 1


def test_a_learned_rate_function_is_trained():
    class Rate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.slope = torch.nn.Parameter(torch.ones(()))

        def forward(self, x):
            return torch.nn.functional.softplus(self.slope * x)

    for clocks in ("normalized", "causal"):
        attention = ClockAttention(8, 2, clocks=clocks, phi=Rate())
        attention(torch.randn(2, 6, 8), torch.randn(2, 5, 8), torch.randn(2, 5, 8))[0].sum().backward()
        assert attention.phi.slope.grad.abs() > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": torch.randn(1, 2, 6, 8)}, r"query: got shape \(1, 2, 6, 8\), expected \(steps, 8\)"),
        ({"query": torch.randn(2, 6, 4)}, r"query: got shape \(2, 6, 4\), expected \(batch, steps, 8\)"),
        ({"key": torch.randn(5, 8)}, r"key: got shape \(5, 8\), expected \(batch, steps, 8\)"),
        ({"attn_mask": torch.zeros(2, 6, 5)}, r"attn_mask: got shape \(2, 6, 5\), expected \(S, T\), or .*2 · 2"),
        ({"key_padding_mask": torch.zeros(2, 6, dtype=torch.bool)}, r"key_padding_mask: got shape \(2, 6\)"),
    ],
)
def test_wrong_shapes_are_named(arguments, message):
    usual = {"query": torch.randn(2, 6, 8), "key": torch.randn(2, 5, 8), "value": torch.randn(2, 5, 8)}
    with pytest.raises(ValueError, match=message):
        ClockAttention(8, 2)(**(usual | arguments))


@pytest.mark.parametrize("batch_first", [True, False])
def test_shapes_of_the_other_layout_are_named(batch_first):
    """nn.MultiheadAttention has the batch second by default, ClockAttention first."""
    attention = ClockAttention(8, 2, batch_first=batch_first)
    lengths = ((6, 2), (5, 2)) if batch_first else ((2, 6), (2, 5))
    query, key = (torch.randn(*length, 8) for length in lengths)
    message = rf"dimension {int(not batch_first)}, because batch_first={batch_first}"
    with pytest.raises(ValueError, match=message):
        attention(query, key, key)
    layout = r"\(batch, steps, 8\)" if batch_first else r"\(steps, batch, 8\)"
    with pytest.raises(ValueError, match=rf"query: got shape \(6, 2, 4\), expected {layout}"):
        attention(torch.randn(6, 2, 4), key, key)


def test_content_is_evidence_in_addition_to_the_clocks():
    """logit = logit_scale · clock score + q·k/√C; with the clocks' scale at 0, plain dot-product attention."""
    torch.manual_seed(0)
    attention = ClockAttention(12, 3, content_dim=5, logit_scale=0.0)
    query, memory = inputs()
    output, weights = attention(query, memory, memory, average_attn_weights=False)
    q, k, v = (
        attention.heads(p(x))
        for p, x in (
            (attention.content_q_proj, query), (attention.content_k_proj, memory), (attention.v_proj, memory)
        )
    )  # fmt: skip
    expected = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    torch.testing.assert_close(output, expected)
    attention.logit_scale = 1.5
    plain = ClockAttention(12, 3, logit_scale=1.5)
    plain.load_state_dict({n: t for n, t in attention.state_dict().items() if "content" not in n})
    _, clocks_alone = plain(query, memory, memory, average_attn_weights=False)
    _, both = attention(query, memory, memory, average_attn_weights=False)
    torch.testing.assert_close(both, torch.softmax(clocks_alone.log() + weights.log(), -1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch_first", [True, False])
def test_clocks_and_logits_are_handed_out(batch_first):
    attention = ClockAttention(12, 3, batch_first=batch_first)
    query, memory = inputs()
    if not batch_first:
        query, memory = query.transpose(0, 1), memory.transpose(0, 1)
    plain, _ = attention(query, memory, memory)
    output, weights, clocks, logits = attention(
        query, memory, memory, average_attn_weights=False, return_clocks=True, return_logits=True
    )
    torch.testing.assert_close(output, plain, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(torch.softmax(logits, -1), weights)
    assert (clocks.query.diff(dim=-2) >= 0).all()
    assert clocks.query.shape == (2, 3, 9, 4)
    assert clocks.key.shape == (2, 3, 5, 4)
    _, none, made = attention(query, memory, memory, need_weights=False, return_clocks=True)
    assert none is None
    torch.testing.assert_close(made.key, clocks.key)


def test_a_learned_scale_is_positive_and_old_values_keep_their_meaning():
    attention = ClockAttention(12, 3)
    values = torch.tensor([0.1, 1.0, 24.0])
    attention.load_state_dict(attention.state_dict() | {"logit_scale": values})
    assert torch.equal(attention.scale(), values)
    with torch.no_grad():
        attention.logit_scale.copy_(torch.tensor([-3.0, 0.0, 0.0999]))
    scale = attention.scale().detach()
    assert (scale > 0).all()
    assert (scale.diff() > 0).all()
    assert float(scale[2]) == pytest.approx(0.0999, abs=1e-6)
    query, memory = inputs()
    attention(query, memory, memory)[0].square().sum().backward()
    assert attention.logit_scale.grad.isfinite().all()
    assert attention.logit_scale.grad.abs().min() > 0
    assert ClockAttention(12, 3, logit_scale=-1.0).scale() == -1.0  # a constant is the caller's choice
    assert ClockAttention(12, 3, logit_scale=np.float32(2)).scale() == 2.0  # and may be NumPy's


@pytest.mark.parametrize("impl", ["auto", "portable", "reference"])
@pytest.mark.parametrize("clocks", ["normalized", "causal"])
def test_a_rate_function_that_goes_negative_is_refused(impl, clocks):
    query, memory = inputs()
    attention = ClockAttention(12, 3, phi=torch.tanh, impl=impl, clocks=clocks)
    with pytest.raises(ValueError, match=r"phi: got a function that returns -.*expected values ≥ 0"):
        attention(query, memory, memory)


def test_padding_of_targets_that_cannot_be_known_is_warned_of_once():
    """torch's own decoder layer passes its cross-attention no mask of the targets."""
    layer = nn.TransformerDecoderLayer(12, 3, batch_first=True)
    layer.multihead_attn = ClockAttention(12, 3)
    query, memory = inputs()
    padded = torch.arange(5) >= torch.tensor([[5], [3]])
    with pytest.warns(UserWarning, match=r"no query_padding_mask.*ClockDecoderLayer"):
        layer(query, memory, memory_key_padding_mask=padded)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(query, memory, memory_key_padding_mask=padded)  # said once
        for attention, masks in (
            (ClockAttention(12, 3), {"query_padding_mask": torch.zeros(2, 9, dtype=torch.bool)}),
            (ClockAttention(12, 3, clocks="causal"), {}),
        ):
            attention(query, memory, memory, key_padding_mask=padded, **masks)


def test_free_ends_are_found_by_content():
    """Keys whose content the first and the last target step repeat: the clock runs from one to the other."""
    torch.manual_seed(0)
    attention = ClockAttention(12, 3, content_dim=12, free_ends=True)
    memory = torch.randn(2, 40, 12)
    with torch.no_grad():
        for projection in (attention.content_q_proj, attention.content_k_proj):
            projection.weight.copy_(10 * torch.eye(12).repeat(3, 1))
        memory = torch.nn.functional.normalize(memory, dim=-1) * 3
    query = memory[:, 10:31]
    padded = torch.zeros(2, 21, dtype=torch.bool)
    padded[1, 15:] = True  # the second ends at key 24
    _, _, clocks = attention(query, memory, memory, query_padding_mask=padded, return_clocks=True)
    for item, last in ((0, 30), (1, 24)):
        torch.testing.assert_close(clocks.query[item, :, 0], clocks.key[item, :, 10], rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(clocks.query[item, :, last - 10], clocks.key[item, :, last], rtol=1e-3, atol=1e-3)
    with pytest.raises(ValueError, match="free_ends: got content_dim=None"):
        ClockAttention(12, 3, free_ends=True)


@pytest.mark.slow
@pytest.mark.parametrize("impl", ["auto", "portable"])
def test_exported_programs_serve_any_length(impl):
    """Neither the portable path's blocks of 64 queries nor the kernel's may be baked into an exported program."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = ClockAttention(12, 3, impl=impl, content_dim=4)

        def forward(self, query, memory, padding):
            return self.attention(query, memory, memory, padding, query_padding_mask=query[..., 0] > 1e9)[0]

    model = Model().eval()
    lengths = {1: torch.export.Dim("targets", min=3, max=500)}, {1: torch.export.Dim("sources", min=3, max=300)}
    example = torch.randn(2, 50, 12), torch.randn(2, 20, 12), torch.zeros(2, 20, dtype=torch.bool)
    exported = torch.export.export(model, example, dynamic_shapes=(lengths[0], lengths[1], lengths[1]))
    assert not any("clock_attention" in str(node.target) for node in exported.graph.nodes)  # no operator of ours
    program = exported.module()
    for targets, sources in ((7, 5), (64, 30), (200, 90)):
        padded = torch.arange(sources) >= torch.tensor([[sources], [sources // 2]])
        inputs = torch.randn(2, targets, 12), torch.randn(2, sources, 12), padded
        torch.testing.assert_close(program(*inputs), model(*inputs), rtol=1e-4, atol=1e-5)


def test_content_adds_parameters_only_when_asked_for():
    assert not any("content" in name for name in ClockAttention(12, 3).state_dict())
    names = {name for name, _ in ClockAttention(12, 3, content_dim=4).named_parameters() if "content" in name}
    assert names == {f"content_{side}_proj.{kind}" for side in "qk" for kind in ("weight", "bias")}
    with pytest.raises(ValueError, match="content_dim: got 0, expected at least one channel"):
        ClockAttention(12, 3, content_dim=0)


def test_it_compiles_as_one_graph():
    attention = ClockAttention(16, 2)
    target, source = torch.randn(2, 9, 16), torch.randn(2, 5, 16)
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(target, source, source), attention(target, source, source))
