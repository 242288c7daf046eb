"""Losses against brute force over every path, and their gradients against finite differences."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clock_attention import losses


def every_path(queries, optional):
    """All monotone paths as lists of keys, found by trying every assignment: shares nothing with the scan."""
    keys = len(optional)
    for path in itertools.product(range(keys), repeat=queries):
        if any(after < before for before, after in itertools.pairwise(path)):
            continue
        if all(key in path or optional[key] for key in range(keys)):
            yield path


def brute_force(scores, optional):
    """−log Σ over paths, and the share of the sum that passes through each cell."""
    paths = [[scores[s][t] for s, t in enumerate(path)] for path in every_path(len(scores), optional)]
    weights = [math.exp(sum(path)) for path in paths]
    shares = torch.zeros(len(scores), len(optional), dtype=torch.float64)
    for path, weight in zip(every_path(len(scores), optional), weights, strict=True):
        for s, t in enumerate(path):
            shares[s, t] += weight / sum(weights)
    return (-math.log(sum(weights)) if weights else math.inf), shares


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.lists(st.booleans(), min_size=1, max_size=4), st.booleans(), st.integers(0, 2**31))
def test_forward_sum_and_posterior_are_the_sum_over_every_path(queries, optional, normalize, seed):
    logits = 3 * torch.randn(1, queries, len(optional), generator=torch.manual_seed(seed), dtype=torch.float64)
    scores = logits.log_softmax(-1) if normalize else logits
    expected, shares = brute_force(scores[0].tolist(), optional)
    given_optional = torch.tensor([optional])
    options = {"optional": given_optional, "normalize": normalize}
    assert losses.forward_sum_loss(logits, reduction="sum", **options).item() == pytest.approx(expected, abs=1e-9)
    torch.testing.assert_close(losses.monotone_posterior(logits, **options)[0], shares)


def test_without_optional_keys_every_key_is_visited():
    logits = torch.randn(1, 5, 3, dtype=torch.float64)
    expected, _ = brute_force(logits[0].log_softmax(-1).tolist(), [False] * 3)
    assert losses.forward_sum_loss(logits, reduction="sum").item() == pytest.approx(expected)


def test_forward_sum_gradient():
    logits = torch.randn(2, 2, 6, 4, dtype=torch.float64, requires_grad=True)
    queries, keys = torch.tensor([6, 5]), torch.tensor([4, 3])
    optional = torch.tensor([[False, True, True, False], [True, False, True, False]])
    for reduction in ("mean", "none"):
        assert torch.autograd.gradcheck(
            lambda x, r=reduction: losses.forward_sum_loss(x, queries, keys, optional=optional, reduction=r), logits
        )


def test_a_penalty_on_the_gradient_of_forward_sum_is_refused():
    logits = torch.randn(2, 6, 4, requires_grad=True)
    (slope,) = torch.autograd.grad(losses.forward_sum_loss(logits), logits, create_graph=True)
    with pytest.raises(NotImplementedError, match="no second derivatives"):
        slope.square().sum().backward()


def test_forward_sum_holds_where_probabilities_underflow():
    """The only path is 4,000 nats below the best row by row: a product of probabilities would be 0."""
    logits = torch.full((1, 400, 3), -20.0)
    logits[..., 0] = 0.0
    logits.requires_grad_()
    loss = losses.forward_sum_loss(logits, normalize=False, reduction="sum")
    assert loss.item() == pytest.approx(40.0)
    uphill = logits.flip(-2).detach()
    uphill[:, :200, 0], uphill[:, :200, 1] = -20.0, 0.0
    uphill.requires_grad_()
    loss = losses.forward_sum_loss(uphill, normalize=False, reduction="sum")
    loss.backward()
    # From step 200 on key 0 is best again, but no path may go back to it: 1 + 200 steps at −20.
    assert loss.item() == pytest.approx(20.0 * 201 - math.log(199), abs=0.5)
    torch.testing.assert_close(uphill.grad.sum(-1), -torch.ones(1, 400))


def test_an_item_without_a_path_is_infinite_or_nothing():
    logits = torch.randn(2, 3, 5, requires_grad=True)
    keys = torch.tensor([5, 2])  # 3 queries cannot visit 5 keys
    assert losses.forward_sum_loss(logits, None, keys, reduction="none").isinf().tolist() == [True, False]
    losses.forward_sum_loss(logits, None, keys, zero_infinity=True).backward()
    assert logits.grad.isfinite().all()
    assert (logits.grad[0] == 0).all()
    assert logits.grad[1].abs().sum() > 0
    optional = torch.tensor([[True, False, True, False, True]]).expand(2, 5)
    assert losses.forward_sum_loss(logits, None, keys, optional=optional, reduction="none").isfinite().all()


@pytest.mark.parametrize("name", ["forward_sum", "guided", "agreement", "durations", "clocks"])
def test_a_padded_batch_gives_the_mean_of_its_items_and_finite_gradients(name):
    def compute(x, queries=None, keys=None):
        if name == "forward_sum":
            return losses.forward_sum_loss(x, queries, keys)
        if name == "guided":
            return losses.guided_attention_loss(x, queries, keys)
        if name == "agreement":
            return losses.agreement_loss(x, losses.monotone_posterior(2 * x, queries, keys), queries, keys)
        if name == "clocks":
            return losses.clock_agreement_loss(x, 2 * x, queries, torch.tensor(0.3))
        durations = losses.soft_durations(x, queries)
        return losses.duration_loss(durations, torch.full_like(durations, 2.0), keys)

    together = torch.rand(2, 2, 7, 4, dtype=torch.float64)
    together[1, :, 5:] = torch.nan
    keys = 4 if name == "clocks" else 3  # the last dimension of clocks is channels, which are never padding
    together[1, :, :, keys:] = torch.nan
    alone = [compute(together[:1]), compute(together[1:, :, :5, :keys])]
    together.requires_grad_()
    loss = compute(together, torch.tensor([7, 5]), torch.tensor([4, 3]))
    torch.testing.assert_close(loss, torch.stack(alone).mean())
    loss.backward()
    assert together.grad.isfinite().all()
    assert (together.grad[1, :, 5:] == 0).all()
    assert together.grad[1].abs().sum() > 0


def test_guided_loss_is_the_written_formula():
    weights = torch.rand(1, 3, 2, dtype=torch.float64)
    expected = 0.0
    for s, t in itertools.product(range(3), range(2)):
        distance = (s + 0.5) / 3 - (t + 0.5) / 2
        expected += weights[0, s, t].item() * (1 - math.exp(-(distance**2) / (2 * 0.3**2))) / 3
    assert losses.guided_attention_loss(weights, width=0.3).item() == pytest.approx(expected)


def test_diagonal_prior_peaks_on_each_items_own_diagonal():
    prior = losses.diagonal_log_prior(torch.zeros(2, 8, 4), torch.tensor([8, 4]), torch.tensor([4, 2]), width=0.2)
    assert prior[0].argmax(-1).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert prior[1, :4].argmax(-1).tolist() == [0, 0, 1, 1]


def test_agreement_is_the_divergence_and_vanishes_when_both_agree():
    logits = torch.randn(2, 5, 4, dtype=torch.float64)
    other = torch.randn(2, 5, 4, dtype=torch.float64).softmax(-1)
    expected = torch.nn.functional.kl_div(logits.log_softmax(-1), other, reduction="none").sum(-1).mean()
    torch.testing.assert_close(losses.agreement_loss(logits, other), expected)
    assert losses.agreement_loss(logits, logits.softmax(-1)).abs().item() < 1e-12


def test_agreement_accepts_zeros_in_the_posterior_and_masked_keys_in_the_prior():
    logits = torch.tensor([[[0.0, -torch.inf, 1.0]]], requires_grad=True)
    loss = losses.agreement_loss(logits, torch.tensor([[[1.0, 0.0, 0.0]]]))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(1 + math.e))
    assert logits.grad.isfinite().all()


def test_clock_agreement_with_a_variance_is_the_divergence_of_two_gaussians():
    prior, posterior = torch.rand(1, 2, 5, 1), torch.rand(1, 2, 5, 1)
    variance = torch.rand(1, 2, 5) + 0.1
    normal = torch.distributions.Normal
    spread = variance.sqrt()
    expected = torch.distributions.kl_divergence(
        normal(posterior[..., 0], spread), normal(prior[..., 0], spread)
    ).mean()
    torch.testing.assert_close(losses.clock_agreement_loss(prior, posterior, variance=variance), expected)


def test_expected_reading_of_sharp_weights_is_the_attended_keys_clock():
    clock = torch.rand(1, 1, 4, 2).cumsum(2)
    weights = torch.nn.functional.one_hot(torch.tensor([[[0, 2, 2, 3, 3]]]), 4).float()
    torch.testing.assert_close(losses.expected_reading(weights, clock), clock[:, :, [0, 2, 2, 3, 3]])


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: losses.guided_attention_loss(x.softmax(-1)),
        lambda x: losses.agreement_loss(x, x.flip(-1).softmax(-1)),
        lambda x: losses.clock_agreement_loss(x, x.flip(-2), variance=torch.full((1, 1, 5), 0.3, dtype=x.dtype)),
        lambda x: losses.duration_loss(losses.soft_durations(x.softmax(-1)), torch.tensor([[3.0, 0.0, 1.0, 1.0]] * 2)),
    ],
)
def test_gradients_are_those_of_finite_differences(loss):
    assert torch.autograd.gradcheck(loss, torch.randn(2, 2, 5, 4, dtype=torch.float64, requires_grad=True))


def test_losses_with_lengths_compile_as_one_graph():
    weights, lengths = torch.rand(2, 6, 4), (torch.tensor([6, 5]), torch.tensor([4, 3]))
    compiled = torch.compile(losses.guided_attention_loss, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(weights, *lengths), losses.guided_attention_loss(weights, *lengths))


def test_bad_input_is_named():
    logits = torch.zeros(2, 5, 4)
    with pytest.raises(ValueError, match=r"query_lengths: got \[6, 5\], expected lengths between 1 and 5"):
        losses.forward_sum_loss(logits, torch.tensor([6, 5]))
    with pytest.raises(ValueError, match=r"key_lengths: got torch.float32 \(2,\), expected one integer"):
        losses.forward_sum_loss(logits, None, torch.tensor([4.0, 4.0]))
    with pytest.raises(
        ValueError, match=r"optional: got torch.bool \(2, 3\), expected one bool for every key, \(2, 4\)"
    ):
        losses.forward_sum_loss(logits, optional=torch.zeros(2, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="reduction: got 'average'"):
        losses.forward_sum_loss(logits, reduction="average")
    with pytest.raises(ValueError, match=r"posterior: got shape \(2, 5, 3\)"):
        losses.agreement_loss(logits, logits[..., :3])
    for name, loss in (("logits", losses.forward_sum_loss), ("weights", losses.guided_attention_loss)):
        with pytest.raises(ValueError, match=rf"{name}: got torch.float32 \(5, 4\), expected .* and \(B, ..., S, T\)"):
            loss(logits[0])
    with pytest.raises(ValueError, match="width: got 0"):
        losses.guided_attention_loss(logits, width=0)
