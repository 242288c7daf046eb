"""Claims: measured, failed, inconclusive, not measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clock_attention.evaluation.experiment.claims import check_claims
from clock_attention.evaluation.pipeline.evaluate import Evaluation
from tests.evaluation.evaluations import SWEEP, canned

pytest.importorskip("jiwer", reason="jiwer is not installed")
pytest.importorskip("whisper_normalizer", reason="whisper-normalizer is not installed")


PAIRS = [("parallel-clock", "parallel-dot")]


def verdicts(sweep=SWEEP, hard=(), copy=()) -> dict[str, tuple[str, str]]:
    header, *rows = check_claims(sweep, hard, copy, PAIRS, ["ear", "ear-phones"])
    assert header == ["claim", "recognizer", "measured", "verdict"]
    return {claim: (measured, verdict) for claim, _, measured, verdict in rows}


def test_claims_are_measured_at_the_best_length() -> None:
    found = verdicts()
    floor = found["parallel-clock at its best length is within 3 points of WER of teacher"]
    assert floor[0].startswith("+0.62 [")
    assert floor[0].endswith("points at MPR 6")
    assert floor[1] == "holds"
    below = found["parallel-clock stays below 20 % WER from MPR 4 to 10"]
    assert below[0].endswith("(of 4, 6, 10)")
    assert below[1] == "holds"
    difference = found["parallel-clock makes no more word errors than parallel-dot at their best shared length"]
    assert difference[0].startswith("-0.62 [")
    assert difference[1] == "inconclusive: the interval includes the limit"  # 1 and 2 of 160 words
    twice = found["causal-clock makes at most twice the word errors of parallel-clock"]
    assert twice[1] == "inconclusive: the interval includes the limit"  # 2 and 1 of 160 words
    assert found["causal-clock stops by itself"] == ("0 of 20 were cut off", "holds")


@pytest.mark.parametrize(
    ("worse", "claim"),
    [
        (canned("parallel-clock", 6, 20), "within 3 points"),
        (canned("parallel-clock", 6, 20), "no more word errors"),
        (canned("causal-clock", None, 20), "at most twice"),
        (canned("causal-clock", None, 0, cut=1), "stops by itself"),
    ],
)
def test_failed_claims_are_reported_as_failed(worse: Evaluation, claim: str) -> None:
    sweep = [*(one for one in SWEEP if one.system != worse.system), worse]
    found = next(verdict for text, (_, verdict) in verdicts(sweep).items() if claim in text)
    assert found.startswith("does not hold")


def test_a_range_is_judged_only_where_both_of_its_ends_were_measured() -> None:
    claim = "parallel-clock stays below 20 % WER from MPR 4 to 10"
    assert claim not in verdicts([one for one in SWEEP if one.mpr != 4])
    deaf = canned("parallel-clock", 7, 20, deaf=True)
    assert verdicts([*SWEEP, deaf])[claim][1] == "does not hold"


def test_the_hard_list_is_judged_by_the_alignment() -> None:
    claim = "parallel-clock skips and repeats no word of the hard list, by its alignment"
    assert claim not in verdicts()
    measured, verdict = verdicts(hard=[canned("parallel-clock", None, 5)])[claim]
    assert measured.startswith("of 160 words, 0 read by no head, 0 given less than one decoder step, 0 repeated; 0 ")
    assert verdict == "holds"
    assert verdicts(hard=[canned("parallel-clock", None, 0, faults=2)])[claim][1] == "does not hold"


def test_what_was_not_measured_is_not_reported_as_holding() -> None:
    def without(measure: str, one: Evaluation) -> Evaluation:
        first, *rest = one.results
        kept = {name: value for name, value in first.measures.items() if name != measure}
        return replace(one, results=(replace(first, measures=kept), *rest))

    hard = canned("parallel-clock", None, 0, faults=2)
    assert "skips and repeats no word" not in " ".join(verdicts(hard=[without("words_under_a_step", hard)]))
    sweep = [without("hit_ceiling", one) if one.system == "causal-clock" else one for one in SWEEP]
    assert "stops by itself" not in " ".join(verdicts(sweep))


def test_recordings_are_the_floor_where_there_is_no_teacher() -> None:
    sweep = [one for one in SWEEP if one.system != "teacher"]
    claim = "parallel-clock at its best length is within 3 points of WER of copy-synthesis"
    assert claim not in verdicts(sweep)
    measured, verdict = verdicts(sweep, copy=[canned("copy-synthesis", None, 1)])[claim]
    assert measured.startswith("+0.00 [-")  # one misheard word each, but not in pairs
    assert verdict == "holds"
    assert verdicts(sweep, copy=[canned("copy-synthesis", None, 0)])[claim][0].startswith("+0.62 [")
