"""Hard paths against brute force, durations that sum to S, quality measures on matrices whose faults are known."""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from clock_attention import clock_attention
from clock_attention.alignment import (
    attention_matrices,
    crossing_times,
    durations,
    measure_quality,
    monotone_path,
    path_durations,
    path_from_clocks,
    path_from_weights,
    whole_durations,
)


def all_paths(queries, keys):
    """Every path `monotone_path` may choose from, by enumeration."""
    if queries < keys:
        return list(combinations(range(keys), queries))
    paths = combinations_with_replacement(range(keys), queries)
    return [path for path in paths if set(path) == set(range(keys))]


UNIT = st.floats(0, 1)


@st.composite
def matrices(draw, longest=6, elements=UNIT):
    shape = draw(st.tuples(st.integers(1, longest), st.integers(1, longest)))
    return draw(arrays(np.float64, shape, elements=elements))


def one_hot(path, keys):
    return np.eye(keys)[np.asarray(path)]


@settings(deadline=None)
@given(matrices(elements=st.floats(-50, 50)))
def test_path_is_the_best_of_all_monotone_paths(scores):
    queries, keys = scores.shape
    path = tuple(monotone_path(scores).tolist())
    candidates = all_paths(queries, keys)
    assert path in candidates
    best = max(scores[np.arange(queries), list(candidate)].sum() for candidate in candidates)
    assert scores[np.arange(queries), list(path)].sum() == pytest.approx(best, abs=1e-9)


@settings(deadline=None)
@given(matrices(longest=30))
def test_durations_sum_to_the_queries_and_visit_every_key_that_fits(weights):
    queries, keys = weights.shape
    (counts,) = durations(weights)
    assert counts.shape == (keys,)
    assert counts.sum() == queries
    assert np.sum(counts > 0) == min(queries, keys)


@settings(deadline=None)
@given(st.data(), st.integers(1, 12), st.integers(1, 12))
def test_a_hard_monotone_attention_is_its_own_path(data, queries, keys):
    keys = min(queries, keys)
    cuts = data.draw(st.sets(st.integers(1, queries - 1), min_size=keys - 1, max_size=keys - 1)) if keys > 1 else set()
    path = np.searchsorted(sorted(cuts), np.arange(queries), side="right")
    assert path_from_weights(one_hot(path, keys)).tolist() == path.tolist()


def test_a_skipped_key_costs_the_path_one_step_and_no_more():
    weights = one_hot([0, 0, 0, 2, 2, 2, 2], 3)
    path = path_from_weights(weights)
    assert path_durations(path, 3)[1] == 1
    assert weights[np.arange(7), path].sum() == 6


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=9))
def test_attention_that_jumps_is_crossed_where_it_jumps(spent):
    weights = np.repeat(np.eye(len(spent)), spent, axis=0)
    assert crossing_times(weights).tolist() == np.cumsum(spent).tolist()


@given(st.lists(st.floats(1.6, 6), min_size=1, max_size=9))
def test_crossings_find_boundaries_within_a_query(spent):
    """Each query attends to what it covers; a hard path can only end a key at a whole query."""
    ends = np.cumsum(spent)
    queries = int(np.ceil(ends[-1]))
    ends[-1] = queries
    starts = np.concatenate([[0.0], ends[:-1]])
    first = np.arange(queries)[:, None]
    weights = np.clip(np.minimum(ends, first + 1) - np.maximum(starts, first), 0, None)
    assert np.abs(crossing_times(weights) - ends).max() < 0.1


@given(matrices(longest=9))
def test_crossings_never_decrease_and_stay_within_the_queries(weights):
    weights[0, 0] += 0.1  # attends to something
    times = crossing_times(weights)
    assert times.shape == (weights.shape[1],)
    assert (np.diff(times, prepend=0.0) >= 0).all()
    assert times[-1] == len(weights)


def test_queries_that_attend_nothing_move_no_crossing():
    weights = np.repeat(np.eye(2), 4, axis=0)
    weights[[1, 5]] = 0.0
    assert crossing_times(weights).tolist() == [4.0, 8.0]


