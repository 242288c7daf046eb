"""Step by step equals the one-shot pass, and decoding ends when the clock has run out."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clock_attention import ClockAttention, ClockState, decoding_over
from clock_attention.clocks import CAUSAL_NORMS, VARIANCES

from .kernels.attention_cases import padding


def stepwise(attention, query, memory, key_padding_mask=None, **options):
    state = attention.start(memory, key_padding_mask, **options)
    outputs, weights = [], []
    for s in range(query.shape[1]):
        output, weight, state = attention.step(query[:, s], state)
        outputs.append(output)
        weights.append(weight)
    return torch.stack(outputs, 1), torch.stack(weights, 2), state


@given(
    st.integers(1, 3),
    st.integers(1, 25),
    st.integers(1, 12),
    st.sampled_from([(4, 1), (12, 3), (10, 2)]),  # two channels would make the channel norm a sign, not a number
    st.sampled_from(CAUSAL_NORMS),
    st.sampled_from(VARIANCES),
    st.booleans(),
    st.integers(0, 999),
    st.sampled_from([(torch.float32, 1e-5), (torch.float64, 1e-10)]),
    st.sampled_from([None, None, 1, 5]),
)
def test_steps_equal_the_one_shot_pass(
    batch, targets, sources, width, norm, variance, log_term, seed, precision, content_dim
):
    dtype, tolerance = precision
    torch.manual_seed(seed)
    embed_dim, heads = width
    attention = ClockAttention(
        embed_dim, heads, clocks="causal", causal_norm=norm, variance=variance, log_variance_term=log_term, dtype=dtype,
        content_dim=content_dim,
    )  # fmt: skip
    query = torch.randn(batch, targets, embed_dim, dtype=dtype, requires_grad=True)
    memory = torch.randn(batch, sources, embed_dim, dtype=dtype, requires_grad=True)
    mask = padding(batch, sources, seed)
    pace = torch.rand(batch, dtype=dtype) * 3 + 0.5
    whole, weights = attention(query, memory, memory, mask, average_attn_weights=False, pace=pace)
    parts, part_weights, _ = stepwise(attention, query, memory, mask, pace=pace)
    torch.testing.assert_close(parts, whole, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(part_weights, weights, rtol=tolerance, atol=tolerance)

    cotangent = torch.randn_like(whole)
    leaves = (query, memory, *attention.parameters())
    expected = torch.autograd.grad(whole, leaves, cotangent)
    found = torch.autograd.grad(parts, leaves, cotangent)
    size = max(float(gradient.abs().max()) for gradient in expected)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a / size, b / size, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("content_dim", [None, 4])
def test_a_step_is_taken_by_the_implementation_asked_for_or_refused(content_dim):
    torch.manual_seed(0)
    attention = ClockAttention(12, 3, clocks="causal", pace=2.0, content_dim=content_dim)
    query, memory = torch.randn(2, 9, 12), torch.randn(2, 5, 12)
    expected, weights, _ = stepwise(attention, query, memory)
    attention.impl = "banded"
    found, found_weights, _ = stepwise(attention, query, memory)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found_weights, weights, rtol=1e-5, atol=1e-5)
    for impl in ("reference",):
        attention.impl = impl
        with pytest.raises(ValueError, match=f"impl: got '{impl}', but one step is taken by 'auto', 'portable'"):
            attention.step(query[:, 0], attention.start(memory))


def test_a_copy_of_a_state_keeps_its_graph():
    attention = ClockAttention(12, 3, clocks="causal", pace=2.0, content_dim=4)
    query, memory = torch.randn(2, 4, 12), torch.randn(2, 5, 12, requires_grad=True)
    _, _, state = stepwise(attention, query, memory)
    expected = torch.autograd.grad(attention.step(query[:, 0], state)[0].sum(), memory, retain_graph=True)
    copied = copy.deepcopy(state)
    assert copied.key_clock is not state.key_clock
    found = torch.autograd.grad(attention.step(query[:, 0], copied)[0].sum(), memory)
    torch.testing.assert_close(found, expected)


def test_progress_grows_and_decoding_ends_by_the_clock():
    attention = ClockAttention(16, 2, clocks="causal", pace=4.0)
    memory = torch.randn(2, 10, 16)
    mask = torch.arange(10) >= torch.tensor([[10], [3]])
    state = attention.start(memory, mask)
    seen = [state.progress]
    finished_at = torch.zeros(2)
    while not decoding_over(state):
        _, _, state = attention.step(torch.randn(2, 16), state)
        seen.append(state.progress)
        finished_at += ~state.finished
    progress = torch.stack(seen)
    assert (progress[0] == 0).all()
    assert (progress.diff(dim=0) >= 0).all()
    assert (progress[-1] == 1).all()
    assert finished_at[1] < finished_at[0]  # a shorter source runs out earlier; the batch goes on without it


def test_margin_is_counted_in_tokens():
    attention = ClockAttention(16, 2, clocks="causal", pace=4.0)
    memory, query = torch.randn(1, 10, 16), torch.randn(1, 200, 16)
    lengths = []
    for margin in (0.0, 5.0):
        state = attention.start(memory, margin=margin)
        while not state.finished.item():
            _, _, state = attention.step(query[:, int(state.steps)], state)
        lengths.append(int(state.steps))
    assert 12 < lengths[1] - lengths[0] < 30  # five tokens at about four steps each


def test_safety_net_says_so_every_time_and_of_every_item(caplog):
    attention = ClockAttention(16, 2, clocks="causal", pace=2.0, causal_norm="none")
    torch.nn.init.zeros_(attention.q_proj.weight)
    torch.nn.init.constant_(attention.q_proj.bias, -1e4)  # a clock that stands still

    def decode():
        state = attention.start(torch.randn(2, 5, 16))
        while not decoding_over(state):
            _, _, state = attention.step(torch.randn(2, 16), state)

    for times in (1, 2):
        decode()
        for item in (0, 1):
            result = f"item {item} is 0% through its source after 46 steps"  # four times ten and a margin
            assert sum("safety net" in text and result in text for text in caplog.messages) == times


@pytest.mark.parametrize("margin", [16.0, 40.0])
def test_a_wide_margin_is_no_standstill(margin, caplog):
    attention = ClockAttention(16, 2, clocks="causal", pace=2.0)
    state = attention.start(torch.randn(1, 2, 16), margin=margin)
    while not decoding_over(state):
        _, _, state = attention.step(torch.randn(1, 16), state)
    assert state.finished.all()
    assert not caplog.messages


@pytest.mark.parametrize("norm", ["none", "cumulative"])
def test_long_sequences_of_steps_stay_with_the_one_shot_pass(norm):
    torch.manual_seed(0)
    attention = ClockAttention(8, 2, clocks="causal", pace=6.0, causal_norm=norm, clock_width=1)
    query, memory = torch.randn(1, 800, 8), torch.randn(1, 120, 8)
    query[:, 10:] += 3  # far from the first step, about which the running sums are taken
    whole, _ = attention(query, memory, memory)
    torch.testing.assert_close(stepwise(attention, query, memory)[0], whole, rtol=1e-5, atol=1e-5)


def test_steps_follow_the_layout_of_the_module():
    torch.manual_seed(0)
    attention = ClockAttention(8, 2, clocks="causal", pace=2.0, batch_first=False)
    query, memory = torch.randn(7, 4, 8), torch.randn(4, 4, 8)  # (S, B, E), (T, B, E)
    mask = torch.arange(4) >= torch.tensor([[4], [3], [2], [1]])
    whole, _ = attention(query, memory, memory, mask)
    parts, _, state = stepwise(attention, query.transpose(0, 1), memory, mask)
    torch.testing.assert_close(parts.transpose(0, 1), whole)
    torch.testing.assert_close(attention.target_clock(query, [4, 3, 2, 1])[:, :, -1], state.reading)


def test_a_state_made_under_autocast_serves_outside_it():
    attention = ClockAttention(16, 2, clocks="causal", out_proj=True)
    with torch.autocast("cpu", torch.bfloat16):
        state = attention.start(torch.randn(3, 5, 16))
    output, _, _ = attention.step(torch.randn(3, 16), state)
    assert output.dtype == torch.float32


def test_a_clock_that_stands_still_does_not_end_the_others_early():
    attention = ClockAttention(16, 2, clocks="causal", pace=2.0)
    query = torch.zeros(2, 16)
    state = attention.start(torch.randn(2, 40, 16), torch.arange(40) >= torch.tensor([[3], [40]]))
    torch.nn.init.constant_(attention.q_proj.bias, -1e4)  # nobody moves …
    for _ in range(32):
        _, _, state = attention.step(query, state)
    assert state.stalled.tolist() == [True, False]  # … which is too long for the short one only
    assert not decoding_over(state)


def test_state_can_be_saved_moved_and_reordered(tmp_path):
    attention = ClockAttention(16, 2, clocks="causal", pace=2.0, causal_norm="cumulative")
    memory, query = torch.randn(3, 5, 16), torch.randn(3, 7, 16)
    _, _, state = stepwise(attention, query, memory)
    torch.save(vars(state), tmp_path / "state.pt")
    loaded = ClockState(**torch.load(tmp_path / "state.pt", weights_only=True)).to("cpu")
    following = torch.randn(3, 16)
    expected, _, _ = attention.step(following, state)
    torch.testing.assert_close(attention.step(following, loaded)[0], expected)
    order = torch.tensor([2, 0, 0])
    torch.testing.assert_close(attention.step(following[order], state.index(order))[0], expected[order])


@pytest.mark.parametrize("shape", [(2, 16), (3, 8), (3, 1, 16), (16,)])
def test_step_refuses_another_batch_or_width(shape):
    attention = ClockAttention(16, 2, clocks="causal")
    state = attention.start(torch.randn(3, 5, 16))
    with pytest.raises(ValueError, match=r"query: got shape .*, expected one step for each item.*\(3, 16\)"):
        attention.step(torch.randn(shape), state)


def test_step_refuses_the_state_of_another_module():
    state = ClockAttention(16, 2, clocks="causal").start(torch.randn(3, 5, 16))
    for other in (ClockAttention(16, 1, clocks="causal"), ClockAttention(16, 2, clocks="causal", clock_width=1)):
        with pytest.raises(ValueError, match=r"state: got clocks .*another module"):
            other.step(torch.randn(3, 16), state)


BAD_STARTS = [
    ({"pace": float("nan")}, "pace: got nan, expected a positive number"),
    ({"pace": float("inf")}, "pace: got inf, expected a positive number"),
    ({"pace": 0}, "pace: got 0, expected a positive number"),
    ({"pace": torch.tensor([1.0, -1.0, 1.0])}, "pace: got tensor.*expected a positive number"),
    ({"pace": torch.ones(2)}, r"pace: got shape \(2,\), expected a number or \(3,\)"),
    ({"margin": float("nan")}, "margin: got nan, expected a finite number"),
    ({"margin": torch.ones(2)}, "margin: got tensor.*each of 3 items"),
    ({"value": torch.randn(3, 1, 16)}, r"value: got shape \(3, 1, 16\), expected one for every key"),
    ({"memory": torch.randn(5, 16)}, r"memory: got shape \(5, 16\), expected \(batch, steps, 16\)"),
    ({"memory": torch.randn(3, 0, 16)}, r"memory: got shape \(3, 0, 16\), expected at least one source token"),
    ({"memory": torch.ones(3, 5, 16, dtype=torch.long)}, "memory: got dtype torch.int64"),
]


@pytest.mark.parametrize(("options", "message"), BAD_STARTS)
def test_decoding_is_refused_before_it_could_hang(options, message):
    attention = ClockAttention(16, 2, clocks="causal")
    with pytest.raises((ValueError, TypeError), match=message):
        attention.start(**({"memory": torch.randn(3, 5, 16)} | options))


def test_a_state_is_indexed_by_lists_and_masks():
    state = ClockAttention(16, 2, clocks="causal").start(torch.randn(3, 5, 16))
    for items in ([2, 0], torch.tensor([2, 0]), torch.tensor([True, False, True])):
        assert state.index(items).key_clock.shape[0] == 2
    assert state.index([]).key_clock.shape[0] == 0  # when the last item has been dropped
    for wrong in (0, [0.0, 1.0]):
        with pytest.raises(ValueError, match=r"items: got torch\.\w+ \(2?,?\), expected a list of batch items"):
            state.index(wrong)


def test_target_clock_is_the_reading_of_the_state():
    attention = ClockAttention(16, 2, clocks="causal", pace=2.0)
    memory, query = torch.randn(2, 6, 16), torch.randn(2, 9, 16)
    mask = torch.arange(6) >= torch.tensor([[6], [4]])
    _, _, state = stepwise(attention, query, memory, mask)
    clock = attention.target_clock(query, torch.tensor([6, 4]))
    torch.testing.assert_close(clock[:, :, -1], state.reading)
    for padded in (mask, torch.zeros(2, 6).masked_fill(mask, -torch.inf)):  # in the forms `forward` takes
        torch.testing.assert_close(attention.target_clock(query, key_padding_mask=padded), clock)
    ended = torch.arange(9) >= torch.tensor([[9], [5]])
    as_float = torch.zeros(2, 9).masked_fill(ended, -torch.inf)
    torch.testing.assert_close(
        attention.target_clock(query, [6, 4], as_float), attention.target_clock(query, [6, 4], ended)
    )
    with pytest.raises(ValueError, match="either source_lengths or key_padding_mask"):
        attention.target_clock(query)


@pytest.mark.parametrize("lengths", [6, [6], [6, 4, 2], [6.0, 4.0], [[6], [4]], [True, True]])
def test_target_clock_needs_the_length_of_every_source(lengths):
    attention = ClockAttention(16, 2, clocks="causal")
    with pytest.raises(ValueError, match=r"source_lengths: got torch\.\w+ \(.*\), expected one integer for each of 2"):
        attention.target_clock(torch.randn(2, 9, 16), lengths)
    with pytest.raises(ValueError, match=r"source_lengths: got \[6, 0\], expected at least one token"):
        attention.target_clock(torch.randn(2, 9, 16), [6, 0])
