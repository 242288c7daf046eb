"""The aligner's search in a graph of sounds: best path (Viterbi) and posteriors (forward-backward), compiled."""

# mypy: ignore-errors
# The compiled functions are typed by Numba.

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from clock_attention.speech.aligner.results import AlignmentError
from clock_attention.speech.aligner.search_graph import SearchGraph

MOST_CELLS = 150_000_000  # frames × states: about 600 MB of back pointers
NEIGHBOURS = 30  # states before and after a path that alternative paths may pass through

jit = numba.njit(error_model="numpy", cache=True, nogil=True)


@jit
def viterbi(scores, change, first, sources, costs, enters, start, final):
    """Compiled Viterbi search: the state of each frame on the best path (empty if there is none), and its score.

    scores (frames, states); change (frames,) is added where a new unit starts.
    """
    frames, states = scores.shape
    back = np.zeros((frames, states), np.int32)
    before = np.empty(states)
    now = np.empty(states)
    for s in range(states):
        before[s] = scores[0, s] - start[s]
    for t in range(1, frames):
        for s in range(states):
            best, origin = -np.inf, -1
            for arc in range(first[s], first[s + 1]):
                value = before[sources[arc]] - costs[arc]
                if enters[arc]:
                    value += change[t]
                if value > best:
                    best, origin = value, sources[arc]
            now[s] = best + scores[t, s]
            back[t, s] = origin
        before, now = now, before
    best, at = -np.inf, -1
    for s in range(states):
        if before[s] - final[s] > best:
            best, at = before[s] - final[s], s
    if at < 0:
        return np.empty(0, np.int32), best
    path = np.empty(frames, np.int32)
    path[frames - 1] = at
    for t in range(frames - 1, 0, -1):
        at = back[t, at]
        path[t - 1] = at
    return path, best


@jit
def forward_backward(scores, change, first, sources, costs, enters, start, final, low, high):
    """Compiled forward-backward: posterior of every state (frames, states) along low[t] … high[t]−1.

    It works with probabilities, rescaled at every frame: arcs are exponentiated once, emissions once per cell.
    """
    frames, states = scores.shape
    alpha = np.zeros((frames, states))
    weights = np.exp(-costs)
    for t in range(frames):
        best = -np.inf
        for s in range(low[t], high[t]):
            best = max(best, scores[t, s])
        bonus = np.exp(change[t])
        total = 0.0
        for s in range(low[t], high[t]):
            value = 0.0
            if t == 0:
                value = np.exp(-start[s])
            else:
                for arc in range(first[s], first[s + 1]):
                    step = alpha[t - 1, sources[arc]] * weights[arc]
                    value += step * bonus if enters[arc] else step
            value *= np.exp(scores[t, s] - best)
            alpha[t, s] = value
            total += value
        if total <= 0.0:
            return np.zeros((0, 0))
        for s in range(low[t], high[t]):
            alpha[t, s] /= total
    beta = np.exp(-final)
    after = np.zeros(states)
    for t in range(frames - 1, -1, -1):
        total = 0.0
        for s in range(low[t], high[t]):
            alpha[t, s] *= beta[s]
            total += alpha[t, s]
        if total <= 0.0:
            return np.zeros((0, 0))
        for s in range(low[t], high[t]):
            alpha[t, s] /= total
        if t == 0:
            break
        best = -np.inf
        for s in range(low[t], high[t]):
            best = max(best, scores[t, s])
        bonus = np.exp(change[t])
        after[:] = 0.0
        largest = 0.0
        for s in range(low[t], high[t]):
            through = beta[s] * np.exp(scores[t, s] - best)
            for arc in range(first[s], first[s + 1]):
                step = through * weights[arc]
                after[sources[arc]] += step * bonus if enters[arc] else step
        for s in range(low[t - 1], high[t - 1]):
            largest = max(largest, after[s])
        if largest > 0.0:
            for s in range(states):
                after[s] /= largest
        beta, after = after, beta
    return alpha


def best_path(scores: NDArray, change: NDArray, graph: SearchGraph) -> tuple[NDArray[np.int32], float]:
    """Viterbi search: the state of each frame, and the score of the path.

    Raises:
        AlignmentError: if there are too few frames for the required states, or too many to fit into memory.
    """
    frames, states = scores.shape
    if frames * states > MOST_CELLS:
        raise AlignmentError(
            f"{frames} frames × {states} states do not fit into memory at once: align the recording in pieces"
        )
    if frames < 1:
        raise AlignmentError("the recording is empty: there is nothing to align")
    path, score = viterbi(*arguments(scores, change, graph))
    if not len(path):
        raise AlignmentError(
            f"the text is too long for the recording: it needs at least {graph.shortest} frames, there are {frames}"
        )
    return path, float(score)


def posterior(
    scores: NDArray,
    change: NDArray,
    graph: SearchGraph,
    path: NDArray[np.int32],
    margin: int = 60,
    sharpness: float = 1.0,
) -> NDArray[np.float64]:
    """Forward-backward search: probability of each state at each frame, within `margin` frames of a path."""
    frames, states = scores.shape
    early = np.maximum(np.arange(frames) - margin, 0)
    late = np.minimum(np.arange(frames) + margin, frames - 1)
    low, high = np.maximum(path[early] - NEIGHBOURS, 0), np.minimum(path[late] + NEIGHBOURS + 1, states)
    scaled = SearchGraph(**{**vars(graph), "costs": graph.costs * sharpness})
    found = forward_backward(*arguments(scores * sharpness, change * sharpness, scaled), low, high)
    if len(found):
        return found
    certain = np.zeros((frames, states))
    certain[np.arange(frames), path] = 1.0
    return certain


def arguments(scores, change, graph):
    """Arguments of the compiled search functions, in the types that they are compiled for."""
    return (
        np.ascontiguousarray(scores, dtype=np.float32),
        np.ascontiguousarray(change, dtype=np.float32),
        graph.first,
        graph.sources,
        graph.costs,
        graph.enters,
        graph.start,
        graph.final,
    )
