"""Tables of evaluations for the terminal and for reports: rows of text cells, starting with the header."""

from __future__ import annotations

from collections.abc import Sequence

from clock_attention.evaluation.pipeline.evaluate import Evaluation, counts_phones, paired_difference
from clock_attention.evaluation.report.document import Cells
from clock_attention.evaluation.scoring.bootstrap import ConfidenceInterval
from clock_attention.evaluation.scoring.error_rates import Measure
from clock_attention.evaluation.scoring.skips_and_repeats import COUNTED

MEASURES = {  # alignment measures and their headings
    "word_skips": "words skipped",
    "word_skips_in_mean": "words skipped, mean attention",
    "words_under_a_step": "words under one step",
    "word_repeats": "words repeated",
    "skipped": "phonemes skipped",
    "repeated": "phonemes repeated",
    "expected_violations": "steps back",
    "coverage": "coverage",
    "focus": "focus",
    "normalized_entropy": "entropy",
    "diagonal_deviation": "off diagonal",
}


def score_table(evaluations: Sequence[Evaluation]) -> Cells:
    """Table of error rates: a row for each system and recognizer. For phone recognizers, they are phone error rates."""
    opinions = sorted({f"{name} {part}" for one in evaluations for name, s in one.opinions.items() for part in s})
    header = ["system", "length", "recognizer", "WER", "CER", "S / D / I", "skips", "repeats", *opinions]
    rows = []
    for one in evaluations:
        for recognizer, score in one.scores.items():
            words = score.words
            characters = "" if counts_phones(recognizer) else str(score.cer)
            cells = [one.system, one.length, recognizer, str(score.wer), characters]
            cells += [f"{words.substitutions} / {words.deletions} / {words.insertions}"]
            cells += [str(score.skips), str(score.repeats)]
            found = {f"{name} {part}": value for name, s in one.opinions.items() for part, value in s.items()}
            rows.append(cells + [f"{found[name]:.2f}" if name in found else "" for name in opinions])
    return [header, *rows]


def alignment_table(evaluations: Sequence[Evaluation]) -> Cells:
    """Table of alignment measures: a row for each system that has an alignment."""
    rows = []
    for one in evaluations:
        if one.alignment:
            rows.append([one.system, one.length, *(number(name, one.alignment.get(name)) for name in MEASURES)])
    return [["system", "length", *MEASURES.values()], *rows]


def sound_table(evaluations: Sequence[Evaluation], against: bool) -> Cells:
    """Table of sound measures, or of comparisons with other systems (`against`): one row each."""
    found = [
        (one, name, measured) for one in evaluations for name, measured in one.sound.items() if bool(name) == against
    ]
    columns = list(dict.fromkeys(column for _, _, measured in found for column in measured))
    rows = []
    for one, reference, measured in found:
        cells = [one.system, one.length, *([reference] if against else [])]
        rows.append(cells + ["{:.2f} [{:.2f}, {:.2f}]".format(*measured[c]) if c in measured else "" for c in columns])
    return [["system", "length", *(["against"] if against else []), *columns], *rows]


def difference_table(evaluations: Sequence[Evaluation], pairs: Sequence[tuple[int, int]] | None = None) -> Cells:
    """Table of paired differences between the first system and the others, or between given pairs of indices."""
    pairs = [(0, other) for other in range(1, len(evaluations))] if pairs is None else pairs
    rows = []
    for first, second in pairs:
        one, other = evaluations[first], evaluations[second]
        for recognizer in one.recognizers:
            if recognizer in other.recognizers:
                wer = paired_difference(one, other, recognizer)
                cer = paired_difference(one, other, recognizer, "cer")
                name = f"{one.title} − {other.title}"
                rows.append([name, recognizer, points(wer), points(cer)])
    return [["difference", "recognizer", "WER, points", "CER, points"], *rows]


def points(interval: ConfidenceInterval) -> str:
    """Format an interval for a table, in signed percentage points."""
    return f"{100 * interval.estimate:+.2f} [{100 * interval.low:+.2f}, {100 * interval.high:+.2f}]"


def number(name: str, value: float | None) -> str:
    """Format a measure for a table: counts as integers, others with three decimals."""
    if value is None:  # results of an older version that did not measure it
        return ""
    return f"{value:.0f}" if name in COUNTED else f"{value:.3f}"


def sweep_table(evaluations: Sequence[Evaluation], recognizer: str, measure: Measure = "wer") -> Cells:
    """Table of a sweep: one row per system, one column per length."""
    scored = [one for one in evaluations if recognizer in one.recognizers]
    lengths = list(dict.fromkeys(one.length for one in sorted(scored, key=lambda one: one.mpr or 0.0)))
    rows = []
    for system in dict.fromkeys(one.system for one in scored):
        found = {
            one.length: percent(one.scores[recognizer].interval(measure)) for one in scored if one.system == system
        }
        rows.append([system, *(found.get(length, "") for length in lengths)])
    return [["system", *lengths], *rows]


def percent(interval: ConfidenceInterval) -> str:
    """Format an interval for a table, in percent."""
    return f"{100 * interval.estimate:.1f} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"
