"""Adapting the aligner to recordings without boundaries: it aligns them, learns from what it found, aligns again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional as F

from clock_attention.speech.aligner.features import FRAME_SECONDS, RATE, features
from clock_attention.speech.aligner.model import AlignerNet
from clock_attention.speech.aligner.results import AlignmentError
from clock_attention.speech.aligner.training import Labels, targets
from clock_attention.speech.audio.wave import Wave

LONGEST = 30.0  # seconds of a recording that are learned from at a time
Sounds = list[tuple[Wave, str]]  # samples at 16 kHz, and what is said


class Learner(Protocol):
    """An aligner, as far as it is needed here."""

    model: AlignerNet
    device: torch.device

    def labels(self, wave: ArrayLike, sample_rate: int, text: str) -> tuple[Labels | None, float]: ...


def adapt(
    learner: Learner,
    sounds: Sounds,
    *,
    passes: int,
    rate: float = 2e-4,
    seed: int = 0,
    report: Callable[[int, int, float], None] | None = None,
) -> None:
    """Hard EM in place: each pass aligns all recordings and learns from each of them once."""
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


def labelled(learner: Learner, sounds: Sounds) -> tuple[list[tuple[Wave, Labels]], list[float]]:
    """Recordings that fit their text, with the boundaries that are found in them."""
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
    length = int(LONGEST * RATE)
    begin = int(rng.integers(0, max(len(wave) - length, 0) + 1))
    heard = features(torch.from_numpy(wave[begin : begin + length])).to(learner.device)
    states, change = targets(labels, len(heard), FRAME_SECONDS, begin / RATE)
    found = learner.model(heard[None])
    optimizer.zero_grad()
    loss(found, torch.from_numpy(states)[None], torch.from_numpy(change)[None]).backward()
    nn.utils.clip_grad_norm_(learner.model.parameters(), 1.0)
    optimizer.step()


def loss(found: tuple[Tensor, Tensor], states: Tensor, change: Tensor) -> Tensor:
    """Of frames (B, frames); those with a negative state or change teach nothing."""
    log_probabilities, logits = found
    states, change = states.to(logits.device), change.to(logits.device)
    known = change >= 0
    frames = F.nll_loss(log_probabilities.flatten(0, 1), states.flatten(), ignore_index=-100)
    return frames + F.binary_cross_entropy_with_logits(logits[known], change[known])