@given(st.lists(st.floats(0, 40), min_size=1, max_size=12).map(sorted), st.integers(1, 40))
def test_whole_durations_sum_to_the_steps_and_leave_no_key_out_that_fits(ends, steps):
    spent = whole_durations(ends, steps)
    assert spent.sum() == steps
    assert spent.min() >= (1 if steps >= len(ends) else 0)


def test_whole_durations_round_where_there_is_room_and_make_room_where_there_is_none():
    assert whole_durations([2.4, 5.6, 9.0], 9).tolist() == [2, 4, 3]
    assert whole_durations([0.0, 0.0, 3.0], 4).tolist() == [1, 1, 2]
    assert whole_durations([9.0, 9.0, 9.0], 9).tolist() == [7, 1, 1]
    assert whole_durations([1.0, 1.4, 1.6, 2.0], 2).tolist() == [1, 0, 1, 0]


@given(st.data(), st.integers(1, 3), st.integers(1, 3), st.integers(1, 9), st.integers(1, 9))
def test_padding_never_matters(data, batch, heads, queries, keys):
    weights = np.random.default_rng(data.draw(st.integers(0, 2**16))).random((batch, heads, queries, keys))
    query_lengths = data.draw(arrays(np.int64, batch, elements=st.integers(1, queries)))
    key_lengths = data.draw(arrays(np.int64, batch, elements=st.integers(1, keys)))
    for item, (s, t) in enumerate(zip(query_lengths, key_lengths, strict=True)):
        weights[item, :, s:] = np.nan
        weights[item, :, :, t:] = np.inf
    for choice in ("mean", "diagonal", "focused"):
        tensors = (torch.from_numpy(x) for x in (weights, query_lengths, key_lengths))
        together = attention_matrices(*tensors, heads=choice)
        for item, (s, t) in enumerate(zip(query_lengths, key_lengths, strict=True)):
            (alone,) = attention_matrices(weights[item : item + 1, :, :s, :t], heads=choice)
            np.testing.assert_array_equal(together[item], alone)
            assert measure_quality(together[item]).queries == s
    for counts, s, t in zip(durations(weights, query_lengths, key_lengths), query_lengths, key_lengths, strict=True):
        assert counts.shape == (t,)
        assert counts.sum() == s


def test_heads_are_averaged_or_the_best_is_chosen():
    diagonal = 0.8 * np.eye(4) + 0.05  # soft, but on the diagonal
    stuck = one_hot([0, 0, 0, 0], 4)  # perfectly sharp, and useless
    both = np.stack([stuck, diagonal])[None]
    np.testing.assert_allclose(attention_matrices(both)[0], (stuck + diagonal) / 2)
    np.testing.assert_array_equal(attention_matrices(both, heads="diagonal")[0], diagonal)
    np.testing.assert_array_equal(attention_matrices(both, heads="focused")[0], stuck)


@pytest.mark.parametrize(("queries", "keys"), [(40, 9), (9, 9), (5, 9), (1, 9), (9, 1)])
def test_clocks_that_meet_everywhere_give_an_even_path(queries, keys):
    target, source = (np.linspace(0, 1, n)[:, None].repeat(3, axis=1) for n in (queries, keys))
    counts = path_durations(path_from_clocks(target, source), keys)
    assert counts.sum() == queries
    if queries >= keys > 1:
        inner = counts[1:-1]
        assert inner.max() - inner.min() <= 1
    per_head = path_from_clocks(np.stack([target, target]), np.stack([source, source]))
    assert path_durations(per_head, keys).tolist() == counts.tolist()


def test_path_of_clocks_agrees_with_the_path_of_their_attention():
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 2, n, 8, generator=generator) for n in (50, 12))
    _, weights, pair = clock_attention(query, key, key, return_clocks=True)
    (matrix,) = attention_matrices(weights)
    assert np.abs(path_from_clocks(pair.query[0], pair.key[0]) - path_from_weights(matrix)).max() <= 1


