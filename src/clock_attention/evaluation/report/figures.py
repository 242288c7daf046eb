"""Figures for a report: counterparts of the paper's three figures, and learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from clock_attention.alignment import FloatArray
from clock_attention.evaluation.pipeline.evaluate import Evaluation
from clock_attention.evaluation.pipeline.sweep import CAP, SAMPLE, SAMPLE_MPRS, lengths_of, names, of_system
from clock_attention.evaluation.scoring.bootstrap import ConfidenceInterval
from clock_attention.evaluation.scoring.error_rates import Measure
from clock_attention.evaluation.systems.systems import Length, VoiceSystem
from clock_attention.files import replacing
from clock_attention.speech.training.progress import read_log
from clock_attention.speech.voice.utterance import alignment_matrix

# Colour-blind safe (Okabe & Ito, 2008).
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v")


@dataclass(frozen=True)
class Portrait:
    """One utterance in a figure of the report: its attention and its mel."""

    title: str
    matrix: FloatArray  # (steps, T)
    mel: np.ndarray[Any, Any]  # (S, M)
    tokens: tuple[str, ...]


def portrait(system: VoiceSystem, length: Length, text: str = SAMPLE) -> Portrait:
    """Speak a sentence for a figure of the report."""
    utterance = system.at(length).utter(text)
    return Portrait(
        str(length), alignment_matrix(utterance.weights), utterance.mel.numpy(), tuple(utterance.phonemes.tokens)
    )


def draw_portraits(columns: Mapping[str, Sequence[Portrait]], path: Path) -> None:
    """Draw attention maps and mels of several systems on the same time axis: figures 1 and 2 of the paper."""
    rows = max(map(len, columns.values()))
    longest = max(len(one.mel) for portraits in columns.values() for one in portraits)
    figure = new_figure(4.2 * len(columns), 3.4 * rows)
    grid = figure.subplots(2 * rows, len(columns), squeeze=False)
    for column, (name, portraits) in enumerate(columns.items()):
        for row in range(rows):
            upper, lower = grid[2 * row][column], grid[2 * row + 1][column]
            if row >= len(portraits):
                upper.axis("off")
                lower.axis("off")
                continue
            one = portraits[row]
            frames = len(one.mel)
            extent = (0.0, float(frames), -0.5, one.matrix.shape[1] - 0.5)
            upper.imshow(one.matrix.T, origin="lower", aspect="auto", interpolation="nearest", extent=extent)
            upper.set(title=f"{name}, {one.title}", ylabel="phoneme", xlim=(0, longest))
            lower.imshow(
                one.mel.T, origin="lower", aspect="auto", cmap="magma", extent=(0, frames, 0, one.mel.shape[1])
            )
            lower.set(xlabel="mel frame", ylabel="mel bin", xlim=(0, longest))
    save(figure, path)


def draw_sample(systems: Sequence[VoiceSystem], folder: Path, cap: float = CAP) -> list[Path]:
    """Draw figures of the paper's sample sentence: parallel systems at three lengths, others at their own."""
    parallel = {
        system.name: [portrait(system, Length(mpr=mpr)) for mpr in SAMPLE_MPRS]
        for system in systems
        if not system.voice.model.config.autoregressive
    }
    autoregressive = {
        system.name: [portrait(system, lengths_of(system, [], cap)[0])]
        for system in systems
        if system.voice.model.config.autoregressive
    }
    drawn = []
    for name, columns in (("parallel", parallel), ("autoregressive", autoregressive)):
        path = folder / f"{name}.png"
        path.unlink(missing_ok=True)  # left over from systems that are no longer included
        if columns:
            draw_portraits(columns, path)
            drawn.append(path)
    return drawn


def draw_scores(evaluations: Sequence[Evaluation], path: Path) -> None:
    """Draw WER and CER over the mel-to-phoneme ratio with 95 % intervals: figure 3 of the paper.

    Colours denote systems, markers denote recognizers. Systems with only one length (copy-synthesis, models that stop
    by themselves) are dashed lines.
    """
    recognizers = list(dict.fromkeys(name for one in evaluations for name in one.recognizers))
    figure = new_figure(13, 4.8)
    measures: tuple[Measure, Measure] = ("wer", "cer")
    for axis, measure in zip(figure.subplots(1, 2), measures, strict=True):
        for colour, system in zip(cycle(COLOURS), names(evaluations), strict=False):
            for marker, recognizer in zip(cycle(MARKERS), recognizers, strict=False):
                draw_system(axis, of_system(evaluations, system), recognizer, measure, colour, marker)
        axis.set(xlabel="mel-to-phoneme ratio", ylabel=f"{measure.upper()}, %", ylim=(0, None))
        axis.grid(alpha=0.3)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)
    save(figure, path)


def draw_system(
    axis: Any, evaluations: Sequence[Evaluation], recognizer: str, measure: Measure, colour: str, marker: str
) -> None:
    """Draw the error rates of one system with intervals in the figure over lengths."""
    scored = [one for one in evaluations if recognizer in one.recognizers]
    points = sorted((one.mpr, one.scores[recognizer].interval(measure)) for one in scored if one.mpr is not None)
    label = f"{evaluations[0].system}, {recognizer}"
    if points:
        x = [mpr for mpr, _ in points]
        middle, below, above = zip(*(bar(interval) for _, interval in points), strict=True)
        axis.errorbar(
            x, middle, (below, above), color=colour, marker=marker, markersize=5, capsize=2, linewidth=1, label=label
        )
    elif scored:
        interval = scored[0].scores[recognizer].interval(measure)
        axis.axhline(100 * interval.estimate, color=colour, linestyle="--", linewidth=1, label=f"{label} (own length)")
        axis.axhspan(100 * interval.low, 100 * interval.high, color=colour, alpha=0.1)


def bar(interval: ConfidenceInterval) -> tuple[float, float, float]:
    """An error bar of a figure, in percent: the estimate, and the interval's extent below and above it."""
    estimate, low, high = 100 * interval.estimate, 100 * interval.low, 100 * interval.high
    return estimate, max(0.0, estimate - low), max(0.0, high - estimate)


def draw_curves(runs: dict[str, Path], path: Path) -> None:
    """Draw learning curves of training runs: validation L1 and focus of the alignment."""
    figure = new_figure(13, 4.2)
    left, right = figure.subplots(1, 2)
    for colour, (name, run) in zip(cycle(COLOURS), runs.items(), strict=False):
        rows = [row for row in read_log(run / "log.csv") if row["valid_l1"]]
        steps = [int(row["step"]) for row in rows]
        left.plot(steps, [float(row["valid_l1"]) for row in rows], color=colour, label=name)
        right.plot(steps, [float(row["align_focus"]) for row in rows], color=colour, label=name)
    left.set(xlabel="step", ylabel="validation L1")
    right.set(xlabel="step", ylabel="focus of the alignment", ylim=(0, 1))
    for axis in (left, right):
        axis.grid(alpha=0.3)
    left.legend(fontsize=8)
    save(figure, path)


def new_figure(width: float, height: float) -> Figure:
    """Create an empty figure for a report, with its size in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Save a figure of a report."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lstrip("."), dpi=110)
