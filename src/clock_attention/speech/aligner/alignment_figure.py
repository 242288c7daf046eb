"""The figure of an alignment: waveform, mel, posterior of the phones and both clocks on one time axis.

The posterior is in the middle. To its left, along the axis of phones, the source clock counts the sounds of the text;
below it, the target clock counts the sounds detected so far. The search is drawn to where the two read the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from clock_attention.speech.aligner.phone_classes import BOUNDARIES
from clock_attention.speech.aligner.results import AlignedInterval, AlignedRecording
from clock_attention.speech.audio.figure_panels import (
    FAINT,
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
from clock_attention.speech.audio.mel import MelConfig, MelSpectrogram
from clock_attention.speech.audio.wave import Wave, resample
from clock_attention.speech.text.phonemes import Phonemes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PHONES = 110  # per figure


def beginning(aligned: AlignedRecording, phonemes: Phonemes) -> tuple[float, int]:
    """How much of a recording fits into one alignment figure: seconds, and number of words of the text."""
    phones = [phone for phone in aligned.phones if phone.label]
    if len(phones) <= MOST_PHONES:
        return aligned.duration, len(phonemes.words)
    last = phones[MOST_PHONES].start + 1e-6
    words = [word for word in aligned.words if word.label and word.end <= last]
    after = next((word for word in aligned.words if word.start >= words[-1].end), None)
    pause = after.end - after.start if after is not None and not after.label else 0.0
    missing = sum(flag.kind == "written-not-spoken" and flag.start < last for flag in aligned.flags)
    return words[-1].end + min(0.2, pause / 2), len(words) + missing


def draw_alignment(
    aligned: AlignedRecording, phonemes: Phonemes, wave: Wave, sample_rate: int, title: str = ""
) -> Figure:
    """Draw an alignment figure, for example in a notebook; the posterior's columns are the tokens of `phonemes`."""
    if aligned.posterior is None:
        raise ValueError("aligned: got an alignment without a posterior, expected one of a short recording")
    seconds = aligned.duration
    shown = [place for place, token in enumerate(phonemes.tokens) if token not in BOUNDARIES]
    posterior = aligned.posterior[:, shown].T  # (phones, frames)
    heights = {"wave": 0.6, "mel": 1.5, "posterior": min(max(2.2, 0.135 * len(shown)), 11.0), "target": 1.1}
    side, width = 1.2, min(max(7.0, 2.4 * seconds), 18.0)
    figure = empty_figure(width + side + 0.9, sum(heights.values()) + 1.2)
    grid = figure.add_gridspec(len(heights), 2, width_ratios=[side, width], height_ratios=list(heights.values()))
    axes = {row: figure.add_subplot(grid[place, 1]) for place, row in enumerate(heights)}
    draw_wave(axes["wave"], wave, seconds)
    draw_mel(axes["mel"], log_mel(wave, sample_rate), seconds)
    draw_weights(axes["posterior"], posterior, (0, len(aligned.posterior) * aligned.frame_seconds, len(shown), 0))
    draw_path(axes["posterior"], aligned, [phonemes.tokens[place] for place in shown])
    left = figure.add_subplot(grid[list(heights).index("posterior"), 0], sharey=axes["posterior"])
    draw_clocks(left, axes["target"], aligned, shown)
    share_time(axes, seconds)
    labels = [phonemes.tokens[place] for place in shown]
    axes["posterior"].set_yticks(np.arange(len(shown)) + 0.5, labels)
    axes["posterior"].tick_params(axis="y", labelsize=8.5 if len(shown) <= 80 else 6.5, length=0, pad=2)
    soften_edges(figure)
    mark_words(axes, axes["wave"], [word for word in aligned.words if word.label])
    figure.suptitle(title, fontsize=9.5, color=FAINT, parse_math=False)
    return figure


def draw_path(axis: Axes, aligned: AlignedRecording, labels: list[str]) -> None:
    """Draw the alignment as a line in the alignment figure; phones that were not found are not on it."""
    found = iter([phone for phone in aligned.phones if phone.label])
    waiting: AlignedInterval | None = next(found, None)
    for row, label in enumerate(labels):
        if waiting is not None and waiting.label == label:
            axis.plot([waiting.start, waiting.end], [row + 0.5, row + 0.5], color=PATH, linewidth=1.4)
            waiting = next(found, None)
    axis.set_ylim(len(labels), 0)
    axis.set_facecolor("white")


def draw_clocks(left: Axes, below: Axes, aligned: AlignedRecording, shown: list[int]) -> None:
    """Draw both clocks in the alignment figure, each relative to its final reading."""
    assert aligned.source_clock is not None
    assert aligned.target_clock is not None
    source, target = (clock / max(float(clock[-1]), 1e-6) for clock in (aligned.source_clock, aligned.target_clock))
    left.plot(source[shown], np.arange(len(shown)) + 0.5, color=SOURCE, linewidth=1.5)
    label_source_clock(left)
    below.plot((np.arange(len(target)) + 0.5) * aligned.frame_seconds, target, color=TARGET, linewidth=1.5)
    below.set(ylim=(-0.05, 1.05), yticks=[0, 1])
    below.set_ylabel("target clock", color=TARGET, fontsize=9)


def log_mel(wave: Wave, sample_rate: int) -> NDArray[np.float32]:
    """Log-mel frames (frames, bins) for the alignment figure, as in figures of speech."""
    config = MelConfig.preset("hifigan")
    mel = MelSpectrogram(config)(torch.from_numpy(resample(wave, sample_rate, config.sample_rate)))
    return np.asarray(mel, dtype=np.float32)


def caption(text: str, aligned: AlignedRecording, complete: bool) -> str:
    """The caption of an alignment figure: text, seconds, phones and score."""
    text = " ".join(text.split())
    text = text if len(text) <= 100 else f"{text[:100]}…"
    phones = sum(bool(phone.label) for phone in aligned.phones)
    part = "" if complete else "the beginning: "
    return f"{text}\n{part}{aligned.duration:.2f} s, {phones} phones, score {aligned.score:.2f}"


def save_alignment_figure(
    path: str | Path, aligned: AlignedRecording, phonemes: Phonemes, wave: Wave, sample_rate: int, title: str = ""
) -> None:
    """Draw an alignment figure to a file."""
    path = check_figure_path(path)
    write_figure(draw_alignment(aligned, phonemes, wave, sample_rate, title), path)
