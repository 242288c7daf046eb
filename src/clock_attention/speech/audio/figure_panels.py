"""Panels for figures of speech and alignments: waveform, mel and a map of text against time, on one time axis."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clock_attention.files import check_ending, replacing
from clock_attention.speech.audio.wave import Wave
from clock_attention.timestamps import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
INK, FAINT, GRID = "#20262e", "#7b8594", "#d5dbe3"
SOURCE, TARGET, PATH = "#c8443f", "#2364aa", "#f28e2b"
ATTENTION = ["#ffffff", "#d3e3f1", "#7fb2d9", "#2a6fae", "#0b2a52"]


def check_figure_path(path: str | Path) -> Path:
    """Check that a figure can be written to a path; the error says why not."""
    return check_ending(path, FORMATS)


def empty_figure(width: float, height: float) -> Figure:
    """An empty figure for panels, with its size in inches, not attached to any window."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ImportError("figures need matplotlib: `pip install 'clock-attention[plot]'`") from None

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(h_pad=0.04, w_pad=0.04, hspace=0.0, wspace=0.0)  # type: ignore[union-attr, call-arg]
    return figure


def write_figure(figure: Figure, path: Path, *, dpi: int = 160) -> None:
    """Write a figure of panels to a file."""
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lower()[1:], dpi=dpi, facecolor="white")


def share_time(axes: dict[str, Axes], seconds: float) -> None:
    """Give the stacked panels of a figure one time axis, labelled on the last of them."""
    for place, axis in enumerate(axes.values(), start=1):
        axis.set_xlim(0, seconds)
        axis.tick_params(colors=INK, labelsize=8, length=2.5)
        axis.tick_params(axis="x", bottom=place == len(axes), labelbottom=place == len(axes))
    axis.set_xlabel("time (s)", color=INK, fontsize=9)


def soften_edges(figure: Figure) -> None:
    """Draw grey edges for all panels of a figure."""
    for axis in figure.axes:
        for edge in axis.spines.values():
            edge.set_color(GRID)


def draw_wave(axis: Axes, audio: Wave, seconds: float) -> None:
    """Draw the panel of a waveform: the lowest and highest sample in each of a few thousand segments."""
    stretch = max(1, len(audio) // 3000)
    samples = audio[: len(audio) // stretch * stretch].reshape(-1, stretch)
    time = (np.arange(len(samples)) + 0.5) / len(samples) * seconds
    axis.fill_between(time, samples.min(1), samples.max(1), color=INK, linewidth=0.3)
    loudest = max(float(np.abs(audio).max()), 1e-3) * 1.1
    axis.set(ylim=(-loudest, loudest), yticks=[])


def draw_mel(axis: Axes, mel: NDArray[Any], seconds: float) -> None:
    """Draw the panel of log-mel frames (frames, bins)."""
    image = mel.T
    low, high = np.percentile(image, [3, 99.8])
    axis.imshow(
        image,
        origin="lower",
        aspect="auto",
        cmap="magma",
        vmin=low,
        vmax=max(high, low + 1e-3),
        extent=(0, seconds, 0, len(image)),
        interpolation="nearest",
    )
    axis.set(yticks=[0, len(image) // 2, len(image)])
    axis.set_ylabel("mel bin", color=INK, fontsize=9)


def draw_weights(axis: Axes, weights: NDArray[Any], extent: tuple[float, float, float, float]) -> None:
    """Draw the panel of weights (tokens, frames); the text reads downwards. `extent`: left, right, bottom, top."""
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    axis.imshow(
        weights,
        origin="upper",
        aspect="auto",
        cmap=LinearSegmentedColormap.from_list("attention", ATTENTION),
        norm=PowerNorm(0.6, 0, max(float(weights.max()), 1e-9)),
        extent=extent,
        interpolation="nearest",
    )


def label_source_clock(axis: Axes) -> None:
    """Label the panel of the source clock, to the left of the map; its axis is mirrored, as the text runs downwards."""
    axis.set(xlim=(1.05, -0.05), xticks=[])
    axis.tick_params(axis="y", left=False, labelleft=False)
    for label, reading, above, colour in (("source clock", 0.5, 14, SOURCE), ("1", 1.0, 3, INK), ("0", 0.0, 3, INK)):
        axis.annotate(
            label,
            (reading, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, above),
            textcoords="offset points",
            ha="center",
            fontsize=9 if len(label) > 1 else 8,
            color=colour,
        ).set_in_layout(False)  # there is room beside the mel; the layout would open a gap below it instead


def mark_words(axes: dict[str, Axes], top: Axes, words: Iterable[Interval]) -> None:
    """Write words above the first panel of a figure, with a line through all panels where each begins."""
    for word in words:
        for row, axis in axes.items():
            axis.axvline(word.start, color="white" if row == "mel" else GRID, linewidth=0.6, alpha=0.6)
        top.annotate(
            word.label,
            ((word.start + word.end) / 2, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            color=INK,
            parse_math=False,  # a $ in a price is not mathematics
        )
