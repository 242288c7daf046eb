"""What the experiment is expected to show, checked against what it has shown."""

from __future__ import annotations

from collections.abc import Sequence

from clock_attention.evaluation.document import Cells
from clock_attention.evaluation.evaluate import Evaluation, paired_difference
from clock_attention.evaluation.sweep import best, best_shared, names, of_system
from clock_attention.evaluation.tables import points

CLOCK, CAUSAL = "parallel-clock", "causal-clock"
NEAR = 0.03  # of the floor
RECOGNIZABLE = 0.20  # the paper's "broadly recognizable regime"
FROM, TO = 4.0, 10.0  # MPR


def check_claims(
    sweep: Sequence[Evaluation],
    hard: Sequence[Evaluation],
    pairs: Sequence[tuple[str, str]],
    floor: str,
    recognizer: str,
) -> Cells:
    """One row a claim: what was expected, what was measured, whether it holds. What was not measured is left out.

    Args:
        pairs: systems that differ in their attention alone.
        floor: the system that speaks as well as the vocoder and the recognizer allow.
    """
    heard = [one for one in sweep if recognizer in one.recognizers]
    rows = [
        *near_the_floor(heard, floor, recognizer),
        *recognizable(heard, recognizer),
        *(row for pair in pairs for row in no_worse(heard, pair, recognizer)),
        *causal(heard, recognizer),
        *faultless(hard),
    ]
    return [["claim", "measured", "verdict"], *([claim, found, verdict(holds)] for claim, found, holds in rows)]


Row = tuple[str, str, bool]


def verdict(holds: bool) -> str:
    return "holds" if holds else "does not hold"


def near_the_floor(sweep: Sequence[Evaluation], floor: str, recognizer: str) -> list[Row]:
    if not {CLOCK, floor} <= set(names(sweep)):
        return []
    ours = best(sweep, CLOCK, recognizer)
    theirs = next(one for one in of_system(sweep, floor) if one.length == "natural")
    found = paired_difference(ours, theirs, recognizer)
    claim = f"{CLOCK} at its best length is within {100 * NEAR:.0f} points of WER of {floor}"
    return [(claim, f"{points(found)} points at {ours.length}", found.estimate <= NEAR)]


def recognizable(sweep: Sequence[Evaluation], recognizer: str) -> list[Row]:
    inside = [one for one in of_system(sweep, CLOCK) if one.mpr is not None and FROM <= one.mpr <= TO]
    if not inside:
        return []
    worst = max(inside, key=lambda one: one.scores[recognizer].wer.estimate)
    rate = worst.scores[recognizer].wer
    claim = f"{CLOCK} stays below {100 * RECOGNIZABLE:.0f} % WER from MPR {FROM:g} to {TO:g}"
    return [(claim, f"at most {rate}, at {worst.length}", rate.estimate < RECOGNIZABLE)]


def no_worse(sweep: Sequence[Evaluation], pair: tuple[str, str], recognizer: str) -> list[Row]:
    if not set(pair) <= set(names(sweep)):
        return []
    length = best_shared(sweep, pair, recognizer)
    if length is None:
        return []
    first, second = (next(one for one in of_system(sweep, name) if one.length == length) for name in pair)
    found = paired_difference(first, second, recognizer)
    claim = f"{pair[0]} makes no more word errors than {pair[1]} at their best shared length"
    return [(claim, f"{points(found)} points at {length}", found.estimate <= 0)]


def causal(sweep: Sequence[Evaluation], recognizer: str) -> list[Row]:
    if not {CLOCK, CAUSAL} <= set(names(sweep)):
        return []
    one = best(sweep, CAUSAL, recognizer)
    rate, parallel = one.scores[recognizer].wer, best(sweep, CLOCK, recognizer).scores[recognizer].wer
    cut = int(one.alignment.get("hit_ceiling", 0))
    twice = f"{CAUSAL} makes at most twice the word errors of {CLOCK}"
    return [
        (twice, f"{rate} against {parallel}", rate.estimate <= 2 * parallel.estimate),
        (f"{CAUSAL} stops by itself", f"{cut} of {len(one.results)} were cut off", cut == 0),
    ]


def faultless(hard: Sequence[Evaluation]) -> list[Row]:
    found = [one.alignment for one in of_system(hard, CLOCK)]
    if not found:
        return []
    skips, repeats = (int(sum(one[name] for one in found)) for name in ("word_skips", "word_repeats"))
    claim = f"{CLOCK} skips and repeats no word of the hard list, by its alignment"
    return [(claim, f"{skips} skipped, {repeats} repeated", skips == repeats == 0)]
