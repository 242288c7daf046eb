from __future__ import annotations

import numpy as np

from clock_attention.speech.aligner.search_graph import MOST_SKIPPED, Unit, build, reachable


def test_states_of_a_unit_follow_each_other_and_may_stay():
    graph = build([Unit((4, 5))])
    assert graph.column.tolist() == [4, 5]
    assert graph.sources[graph.first[1] : graph.first[2]].tolist() == [1, 0]
    assert graph.start.tolist() == [0.0, np.inf]
    assert graph.final.tolist() == [np.inf, 0.0]
    assert graph.shortest == 2


def test_passing_over_optional_units_adds_their_costs():
    graph = build([Unit((1,)), Unit((0,), skip=0.5), Unit((0,), skip=0.25), Unit((2,), entry=1.0)])
    into = slice(graph.first[3], graph.first[4])
    costs = dict(zip(graph.sources[into].tolist(), graph.costs[into].tolist(), strict=True))
    assert costs == {3: 0.0, 2: 1.0, 1: 1.25, 0: 1.75}
    assert graph.shortest == 2


def test_jumps_pass_over_several_units_at_once():
    graph = build([Unit((1,)), Unit((2,)), Unit((3,)), Unit((4,))], jumps=[(1, 3, 7.0)])
    into = slice(graph.first[3], graph.first[4])
    assert (0, 7.0) in set(zip(graph.sources[into].tolist(), graph.costs[into].tolist(), strict=True))


def test_far_jumps_are_not_tried():
    leaps = [[(place + 1, MOST_SKIPPED * 0.4)] for place in range(9)] + [[]]
    assert [place for place, _ in reachable(leaps, 0)] == [0, 1, 2]