PATHS = {  # argmax path over 5 keys: (skipped, repeated, steps back)
    "perfect": ([0, 0, 1, 2, 2, 3, 4, 4], 0, 0, 0),
    "skips one": ([0, 0, 1, 3, 3, 3, 4, 4], 1, 0, 0),
    "never starts nor ends": ([1, 1, 2, 2, 2, 3, 3, 3], 2, 0, 0),
    "stutters": ([0, 1, 2, 3, 2, 3, 4, 4], 0, 2, 1),
    "says it all again": ([0, 1, 2, 3, 1, 2, 3, 4], 0, 3, 1),
    "wrong order, once each": ([0, 2, 1, 3, 3, 4, 4, 4], 0, 0, 1),
    "stuck": ([2] * 8, 4, 0, 0),
}


@pytest.mark.parametrize("name", PATHS)
def test_skips_repeats_and_steps_back_are_counted(name):
    path, skipped, repeated, back = PATHS[name]
    quality = measure_quality(0.7 * one_hot(path, 5) + 0.06)
    assert (quality.skipped, quality.repeated) == (skipped, repeated)
    assert (quality.expected_violations, quality.argmax_violations) == (back, back)
    assert quality.focus == pytest.approx(0.76)
    assert quality.coverage == pytest.approx(np.mean(0.7 * np.bincount(path, minlength=5) + 0.48 >= 0.5))
    assert str(quality.skipped) + " skipped" in str(quality)
    assert quality.as_dict()["repeated"] == repeated


def test_keys_that_may_be_passed_over_are_no_skips():
    weights = one_hot([0, 0, 2, 2], 3)
    assert measure_quality(weights).skipped == 1
    spared = measure_quality(weights, required=[True, False, True])
    assert (spared.skipped, spared.coverage) == (0, 1.0)


def test_a_small_wobble_is_no_violation_of_the_expected_position():
    weights = np.array([[0.50, 0.50], [0.55, 0.45], [0.9, 0.1]])
    assert measure_quality(weights).expected_violations == 1


def test_entropy_and_diagonal_of_the_two_extremes():
    even = measure_quality(np.full((30, 30), 1 / 30))
    assert even.entropy == pytest.approx(np.log(30))
    assert even.normalized_entropy == pytest.approx(1)
    assert even.diagonal_deviation == pytest.approx(1 / 3, abs=0.01)
    sharp = measure_quality(np.eye(30))
    assert (sharp.entropy, sharp.normalized_entropy, sharp.diagonal_deviation) == (0, 0, 0)
    assert (sharp.focus, sharp.coverage) == (1, 1)


@settings(deadline=None)
@given(matrices(longest=8, elements=UNIT.map(lambda x: x + 1e-3)), st.integers(0, 2**16))
def test_measures_depend_on_normalised_rows_only_and_stay_in_range(weights, seed):
    quality = measure_quality(weights)
    scaled = measure_quality(weights * np.random.default_rng(seed).uniform(0.1, 10, (len(weights), 1)))
    assert scaled.focus == pytest.approx(quality.focus)
    assert scaled.entropy == pytest.approx(quality.entropy, abs=1e-9)
    assert scaled.diagonal_deviation == pytest.approx(quality.diagonal_deviation)
    for share in (quality.coverage, quality.focus, quality.normalized_entropy, quality.diagonal_deviation):
        assert -1e-9 <= share <= 1 + 1e-9


def test_queries_that_attend_nothing_are_left_out_of_the_measures_but_keep_their_time():
    weights = np.zeros((4, 2))
    weights[0, 0] = weights[3, 1] = 1.0
    quality = measure_quality(weights)
    assert (quality.focus, quality.entropy, quality.skipped) == (1.0, 0.0, 0)
    assert durations(weights)[0].sum() == 4


