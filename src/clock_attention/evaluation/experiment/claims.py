"""The claims of the experiment: expected results, each checked against its measurement."""

from __future__ import annotations

from collections.abc import Sequence

from clock_attention.evaluation.pipeline.evaluate import Evaluation, counts_phones, paired_difference
from clock_attention.evaluation.pipeline.sweep import best, best_shared, names, of_system
from clock_attention.evaluation.report.document import Cells
from clock_attention.evaluation.report.tables import points
from clock_attention.evaluation.scoring.bootstrap import ConfidenceInterval, bootstrap
from clock_attention.evaluation.scoring.error_rates import unpaired_difference

CLOCK, CAUSAL = "parallel-clock", "causal-clock"
NEAR = 0.03  # margin above the floor
RECOGNIZABLE = 0.20  # the paper's "broadly recognizable regime"
FROM, TO = 4.0, 10.0  # MPR


def check_claims(
    sweep: Sequence[Evaluation],
    hard: Sequence[Evaluation],
    copy: Sequence[Evaluation],
    pairs: Sequence[tuple[str, str]],
    recognizers: Sequence[str],
) -> Cells:
    """Check every claim: one row per claim with its measurement and verdict. Unmeasured claims are left out.

    Args:
        copy: copy-synthesis of recordings, the floor if the sweep has no teacher.
        pairs: pairs of systems that differ only in their attention.
        recognizers: phone recognizers are skipped: the claims are about word error rates.
    """
    cells = [["claim", "recognizer", "measured", "verdict"]]
    for recognizer in recognizers:
        if counts_phones(recognizer):
            continue
        covered = [one for one in sweep if recognizer in one.recognizers]
        rows = [
            *near_the_floor(covered, copy, recognizer),
            *recognizable(covered, recognizer),
            *(row for pair in pairs for row in no_worse(covered, pair, recognizer)),
            *causal(covered, recognizer),
        ]
        cells += [[claim, recognizer, found, verdict] for claim, found, verdict in rows]
    return [*cells, *([claim, "", found, verdict] for claim, found, verdict in [*stopping(sweep), *faultless(hard)])]


ClaimRow = tuple[str, str, str]


def judged(holds: bool) -> str:
    """The verdict on a claim, in words."""
    return "holds" if holds else "does not hold"


def at_most(interval: ConfidenceInterval, limit: float) -> str:
    """The verdict on a claim with an upper limit; inconclusive if the interval includes the limit."""
    if interval.low <= limit <= interval.high:
        return "inconclusive: the interval includes the limit"
    return judged(interval.estimate <= limit)


def near_the_floor(sweep: Sequence[Evaluation], copy: Sequence[Evaluation], recognizer: str) -> list[ClaimRow]:
    """Claim: clock attention is close to the teacher (same sentences), or else to recordings (unpaired comparison)."""
    recordings = [one for one in copy if recognizer in one.recognizers]
    teacher = [one for one in of_system(sweep, "teacher") if one.length == "natural"]
    if CLOCK not in names(sweep) or not (teacher or recordings):
        return []
    ours = best(sweep, CLOCK, recognizer)
    if teacher:
        found = paired_difference(ours, teacher[0], recognizer)
    else:
        found = unpaired_difference(ours.scores[recognizer], recordings[0].scores[recognizer])
    floor = (teacher or recordings)[0].system
    claim = f"{CLOCK} at its best length is within {100 * NEAR:.0f} points of WER of {floor}"
    return [(claim, f"{points(found)} points at {ours.length}", at_most(found, NEAR))]


def recognizable(sweep: Sequence[Evaluation], recognizer: str) -> list[ClaimRow]:
    """Claim: clock attention stays recognizable over the range of lengths."""
    inside = [one for one in of_system(sweep, CLOCK) if one.mpr is not None and FROM <= one.mpr <= TO]
    measured = sorted({one.mpr for one in inside if one.mpr is not None})
    if not {FROM, TO} <= set(measured):
        return []
    worst = max(inside, key=lambda one: one.scores[recognizer].wer.estimate)
    rate = worst.scores[recognizer].wer
    claim = f"{CLOCK} stays below {100 * RECOGNIZABLE:.0f} % WER from MPR {FROM:g} to {TO:g}"
    places = ", ".join(f"{mpr:g}" for mpr in measured)
    return [(claim, f"at most {rate}, at {worst.length} (of {places})", at_most(rate, RECOGNIZABLE))]


def no_worse(sweep: Sequence[Evaluation], pair: tuple[str, str], recognizer: str) -> list[ClaimRow]:
    """Claim: clock attention makes no more word errors than dot attention at their best shared length."""
    if not set(pair) <= set(names(sweep)):
        return []
    length = best_shared(sweep, pair, recognizer)
    if length is None:
        return []
    first, second = (next(one for one in of_system(sweep, name) if one.length == length) for name in pair)
    found = paired_difference(first, second, recognizer)
    claim = f"{pair[0]} makes no more word errors than {pair[1]} at their best shared length"
    return [(claim, f"{points(found)} points at {length}", at_most(found, 0.0))]


def causal(sweep: Sequence[Evaluation], recognizer: str) -> list[ClaimRow]:
    """Claim: causal clocks make at most twice the word errors of parallel ones."""
    if not {CLOCK, CAUSAL} <= set(names(sweep)):
        return []
    ours, parallel = (best(sweep, name, recognizer).scores[recognizer] for name in (CAUSAL, CLOCK))
    (errors, lengths), (others, _) = ours.arrays("wer"), parallel.arrays("wer")
    excess = bootstrap(errors - 2 * others, lengths, resamples=ours.resamples, seed=ours.seed)
    claim = f"{CAUSAL} makes at most twice the word errors of {CLOCK}"
    return [(claim, f"{ours.wer} against {parallel.wer}", at_most(excess, 0.0))]


def stopping(sweep: Sequence[Evaluation]) -> list[ClaimRow]:
    """Claim: causal clocks stop by themselves."""
    found = of_system(sweep, CAUSAL)
    if not found or any("hit_ceiling" not in one.alignment for one in found):
        return []
    cut = sum(int(one.alignment["hit_ceiling"]) for one in found)
    spoken = sum(len(one.results) for one in found)
    return [(f"{CAUSAL} stops by itself", f"{cut} of {spoken} were cut off", judged(cut == 0))]


def faultless(hard: Sequence[Evaluation]) -> list[ClaimRow]:
    """Claim: clock attention skips and repeats no word of the hard list."""
    found = [one.alignment for one in of_system(hard, CLOCK)]
    measures = ("words", "word_skips", "words_under_a_step", "word_repeats", "word_skips_in_mean")
    if not found or any(name not in one for one in found for name in measures):
        return []
    words, skips, short, repeats, in_mean = (int(sum(one[name] for one in found)) for name in measures)
    claim = f"{CLOCK} skips and repeats no word of the hard list, by its alignment"
    measured = (
        f"of {words} words, {skips} read by no head, {short} given less than one decoder step, {repeats} repeated; "
        f"{in_mean} never the top of the heads' mean"
    )
    return [(claim, measured, judged(skips == short == repeats == 0))]
