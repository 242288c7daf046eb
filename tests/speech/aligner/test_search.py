from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.aligner.results import AlignmentError
from clock_attention.speech.aligner.search import best_path, posterior
from clock_attention.speech.aligner.search_graph import Unit, build


def every_path(scores, change, graph):
    """All paths and their scores, by trying everything."""
    frames, states = scores.shape
    arcs = {(int(graph.sources[a]), s): a for s in range(states) for a in range(graph.first[s], graph.first[s + 1])}
    for path in itertools.product(range(states), repeat=frames):
        total = scores[0, path[0]] - graph.start[path[0]] - graph.final[path[-1]]
        for t in range(1, frames):
            arc = arcs.get((path[t - 1], path[t]))
            if arc is None:
                total = -np.inf
                break
            total += scores[t, path[t]] - graph.costs[arc] + change[t] * graph.enters[arc]
        if total > -np.inf:
            yield path, total


@given(st.integers(0, 10_000), st.integers(3, 5))
def test_path_and_posterior_equal_those_of_all_paths(seed, frames):
    rng = np.random.default_rng(seed)
    units = [Unit((0,), skip=0.0, entry=0.3), Unit((1, 2)), Unit((0,), skip=0.5), Unit((3,), skip=1.0), Unit((2,))]
    graph = build(units, jumps=[(3, 5, 2.0)])
    emissions, change = rng.normal(size=(frames, 4)), rng.normal(size=frames)
    scores = emissions[:, graph.column].astype(np.float32)
    change = change.astype(np.float32)
    paths = list(every_path(scores, change, graph))
    best, score = best_path(scores, change, graph)
    assert score == pytest.approx(max(total for _, total in paths), abs=1e-4)
    assert dict(paths)[tuple(best.tolist())] == pytest.approx(score, abs=1e-4)
    expected = np.zeros(scores.shape)
    for path, total in paths:
        expected[np.arange(frames), path] += np.exp(total)
    expected /= expected.sum(1, keepdims=True)
    np.testing.assert_allclose(posterior(scores, change, graph, best), expected, atol=1e-4)


def test_an_optional_silence_takes_time_only_where_there_is_silence():
    graph = build([Unit((1,)), Unit((0,), skip=0.0), Unit((2,))])
    output = np.full((9, 3), -5.0)
    output[:3, 1] = output[3:6, 0] = output[6:, 2] = 0.0
    path, _ = best_path(output[:, graph.column], np.zeros(9), graph)
    assert graph.unit[path].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    output[3:6] = output[6]
    path, _ = best_path(output[:, graph.column], np.zeros(9), graph)
    assert 1 not in graph.unit[path]


def test_a_change_pulls_the_boundary():
    graph = build([Unit((0,)), Unit((1,))])
    change = np.zeros(6)
    change[4] = 1.0
    path, _ = best_path(np.zeros((6, 2)), change, graph)
    assert np.diff(graph.unit[path]).argmax() == 3


def test_too_few_frames_are_an_error():
    graph = build([Unit((0, 1)), Unit((0, 1))])
    with pytest.raises(AlignmentError, match="too long for the recording: it needs at least 4 frames, there are 3"):
        best_path(np.zeros((3, 4)), np.zeros(3), graph)
    with pytest.raises(AlignmentError, match="empty"):
        best_path(np.zeros((0, 4)), np.zeros(0), graph)
