"""A figure of spoken text: waveform, mel, attention and both clocks on one time axis.

The attention map is in the middle. The source clock stands to its left, on the axis of phonemes; the target clock
below it, on the axis of time: attention falls where the two read the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from torch import Tensor

from clock_attention.alignment import FloatArray
from clock_attention.files import check_writable, replacing
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.text.characters import composed, plain
from clock_attention.speech.text.phonemes import WORD_BOUNDARY
from clock_attention.speech.voice.utterance import Utterance, alignment_matrix, word_intervals
from clock_attention.timestamps import Alignment, Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
MOST_TOKENS = 110  # in one picture; longer speech is drawn up to there
INK, FAINT, GRID = "#20262e", "#7b8594", "#d5dbe3"
SOURCE, TARGET, PATH = "#c8443f", "#2364aa", "#f28e2b"
ATTENTION = ["#ffffff", "#d3e3f1", "#7fb2d9", "#2a6fae", "#0b2a52"]


class Drawable(Protocol):
    """What a picture needs of speech."""

    @property
    def text(self) -> str: ...
    @property
    def audio(self) -> Wave: ...
    @property
    def mel(self) -> Tensor: ...
    @property
    def alignment(self) -> Alignment: ...
    @property
    def utterances(self) -> tuple[Utterance, ...]: ...
    @property
    def offsets(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class View:
    """The phrases that a figure shows."""

    utterances: tuple[Utterance, ...]
    offsets: tuple[int, ...]  # first frame of each
    firsts: tuple[int, ...]  # first row of each, on the axis of phonemes
    tokens: tuple[str, ...]
    frame_seconds: float
    mel: Tensor  # (S, M)
    audio: Wave
    complete: bool

    @classmethod
    def of(cls, speech: Drawable) -> View:
        """As many phrases from the beginning as fit into one figure, at least one."""
        ends = list(accumulate(len(utterance.phonemes) for utterance in speech.utterances))
        count = max(1, sum(end <= MOST_TOKENS for end in ends))
        utterances = speech.utterances[:count]
        frames = len(speech.mel) if count == len(ends) else speech.offsets[count - 1] + len(utterances[-1].mel)
        return cls(
            utterances=utterances,
            offsets=speech.offsets[:count],
            firsts=(0, *ends[: count - 1]),
            tokens=tuple(token for utterance in utterances for token in utterance.phonemes.tokens),
            frame_seconds=speech.alignment.frame_seconds,
            mel=speech.mel[:frames],
            audio=speech.audio[: frames * len(speech.audio) // len(speech.mel)],
            complete=count == len(ends),
        )

    @property
    def seconds(self) -> float:
        return len(self.mel) * self.frame_seconds

    @property
    def has_clocks(self) -> bool:
        return all(utterance.clocks for utterance in self.utterances)

    def words(self) -> list[Interval]:
        return [
            word.shifted(offset * self.frame_seconds)
            for utterance, offset in zip(self.utterances, self.offsets, strict=True)
            for word in word_intervals(utterance.phonemes, utterance.alignment)
        ]


def check_figure_path(path: str | Path) -> Path:
    if Path(path).suffix.lower() not in FORMATS:
        raise ValueError(f"{path}: expected a name ending in {', '.join(FORMATS)}")
    return check_writable(path)


def save_figure(speech: Drawable, path: str | Path, *, waveform: bool = True, dpi: int = 160) -> None:
    """Draw speech into a .png, .svg or .pdf file."""
    path = check_figure_path(path)
    figure = draw(speech, waveform=waveform)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lower()[1:], dpi=dpi, facecolor="white")


def draw(speech: Drawable, *, waveform: bool = True) -> Figure:
    """The figure itself, for notebooks and pages. Speech of more than 110 phonemes is drawn up to there."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ImportError("pictures need matplotlib: `pip install 'clock-attention[plot]'`") from None

    view = View.of(speech)
    heights = {"wave": 0.6, "mel": 1.5, "attention": min(max(2.2, 0.135 * len(view.tokens)), 11.0), "target": 1.1}
    rows = [row for row in heights if (row != "wave" or waveform) and (row != "target" or view.has_clocks)]
    side = 1.2 if view.has_clocks else 0.0
    width = min(max(7.0, 2.4 * view.seconds), 18.0)
    figure = Figure(figsize=(width + side + 0.9, sum(heights[row] for row in rows) + 1.2), layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(h_pad=0.04, w_pad=0.04, hspace=0.0, wspace=0.0)  # type: ignore[union-attr, call-arg]
    columns = 2 if view.has_clocks else 1
    grid = figure.add_gridspec(
        len(rows), columns, width_ratios=[side, width][-columns:], height_ratios=[heights[row] for row in rows]
    )
    axes = {row: figure.add_subplot(grid[place, -1]) for place, row in enumerate(rows)}
    if waveform:
        draw_wave(axes["wave"], view)
    draw_mel(axes["mel"], view)
    draw_attention(axes["attention"], view)
    if view.has_clocks:
        draw_source_clock(figure.add_subplot(grid[rows.index("attention"), 0], sharey=axes["attention"]), view)
        draw_target_clock(axes["target"], view)
    for row, axis in axes.items():
        last = row == rows[-1]
        axis.set_xlim(0, view.seconds)
        axis.tick_params(colors=INK, labelsize=8, length=2.5)
        axis.tick_params(axis="x", bottom=last, labelbottom=last)
    label_phonemes(axes["attention"], view)
    for axis in figure.axes:
        for edge in axis.spines.values():
            edge.set_color(GRID)
    axes[rows[-1]].set_xlabel("time (s)", color=INK, fontsize=9)
    mark_words(axes, axes[rows[0]], view)
    figure.suptitle(caption(speech, view), fontsize=9.5, color=FAINT, parse_math=False)
    return figure


def caption(speech: Drawable, view: View) -> str:
    text = " ".join(plain(composed(speech.text)).text.split())
    text = text if len(text) <= 100 else f"{text[:100]}…"
    spoken = sum(len(utterance.mel) for utterance in view.utterances)
    part = "" if view.complete else "the beginning: "
    return (
        f"{text}\n{part}{view.seconds:.2f} s, {len(view.tokens)} phonemes, {spoken / len(view.tokens):.1f} frames each"
    )


def draw_wave(axis: Axes, view: View) -> None:
    """The envelope: lowest and highest sample in each of a few thousand stretches."""
    stretch = max(1, len(view.audio) // 3000)
    samples = view.audio[: len(view.audio) // stretch * stretch].reshape(-1, stretch)
    time = (np.arange(len(samples)) + 0.5) / len(samples) * view.seconds
    axis.fill_between(time, samples.min(1), samples.max(1), color=INK, linewidth=0.3)
    loudest = max(float(np.abs(view.audio).max()), 1e-3) * 1.1
    axis.set(ylim=(-loudest, loudest), yticks=[])


def draw_mel(axis: Axes, view: View) -> None:
    image = view.mel.T.numpy()
    low, high = np.percentile(image, [3, 99.8])
    axis.imshow(
        image,
        origin="lower",
        aspect="auto",
        cmap="magma",
        vmin=low,
        vmax=max(high, low + 1e-3),
        extent=(0, view.seconds, 0, len(image)),
        interpolation="nearest",
    )
    axis.set(yticks=[0, len(image) // 2, len(image)])
    axis.set_ylabel("mel bin", color=INK, fontsize=9)


def draw_attention(axis: Axes, view: View) -> None:
    """Attention weights (mean over heads and layers) as an image, and the alignment as a line."""
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    colours = LinearSegmentedColormap.from_list("attention", ATTENTION)
    for utterance, offset, first in zip(view.utterances, view.offsets, view.firsts, strict=True):
        tokens = len(utterance.phonemes)
        weights = frame_weights(utterance)  # (T, frames)
        start, end = offset * view.frame_seconds, (offset + weights.shape[1]) * view.frame_seconds
        axis.imshow(
            weights,
            origin="upper",
            aspect="auto",
            cmap=colours,
            norm=PowerNorm(0.6, 0, max(float(weights.max()), 1e-9)),
            extent=(start, end, first + tokens, first),
            interpolation="nearest",
        )
        durations = utterance.alignment.durations
        times = (offset + np.append(utterance.alignment.starts[durations > 0], durations.sum())) * view.frame_seconds
        row = np.flatnonzero(durations) + first + 0.5
        axis.stairs(row, times, baseline=None, color=PATH, linewidth=1.0, alpha=0.9)
    axis.set_ylim(len(view.tokens), 0)  # the text reads downwards
    axis.set_facecolor("white")


def frame_weights(utterance: Utterance) -> FloatArray:
    """(T, frames); the end token of autoregressive models is not drawn."""
    matrix = alignment_matrix(utterance.weights)[:, : len(utterance.phonemes)]
    return np.repeat(matrix, utterance.frames_per_step, axis=0)[: len(utterance.mel)].T


def draw_source_clock(axis: Axes, view: View) -> None:
    for utterance, first in zip(view.utterances, view.firsts, strict=True):
        clock = readings(utterance.clocks[-1].source)[: len(utterance.phonemes)]  # (T, channels)
        place = first + np.arange(len(clock)) + 0.5
        low, high = np.percentile(clock, [10, 90], axis=1)
        axis.fill_betweenx(place, low, high, color=SOURCE, alpha=0.16, linewidth=0)
        axis.plot(clock.mean(1), place, color=SOURCE, linewidth=1.5)
    axis.set(xlim=(1.05, -0.05), xticks=[])  # mirrored: it runs away from the map as the text runs down
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


def draw_target_clock(axis: Axes, view: View) -> None:
    for utterance, offset in zip(view.utterances, view.offsets, strict=True):
        clock = readings(utterance.clocks[-1].target)  # (steps, channels)
        time = (offset + (np.arange(len(clock)) + 0.5) * utterance.frames_per_step) * view.frame_seconds
        low, high = np.percentile(clock, [10, 90], axis=1)
        axis.fill_between(time, low, high, color=TARGET, alpha=0.16, linewidth=0)
        axis.plot(time, clock.mean(1), color=TARGET, linewidth=1.5)
    axis.set(ylim=(-0.05, max(1.05, axis.get_ylim()[1])), yticks=[0, 1])
    axis.set_ylabel("target clock", color=TARGET, fontsize=9)


def readings(clock: Tensor) -> FloatArray:
    """(H, L, D) → (L, H·D)"""
    return clock.double().permute(1, 0, 2).flatten(1).numpy()


def label_phonemes(axis: Axes, view: View) -> None:
    count = len(view.tokens)
    axis.set_yticks(np.arange(count) + 0.5, ["·" if token == WORD_BOUNDARY else token for token in view.tokens])
    axis.tick_params(axis="y", labelsize=8.5 if count <= 80 else 6.5, length=0, pad=2)
    for label in axis.get_yticklabels():
        label.set_color(FAINT if label.get_text() in "·,.!?" else INK)


def mark_words(axes: dict[str, Axes], top: Axes, view: View) -> None:
    """The words above the first panel, and a line through all panels where each begins."""
    for word in view.words():
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
