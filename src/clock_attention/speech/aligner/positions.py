"""Positions of a text's units in the recording, interpolated between frames, with confidences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clock_attention.speech.aligner import search
from clock_attention.speech.aligner.acoustics import at_change, at_onsets
from clock_attention.speech.aligner.clock_prior import meeting_prior
from clock_attention.speech.aligner.emissions import Emissions
from clock_attention.speech.aligner.search_graph import build
from clock_attention.speech.aligner.transcript import OTHER, PAUSE, Transcript

TOLERANCE = 4  # frames: 20 ms, the tolerance that confidences refer to
OVERCONFIDENCE = 4  # power that calibrates the posterior mass within 20 ms


@dataclass(frozen=True)
class UnitPlaces:
    """Positions of a transcript's units, in frames; skipped units have none."""

    units: NDArray[np.int64]  # (present,) units that are present, in order
    edges: NDArray[np.float64]  # (present + 1,) in frames, from 0 to the end
    confidence: NDArray[np.float64]  # (present + 1,) of the edges
    score: float
    posterior: NDArray[np.float32]  # (frames, states)
    path: NDArray[np.int32]  # (frames,) state of each frame on the best path


def find(emissions: Emissions, script: Transcript) -> UnitPlaces:
    """Find the best positions of all units of a text: the emissions are the evidence, the clocks are the prior."""
    graph, weights = script.graph, emissions.weights
    scores, change = emissions.scores[:, graph.column], emissions.change
    if weights.clock:
        sounds = int(script.clock[-1])
        scores = scores + weights.clock * meeting_prior(emissions.clock, script.readings, sounds)
    path, _ = search.best_path(scores, change, graph)
    units = graph.unit[path]
    firsts = np.flatnonzero(np.diff(units, prepend=-1))
    present = units[firsts].astype(np.int64)
    # Confidence of the edges, given which words are present: alternatives without some of them would blur the others.
    kept = np.where(script.kind == OTHER, -2, script.word)
    kept = np.flatnonzero(np.isin(kept, [-1, *script.word[present]]) | np.isin(np.arange(len(kept)), present))
    states = np.flatnonzero(np.isin(graph.unit, kept))
    row = build([graph.units[unit] for unit in kept.tolist()])
    place_in_row = np.searchsorted(states, path).astype(np.int32)
    posterior = search.posterior(scores[:, states], change, row, place_in_row, sharpness=weights.sharpness)
    edges = np.append(firsts, len(path)).astype(np.float64)
    confidence = np.ones(len(edges))
    cumulated = np.cumsum(posterior, axis=1)
    beginnings = np.searchsorted(row.unit, np.searchsorted(kept, present))
    for place in range(1, len(firsts)):
        before = cumulated[:, beginnings[place] - 1]  # probability that the unit has not started yet
        edges[place], confidence[place] = crossing(before, int(firsts[place]))
        if emissions.acoustics is not None:
            edges[place] = at_change(before, edges[place], emissions.acoustics.change)
    edges = ordered(edges)
    if emissions.acoustics is not None:
        edges = at_onsets(edges, script.kind[present] == PAUSE, emissions.acoustics.level)
    whole = np.zeros((len(path), len(graph.unit)), np.float32)
    whole[:, states] = posterior
    return UnitPlaces(present, edges, confidence, emissions.score(path, graph), whole, path)


def ordered(edges: NDArray[np.float64], least: float = 0.5) -> NDArray[np.float64]:
    """Put positions of a text's units in order, at least half a frame apart."""
    steps = least * np.arange(len(edges))
    end = edges[-1]
    edges = np.maximum.accumulate(edges - steps) + steps
    edges[-1] = end
    return np.minimum.accumulate((edges - steps)[::-1])[::-1] + steps


def crossing(before: NDArray[np.float64], near: int) -> tuple[float, float]:
    """Position between frames where a decreasing probability passes one half, and the confidence from its drop."""
    begin, end = max(near - 60, 0), min(near + 60, len(before))
    window = np.minimum.accumulate(before[begin:end])
    below = int(np.searchsorted(-window, -0.5))
    if below == 0 or below == len(window):
        place = float(near)
    else:
        high, low = window[below - 1], window[below]
        place = begin + below - 0.5 + (high - 0.5) / max(high - low, 1e-9)  # a frame stands for its middle
    at = round(place)
    early, late = before[max(at - TOLERANCE - 1, 0)], before[min(at + TOLERANCE, len(before) - 1)]
    return place, float(np.clip(early - late, 0.0, 1.0) ** OVERCONFIDENCE)
