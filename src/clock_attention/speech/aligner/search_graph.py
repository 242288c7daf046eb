"""The aligner's search graph: a sequence of units, some of them optional, as states with arcs between them.

A unit is a sound, a silence or other speech; it passes through its states in order and may stay in each. Optional units
may be skipped, and so may whole words, each at a cost. Every arc consumes one frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

MOST_SKIPPED = 200.0  # nats; more expensive skips are not tried


@dataclass(frozen=True)
class Unit:
    """A unit of the search graph: `columns` are its states in the emissions, `skip` is the cost of leaving it out."""

    columns: tuple[int, ...]
    skip: float = np.inf
    entry: float = 0.0


@dataclass
class SearchGraph:
    """The search graph, incoming arcs in compressed rows: those into state s are `sources[first[s]:first[s + 1]]`."""

    unit: NDArray[np.int32]  # (states,) unit that a state belongs to
    column: NDArray[np.int32]  # (states,)
    first: NDArray[np.int32]  # (states + 1,)
    sources: NDArray[np.int32]  # (arcs,)
    costs: NDArray[np.float64]  # (arcs,)
    enters: NDArray[np.bool_]  # (arcs,) whether a new unit starts
    start: NDArray[np.float64]  # (states,) cost of starting here; inf if no path can start here
    final: NDArray[np.float64]  # (states,) cost of ending here
    shortest: int = 0  # frames of the shortest path
    units: Sequence[Unit] = field(default_factory=list)


def build(units: Sequence[Unit], jumps: Sequence[tuple[int, int, float]] = ()) -> SearchGraph:
    """Build the search graph of a sequence of units; a jump (i, j, cost) skips the units i … j−1 together."""
    count = len(units)
    leaps: list[list[tuple[int, float]]] = [[] for _ in range(count + 1)]
    for place, unit in enumerate(units):
        if unit.skip < np.inf:
            leaps[place].append((place + 1, unit.skip))
    for begin, end, cost in jumps:
        leaps[begin].append((end, cost))
    reach = [reachable(leaps, place) for place in range(count + 1)]

    sizes = [len(unit.columns) for unit in units]
    offsets = [0, *accumulate(sizes)]
    incoming: list[list[tuple[int, float, bool]]] = [[] for _ in range(offsets[-1])]
    start, final = np.full(offsets[-1], np.inf), np.full(offsets[-1], np.inf)
    for place, unit in enumerate(units):
        for within, state in enumerate(range(offsets[place], offsets[place + 1])):
            # Of several states with the same column, only the last has a self-loop. Otherwise the posterior would count
            # every way to distribute the frames among them and prefer the minimum duration.
            if within + 1 == sizes[place] or unit.columns[within] != unit.columns[within + 1]:
                incoming[state].append((state, 0.0, False))
            if within:
                incoming[state].append((state - 1, 0.0, False))
        last = offsets[place + 1] - 1
        for following, cost in reach[place + 1]:
            if following == count:
                final[last] = cost
            else:
                incoming[offsets[following]].append((last, cost + units[following].entry, True))
    for following, cost in reach[0]:
        if following < count:
            start[offsets[following]] = cost + units[following].entry
    first = np.cumsum([0] + [len(arcs) for arcs in incoming])
    arcs = [arc for into in incoming for arc in into]
    required = sum(len(unit.columns) for unit in units if unit.skip == np.inf)
    return SearchGraph(
        unit=np.repeat(np.arange(count, dtype=np.int32), sizes),
        column=np.array([column for unit in units for column in unit.columns], np.int32),
        first=first.astype(np.int32),
        sources=np.array([arc[0] for arc in arcs], np.int32),
        costs=np.array([arc[1] for arc in arcs], np.float64),
        enters=np.array([arc[2] for arc in arcs], np.bool_),
        start=start,
        final=final,
        shortest=required,
        units=units,
    )


def reachable(leaps: list[list[tuple[int, float]]], place: int) -> list[tuple[int, float]]:
    """Positions in the search graph that can be reached from one without consuming a frame, with the lowest cost."""
    if not leaps[place]:
        return [(place, 0.0)]
    best = {place: 0.0}
    waiting = [place]
    while waiting:
        here = min(waiting)
        waiting.remove(here)
        for there, cost in leaps[here]:
            total = best[here] + cost
            if total < min(best.get(there, np.inf), MOST_SKIPPED):
                if there not in waiting:
                    waiting.append(there)
                best[there] = total
    return sorted(best.items())
