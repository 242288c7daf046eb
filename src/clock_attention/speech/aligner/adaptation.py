"""Adapting the aligner to recordings without known boundaries, by hard EM: align, train on the result, align again.

Frames near the detected boundaries are not used as targets; otherwise the model would reinforce its own errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn
from torch.nn import functional as F

from clock_attention.speech.aligner.features import FRAME_SECONDS, RATE, features
from clock_attention.speech.aligner.network import AlignerNet
from clock_attention.speech.aligner.results import AlignmentError
from clock_attention.speech.aligner.training import UNKNOWN, Labels, targets
from clock_attention.speech.audio.wave import Wave

LONGEST = 30.0  # maximum seconds of a recording in one training step
UNSURE = 0.02  # seconds around boundaries that are excluded from training
Transcribed = list[tuple[Wave, str]]  # samples at 16 kHz, and the transcript


class Learner(Protocol):
    """The part of an aligner's interface that adaptation needs."""

    model: AlignerNet
    device: torch.device

    def labels(self, wave: ArrayLike, sample_rate: int, text: str) -> tuple[Labels | None, float]: ...


def adapt(
    learner: Learner,
    sounds: Transcribed,
    *,
    passes: int,
    rate: float = 5e-5,
    seed: int = 0,
    report: Callable[[int, int, float], None] | None = None,
) -> None:
    """Adapt an aligner in place by hard EM: each pass aligns all recordings and learns from each of them once."""
    optimizer = torch.optim.AdamW(learner.model.parameters(), lr=rate, weight_decay=0.0)
    rng = np.random.default_rng(seed)
    for number in range(passes):
        examples, scores = labelled(learner, sounds)
        if not examples:
            raise AlignmentError(
                f"none of the {len(sounds)} recordings fits its text well enough to adapt to: "
                "check a few pairs, or align without adapting"
            )
        if report:
            report(number, len(examples), float(np.mean(scores)))
        learner.model.train()
        for place in rng.permutation(len(examples)):
            wave, labels = examples[place]
            step(learner, optimizer, wave, labels, rng)
        learner.model.eval()


def labelled(learner: Learner, sounds: Transcribed) -> tuple[list[tuple[Wave, Labels]], list[float]]:
    """Label recordings for adaptation: those that fit their text, with the detected boundaries, and their scores."""
    examples, scores = [], []
    for wave, text in sounds:
        try:
            labels, score = learner.labels(wave, RATE, text)
        except AlignmentError:
            continue
        if labels is not None and score >= learner.model.config.threshold:
            examples.append((wave, labels))
            scores.append(score)
    return examples, scores


def step(
    learner: Learner, optimizer: torch.optim.Optimizer, wave: Wave, labels: Labels, rng: np.random.Generator
) -> None:
    """Do one adaptation step on a window of one recording, with the boundaries found in it."""
    length = int(LONGEST * RATE)
    begin = int(rng.integers(0, max(len(wave) - length, 0) + 1))
    inputs = features(torch.from_numpy(wave[begin : begin + length])).to(learner.device)
    states = sure_states(labels, len(inputs), begin / RATE)
    if (states == UNKNOWN).all():
        return
    log_probabilities, _ = learner.model(inputs[None])
    optimizer.zero_grad()
    F.nll_loss(log_probabilities[0], torch.from_numpy(states).to(learner.device), ignore_index=UNKNOWN).backward()
    nn.utils.clip_grad_norm_(learner.model.parameters(), 1.0)
    optimizer.step()


def sure_states(labels: Labels, frames: int, begin: float) -> NDArray[np.int64]:
    """Target states of the frames from `begin` on, for adaptation; UNKNOWN near the start and end of a sound."""
    states, _ = targets(labels, frames, FRAME_SECONDS, begin)
    centres = begin + (np.arange(frames) + 0.5) * FRAME_SECONDS
    edges = np.append(labels.ends[np.flatnonzero(labels.begins[1:])], labels.ends[-1])  # where another sound starts
    nearest = np.abs(centres[:, None] - edges).min(1)
    states[nearest < UNSURE] = UNKNOWN
    return states
