"""The figure of spoken text: waveform, mel, attention and both clocks on one time axis.

The attention map is in the middle. To its left, along the axis of phonemes, is the source clock; below it, along the
axis of time, the target clock. Attention falls where the two read the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from torch import Tensor

from clock_attention.alignment import FloatArray
from clock_attention.speech.audio.figure_panels import (
    FAINT,
    INK,
    PATH,
    SOURCE,
    TARGET,
    check_figure_path,
    draw_mel,
    draw_wave,
    draw_weights,
    empty_figure,
    label_source_clock,
    mark_words,
    share_time,
    soften_edges,
    write_figure,
)
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.text.characters import composed, plain
from clock_attention.speech.text.phonemes import WORD_BOUNDARY
from clock_attention.speech.text.timestamp_tiers import word_intervals
from clock_attention.speech.voice.utterance import Utterance, alignment_matrix
from clock_attention.timestamps import Alignment, Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_TOKENS = 110  # per figure; longer speech is drawn up to there


class Drawable(Protocol):
    """Attributes of speech that its figure needs."""

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
    """The phrases that a figure of speech shows."""

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
        """The first phrases of the speech, as many as fit into one figure, at least one."""
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


def save_figure(speech: Drawable, path: str | Path, *, waveform: bool = True, dpi: int = 160) -> None:
    """Draw the figure of speech into a .png, .svg or .pdf file."""
    path = check_figure_path(path)
    write_figure(draw(speech, waveform=waveform), path, dpi=dpi)


def draw(speech: Drawable, *, waveform: bool = True) -> Figure:
    """Create the figure of speech, for example for a notebook; only the first 110 phonemes are drawn."""
    view = View.of(speech)
    heights = {"wave": 0.6, "mel": 1.5, "attention": min(max(2.2, 0.135 * len(view.tokens)), 11.0), "target": 1.1}
    rows = [row for row in heights if (row != "wave" or waveform) and (row != "target" or view.has_clocks)]
    side = 1.2 if view.has_clocks else 0.0
    width = min(max(7.0, 2.4 * view.seconds), 18.0)
    figure = empty_figure(width + side + 0.9, sum(heights[row] for row in rows) + 1.2)
    columns = 2 if view.has_clocks else 1
    grid = figure.add_gridspec(
        len(rows), columns, width_ratios=[side, width][-columns:], height_ratios=[heights[row] for row in rows]
    )
    axes = {row: figure.add_subplot(grid[place, -1]) for place, row in enumerate(rows)}
    if waveform:
        draw_wave(axes["wave"], view.audio, view.seconds)
    draw_mel(axes["mel"], view.mel.numpy(), view.seconds)
    draw_attention(axes["attention"], view)
    if view.has_clocks:
        draw_source_clock(figure.add_subplot(grid[rows.index("attention"), 0], sharey=axes["attention"]), view)
        draw_target_clock(axes["target"], view)
    share_time(axes, view.seconds)
    label_phonemes(axes["attention"], view)
    soften_edges(figure)
    mark_words(axes, axes[rows[0]], view.words())
    figure.suptitle(caption(speech, view), fontsize=9.5, color=FAINT, parse_math=False)
    return figure


def caption(speech: Drawable, view: View) -> str:
    """The caption of a figure of speech: text, seconds, phonemes and frames."""
    text = " ".join(plain(composed(speech.text)).text.split())
    text = text if len(text) <= 100 else f"{text[:100]}…"
    spoken = sum(len(utterance.mel) for utterance in view.utterances)
    part = "" if view.complete else "the beginning: "
    return (
        f"{text}\n{part}{view.seconds:.2f} s, {len(view.tokens)} phonemes, {spoken / len(view.tokens):.1f} frames each"
    )


def draw_attention(axis: Axes, view: View) -> None:
    """Draw attention weights (mean over heads and layers) and the alignment as a line in the figure of speech."""
    for utterance, offset, first in zip(view.utterances, view.offsets, view.firsts, strict=True):
        tokens = len(utterance.phonemes)
        weights = frame_weights(utterance)  # (T, frames)
        start, end = offset * view.frame_seconds, (offset + weights.shape[1]) * view.frame_seconds
        draw_weights(axis, weights, (start, end, first + tokens, first))
        durations = utterance.alignment.durations
        times = (offset + np.append(utterance.alignment.starts[durations > 0], durations.sum())) * view.frame_seconds
        row = np.flatnonzero(durations) + first + 0.5
        axis.stairs(row, times, baseline=None, color=PATH, linewidth=1.0, alpha=0.9)
    axis.set_ylim(len(view.tokens), 0)  # the text reads downwards
    axis.set_facecolor("white")


def frame_weights(utterance: Utterance) -> FloatArray:
    """Attention weights (T, frames) for the figure of speech, without the end token of autoregressive models."""
    matrix = alignment_matrix(utterance.weights)[:, : len(utterance.phonemes)]
    return np.repeat(matrix, utterance.frames_per_step, axis=0)[: len(utterance.mel)].T


def draw_source_clock(axis: Axes, view: View) -> None:
    """Draw the source clock next to the attention in the figure of speech."""
    for utterance, first in zip(view.utterances, view.firsts, strict=True):
        clock = readings(utterance.clocks[-1].source)[: len(utterance.phonemes)]  # (T, channels)
        place = first + np.arange(len(clock)) + 0.5
        low, high = np.percentile(clock, [10, 90], axis=1)
        axis.fill_betweenx(place, low, high, color=SOURCE, alpha=0.16, linewidth=0)
        axis.plot(clock.mean(1), place, color=SOURCE, linewidth=1.5)
    label_source_clock(axis)


def draw_target_clock(axis: Axes, view: View) -> None:
    """Draw the target clock below the attention in the figure of speech."""
    for utterance, offset in zip(view.utterances, view.offsets, strict=True):
        clock = readings(utterance.clocks[-1].target)  # (steps, channels)
        time = (offset + (np.arange(len(clock)) + 0.5) * utterance.frames_per_step) * view.frame_seconds
        low, high = np.percentile(clock, [10, 90], axis=1)
        axis.fill_between(time, low, high, color=TARGET, alpha=0.16, linewidth=0)
        axis.plot(time, clock.mean(1), color=TARGET, linewidth=1.5)
    axis.set(ylim=(-0.05, max(1.05, axis.get_ylim()[1])), yticks=[0, 1])
    axis.set_ylabel("target clock", color=TARGET, fontsize=9)


def readings(clock: Tensor) -> FloatArray:
    """A clock's readings for the figure of speech.  (H, L, D) → (L, H·D)"""
    return clock.double().permute(1, 0, 2).flatten(1).numpy()


def label_phonemes(axis: Axes, view: View) -> None:
    """Label the vertical axis of the figure of speech with phonemes."""
    count = len(view.tokens)
    axis.set_yticks(np.arange(count) + 0.5, ["·" if token == WORD_BOUNDARY else token for token in view.tokens])
    axis.tick_params(axis="y", labelsize=8.5 if count <= 80 else 6.5, length=0, pad=2)
    for label in axis.get_yticklabels():
        label.set_color(FAINT if label.get_text() in "·,.!?" else INK)