def test_half_precision_with_gradients_is_taken_as_it_comes():
    logits = torch.randn(1, 2, 7, 3, dtype=torch.bfloat16, requires_grad=True)
    assert durations(logits.softmax(-1))[0].sum() == 7


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: monotone_path(np.zeros((0, 3))), r"scores: got shape \(0, 3\)"),
        (lambda: monotone_path([[0.0, np.nan]]), "cut the padding off"),
        (lambda: path_from_weights([[0.5, np.nan]]), "query_lengths"),
        (lambda: path_from_weights([[-0.5, 1.5]]), "after the softmax"),
        (lambda: path_from_weights(np.ones((1, 2, 2))), "attention_matrices"),
        (lambda: attention_matrices(np.ones(3)), r"weights: got shape \(3,\)"),
        (lambda: attention_matrices(np.ones((2, 3, 3)), heads="best"), "heads: got 'best'"),
        (lambda: attention_matrices(np.ones((2, 3, 3)), query_lengths=[3]), "query_lengths: .* 2 items"),
        (lambda: attention_matrices(np.ones((2, 3, 3)), key_lengths=[3, 4]), "key_lengths: .* between 1 and 3"),
        (lambda: attention_matrices(np.ones((1, 3, 3)), key_lengths=[1.5]), "key_lengths: .* integer"),
        (lambda: measure_quality(np.zeros((2, 2))), "every one is 0"),
        (lambda: measure_quality(np.eye(2), required=[1, 0]), "required: got int64"),
        (lambda: path_durations([0, 3], 3), "between 0 and 2"),
        (lambda: path_from_clocks(np.ones((3, 2)), np.ones((3, 1))), r"\(S, D\) and \(T, D\)"),
    ],
)
def test_errors_say_what_was_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def rotated_task(shift, tokens=32, frames_each=3):
    """Frames that say each symbol three times, starting `shift` symbols late, and attention that runs evenly."""
    generator = torch.manual_seed(0)
    symbols = torch.randn(tokens, 8, generator=generator)
    frames = symbols.roll(-shift, 0).repeat_interleave(frames_each, 0)
    frames = frames + 0.5 * torch.randn(frames.shape, generator=generator)
    still = torch.zeros(1, 1, len(frames), 4), torch.zeros(1, 1, tokens, 4)  # clocks that tick evenly
    _, weights = clock_attention(*still, torch.zeros(1, 1, tokens, 1), logit_scale=30.0)
    truth = (torch.arange(len(frames)) // frames_each + shift) % tokens
    accuracy = (weights[0, 0].argmax(-1) == truth).float().mean().item()
    return weights[0, 0], -torch.cdist(frames, symbols), accuracy


def test_content_shows_a_confident_wrong_alignment():
    """Half a rotation: attention as regular as can be, on the wrong keys throughout."""
    weights, content, accuracy = rotated_task(shift=16)
    wrong = measure_quality(weights, content=content)
    assert accuracy < 0.1
    assert (wrong.repeated, wrong.argmax_violations, wrong.coverage) == (0, 0, 1.0)
    assert 0.4 < wrong.content_rank < 0.6
    weights, content, accuracy = rotated_task(shift=0)
    right = measure_quality(weights, content=content)
    assert accuracy > 0.8
    assert right.content_rank > 0.85
    assert "content rank 8" in str(right)
    assert "content_rank" not in measure_quality(weights).as_dict()


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**31))
def test_content_rank_counts_the_keys_that_fit_worse(queries, keys, seed):
    random = np.random.default_rng(seed)
    weights, content = random.random((queries, keys)), random.integers(0, 3, (queries, keys))
    expected = 0.0
    for s, t in product(range(queries), range(keys)):
        others = [u for u in range(keys) if u != t]
        worse = sum((content[s, u] < content[s, t]) + 0.5 * (content[s, u] == content[s, t]) for u in others)
        expected += weights[s, t] / weights[s].sum() * (worse / len(others) if others else 1.0) / queries
    assert measure_quality(weights, content=content).content_rank == pytest.approx(expected)


def test_content_of_another_shape_is_refused():
    with pytest.raises(
        ValueError, match=r"content: got shape \(3, 2\), expected a score for every query and key, \(2, 3\)"
    ):
        measure_quality(np.ones((2, 3)), content=np.ones((3, 2)))
