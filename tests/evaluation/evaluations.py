"""Evaluations that were made up: a small sweep with known errors."""

from __future__ import annotations

from clock_attention.evaluation.pipeline.evaluate import Evaluation, Result

TEXTS = [
    f"{animal} number {place} sat on the mat today" for place, animal in enumerate(["cat", "dog", "cow", "pig"] * 5)
]


def canned(system: str, mpr: float | None, wrong: int, faults: int = 0, cut: int = 0, deaf: bool = False) -> Evaluation:
    """Twenty sentences of eight words; in `wrong` of them one word was misheard."""
    results = tuple(
        Result(
            id=f"p{place}",
            group="list",
            text=text,
            frames=100,
            seconds=1.0,
            measures={} if system == "teacher" else measures(faults if place == 0 else 0, cut if place == 0 else 0),
            transcripts={"ear": "" if deaf else text.replace("sat", "zebra") if place < wrong else text},
            opinions={},
        )
        for place, text in enumerate(TEXTS)
    )
    length = "natural" if mpr is None else f"MPR {mpr:g}"
    return Evaluation(system, length, "f" * 32, "v", {"ear": "fingerprint"}, results, mpr)


def measures(faults: int, cut: int) -> dict[str, float]:
    counted = dict.fromkeys(("word_repeats", "skipped", "repeated", "expected_violations"), 0)
    means = dict.fromkeys(("coverage", "focus", "normalized_entropy", "diagonal_deviation"), 0.5)
    skips = {"word_skips": 0, "words_under_a_step": faults, "word_skips_in_mean": 0}
    return {"words": 8, "hit_ceiling": cut, **skips, **counted, **means}


SWEEP = [
    *(canned("parallel-clock", mpr, wrong) for mpr, wrong in ((None, 2), (4, 5), (6, 1), (10, 3))),
    *(canned("parallel-dot", mpr, wrong) for mpr, wrong in ((None, 4), (4, 20), (6, 2), (10, 9))),
    canned("causal-clock", None, 2),
    *(canned("teacher", mpr, 0) for mpr in (None, 4, 6, 10)),
]
