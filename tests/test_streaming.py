"""Step by step equals the one-shot pass, and decoding ends when the clock has run out."""

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
)
def test_steps_equal_the_one_shot_pass(batch, targets, sources, width, norm, variance, log_term, seed, precision):
    dtype, tolerance = precision
    torch.manual_seed(seed)
    embed_dim, heads = width
    attention = ClockAttention(
        embed_dim, heads, clocks="causal", causal_norm=norm, variance=variance, log_variance_term=log_term, dtype=dtype
    )
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


def test_safety_net_says_so():
    attention = ClockAttention(16, 2, clocks="causal", pace=2.0, causal_norm="none")
    torch.nn.init.zeros_(attention.q_proj.weight)
    torch.nn.init.constant_(attention.q_proj.bias, -1e4)  # a clock that stands still

    def decode():
        state = attention.start(torch.randn(1, 5, 16))
        while not decoding_over(state):
            _, _, state = attention.step(torch.randn(1, 16), state)

    with pytest.warns(RuntimeWarning, match=r"safety net.*item 0 is 0% through its source after 42 steps"):
        decode()


def test_a_clock_that_stands_still_does_not_end_the_others_early():
    attention = ClockAttention(16, 2, clocks="causal", pace=2.0)
    query = torch.zeros(2, 16)
    state = attention.start(torch.randn(2, 40, 16), torch.arange(40) >= torch.tensor([[3], [40]]))
    torch.nn.init.constant_(attention.q_proj.bias, -1e4)  # nobody moves …
    for _ in range(26):
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


def test_step_refuses_another_batch():
    attention = ClockAttention(16, 2, clocks="causal")
    state = attention.start(torch.randn(3, 5, 16))
    with pytest.raises(ValueError, match=r"query: got shape \(2, 16\).*\(3, 16\)"):
        attention.step(torch.randn(2, 16), state)


def test_target_clock_is_the_reading_of_the_state():
    attention = ClockAttention(16, 2, clocks="causal", pace=2.0)
    memory, query = torch.randn(2, 6, 16), torch.randn(2, 9, 16)
    mask = torch.arange(6) >= torch.tensor([[6], [4]])
    _, _, state = stepwise(attention, query, memory, mask)
    clock = attention.target_clock(query, torch.tensor([6, 4]))
    torch.testing.assert_close(clock[:, :, -1], state.reading)
