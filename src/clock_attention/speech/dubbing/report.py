"""The dubbing report: JSON, text, and a figure of the timeline."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clock_attention.files import replacing, write_atomically
from clock_attention.speech.dubbing.slot import EMPTY, FAST, IMPOSSIBLE, SPOKEN, CueReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROW_SECONDS = 60.0  # per row of the figure
MOST_ROWS = 60
COLOURS = {FAST: "#d62728", IMPOSSIBLE: "#7f0000", EMPTY: "#c9ced6"}  # cues that are not simply spoken
PACES, PALEST = ["#a6cbe3", "#2f6ca3", "#f28e2b"], 0.8  # colours from the slowest pace to the fastest
INK = "#20262e"


def summary(reports: Sequence[CueReport]) -> dict[str, Any]:
    """Counts and paces for the dubbing report."""
    counts = Counter(report.status for report in reports)
    paces = sorted(report.pace for report in reports if report.words)
    return {
        "cues": len(reports),
        **{status.replace(" ", "_"): counts.get(status, 0) for status in (SPOKEN, FAST, IMPOSSIBLE, EMPTY)},
        "overlapping": sum(report.overlaps for report in reports),
        "skipped_phonemes": sum(report.skipped for report in reports),
        "median_pace": round(paces[len(paces) // 2], 3) if paces else None,
        "fastest_pace": round(paces[-1], 3) if paces else None,
        "seconds": max((report.end for report in reports), default=0.0),
    }


def as_json(reports: Sequence[CueReport], fastest: float) -> str:
    """The dubbing report as JSON."""
    content = {"summary": summary(reports), "fastest": fastest, "cues": [asdict(report) for report in reports]}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def as_text(reports: Sequence[CueReport], fastest: float) -> str:
    """The dubbing report as text: the counts, and a line for every cue that needs attention."""
    found = summary(reports)
    lines = [
        f"{found['cues']} cues: {found['spoken']} spoken, {found['too_fast']} faster than {fastest:g} times natural, "
        f"{found['impossible']} impossible, {found['empty']} empty, {found['overlapping']} overlapping"
    ]
    for report in reports:
        where = f"cue {report.number} at {clock(report.start)}"
        if report.status in (FAST, IMPOSSIBLE):
            verdict = "needs" if report.status == FAST else "cannot be spoken: it would need"
            lines.append(
                f"{where}: {verdict} pace {report.pace:.2f} ({report.natural_seconds:.2f} s in "
                f"{report.end - report.start:.2f} s); cut {report.cut_seconds:.2f} s, about {report.cut_words} of "
                f"{report.words} words: {report.text}"
            )
        elif report.overlaps:
            lines.append(f"{where}: overlaps another: {report.text}")
    return "\n".join(lines) + "\n"


def clock(seconds: float) -> str:
    """A time in the dubbing report: h:mm:ss."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours}:{minutes:02d}:{rest:06.3f}"


def save_report(reports: Sequence[CueReport], path: str | Path, fastest: float) -> None:
    """Write the dubbing report as .json or .txt."""
    path = Path(path)
    write = as_json if path.suffix.lower() == ".json" else as_text
    write_atomically(path, write(reports, fastest))


def save_timeline(reports: Sequence[CueReport], path: str | Path, fastest: float, *, dpi: int = 130) -> None:
    """Write the figure of the dubbing report: cues over time, how much of each slot speech fills, what is too fast."""
    path = Path(path)
    figure = draw_timeline(reports, fastest)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lower()[1:], dpi=dpi, facecolor="white")


def draw_timeline(reports: Sequence[CueReport], fastest: float) -> Figure:
    """Draw the figure of the dubbing report: cues over time."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ModuleNotFoundError:
        raise ImportError("figures need matplotlib: `pip install 'clock-attention[plot]'`") from None

    end = max((report.end for report in reports), default=1.0)
    row_seconds = max(min(ROW_SECONDS, end), end / MOST_ROWS)
    rows = min(MOST_ROWS, max(1, int(-(-end // row_seconds))))
    figure = Figure(figsize=(14 if rows > 1 else 9, 1.2 + 0.42 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.add_subplot()
    paces = LinearSegmentedColormap.from_list("pace", PACES)

    def bar(report: CueReport, seconds: float, colour: Any, alpha: float) -> None:
        """Draw a bar from the start of a cue, over as many rows as it takes."""
        height = 0.38 if report.overlaps else 0.76
        raised = 0.38 if report.overlaps and report.number % 2 else 0.0
        start, left = report.start, seconds
        while left > 1e-9:
            row = min(int(start // row_seconds), rows - 1)
            length = left if row == rows - 1 else min(left, (row + 1) * row_seconds - start)
            at = [(start - row * row_seconds, length)]
            axis.broken_barh(
                at, (row - 0.38 + raised, height), facecolor=colour, alpha=alpha, edgecolor="white", lw=0.4
            )
            start, left = start + length, left - length

    for report in reports:
        colour: Any = COLOURS.get(report.status)
        if report.status == SPOKEN:
            colour = paces((report.pace - PALEST) / max(fastest - PALEST, 1e-9))
        length = report.end - report.start
        bar(report, length, colour, 0.3)
        if report.frames and report.spoken_frames:
            bar(report, length * report.spoken_frames / report.frames, colour, 1.0)
    axis.set(xlim=(0, row_seconds), ylim=(rows - 0.4, -0.6), yticks=range(rows))
    axis.set_yticklabels([clock(row * row_seconds)[:-4] for row in range(rows)], fontsize=7, color=INK)
    axis.set_xlabel("seconds of the row", color=INK, fontsize=9)
    for edge in ("top", "right", "left"):
        axis.spines[edge].set_visible(False)
    counts = Counter(report.status for report in reports)
    labels = {FAST: f"faster than {fastest:g} times natural"}
    handles = [
        Patch(color=colour, label=f"{labels.get(status, status)}: {counts[status]}")
        for status, colour in COLOURS.items()
        if counts[status]
    ]
    steps = (PALEST, 1.0, (1 + fastest) / 2, fastest)
    handles += [
        Patch(color=paces((pace - PALEST) / max(fastest - PALEST, 1e-9)), label=f"pace {pace:.2g}") for pace in steps
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=7, frameon=False)
    figure.suptitle(f"{len(reports)} cues, {clock(end)[:-4]}", fontsize=9.5, color=INK)
    return figure
