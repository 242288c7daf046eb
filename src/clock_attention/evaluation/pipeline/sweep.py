"""Sweeps: evaluate systems over a range of lengths, for the paper's third figure and the rows of its tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clock_attention.evaluation.pipeline.evaluate import Evaluation
from clock_attention.evaluation.pipeline.session import Session
from clock_attention.evaluation.prompts import Prompt
from clock_attention.evaluation.systems.systems import CopySynthesis, Length, System, TeacherSystem, VoiceSystem
from clock_attention.files import write_atomically
from clock_attention.speech.voice.pacing import MOST_FRAMES

SAMPLE = "Heels, nails, blade, mascara, fit check for my napalm era."  # the paper's sample sentence
SAMPLE_MPRS = (3.0, 6.0, 10.0)
CAP = 7.0  # frames per phoneme at which autoregressive models without their own stopping are cut off


def parse_range(texts: Sequence[str]) -> list[float]:
    """Parse the range of a sweep: "3:10" (whole steps), "3:10:0.5", "6" → sorted numbers; "natural" adds none."""
    values: set[float] = set()
    for text in texts:
        if text == "natural":
            continue
        try:
            first, *rest = (float(part) for part in text.split(":"))
            last, step = (rest + [1.0, 1.0])[:2] if rest else (first, 1.0)
            if len(rest) > 2 or step <= 0 or not 0 < first <= last <= MOST_FRAMES:
                raise ValueError
        except ValueError:
            limit = f"at most {MOST_FRAMES} frames per phoneme"
            raise ValueError(f"mpr {text}: expected 6, 3:10, 3:10:0.5 or natural, {limit}") from None
        values.update(round(first + step * place, 6) for place in range(int((last - first) / step + 1e-9) + 1))
    return sorted(values)


def lengths_of(system: System, mprs: Sequence[float], cap: float = CAP) -> list[Length]:
    """The lengths of a system in a sweep, as in the paper: the whole range for parallel models, else a cap.

    Parallel models and the teacher are also evaluated at their natural length. Causal clocks stop by
    themselves, at their own pace.
    """
    if isinstance(system, CopySynthesis):
        return [Length()]
    if isinstance(system, VoiceSystem) and system.voice.model.config.autoregressive:
        return [Length() if system.voice.model.needs_pace else Length(mpr=cap)]
    return [Length(), *(Length(mpr=mpr) for mpr in mprs)]


def at(system: System, length: Length) -> System:
    """The same system at another length of the sweep; recordings have their own."""
    return system.at(length) if isinstance(system, VoiceSystem | TeacherSystem) else system


def sweep(
    systems: Sequence[System], prompts: Sequence[Prompt], mprs: Sequence[float], session: Session, cap: float = CAP
) -> list[Evaluation]:
    """Evaluate every system at each of its lengths; returns an empty list on all ranks but the first."""
    found = []
    for system in systems:
        for length in lengths_of(system, mprs, cap):
            evaluation = session.evaluate(at(system, length), prompts)
            if evaluation is not None:
                found.append(evaluation)
    return found


def write_sweep(path: Path, evaluations: Sequence[Evaluation], **about: Any) -> None:
    """Write the evaluations of a sweep as `sweep.json`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = {**about, "evaluations": [one.to_json() for one in evaluations]}
    write_atomically(path, json.dumps(table, ensure_ascii=False, indent=1))


def read_sweep(path: Path) -> list[Evaluation]:
    """Read the evaluations in a `sweep.json`."""
    return [Evaluation.from_json(one) for one in json.loads(path.read_text("utf-8"))["evaluations"]]


def names(evaluations: Sequence[Evaluation]) -> list[str]:
    """Names of the systems in a sweep, in order, without duplicates."""
    return list(dict.fromkeys(one.system for one in evaluations))


def of_system(evaluations: Sequence[Evaluation], system: str) -> list[Evaluation]:
    """The evaluations of one system in a sweep."""
    return [one for one in evaluations if one.system == system]


def best(evaluations: Sequence[Evaluation], system: str, recognizer: str) -> Evaluation:
    """The evaluation of a sweep at the length where a system has its lowest word error rate."""
    return min(of_system(evaluations, system), key=lambda one: one.scores[recognizer].wer.estimate)


def best_shared(evaluations: Sequence[Evaluation], systems: Sequence[str], recognizer: str) -> str | None:
    """The length in a sweep with the lowest mean word error rate of these systems, among their common lengths."""
    rates: dict[str, list[float]] = {}
    for one in evaluations:
        if one.system in systems:
            rates.setdefault(one.length, []).append(one.scores[recognizer].wer.estimate)
    common = {length: sum(found) for length, found in rates.items() if len(found) == len(systems)}
    return min(common, key=lambda length: common[length]) if common else None
