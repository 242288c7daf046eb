"""Emissions of a long recording, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from clock_attention.speech.aligner.acoustics import Acoustics
from clock_attention.speech.aligner.emissions import LOWEST, Emissions
from clock_attention.speech.aligner.features import BINS, HOP, MEL, RATE
from clock_attention.speech.aligner.phone_classes import HALVES, STATES
from clock_attention.speech.aligner.results import AlignmentError
from clock_attention.speech.audio.wave import Wave

POOL = 2  # frames per tracking step: 10 ms
BLOCK = 20 * RATE  # samples that the network processes at a time
CONTEXT = 2 * RATE  # context samples on both sides of a block
# A block whose peak is below this fraction of the loudest peak so far counts as silent. Normalised on its own, its
# noise could look like speech.
QUIET = 0.01


def block_emissions(listen: Callable[[Wave], Emissions], pieces: Iterable[Wave]) -> Iterator[Emissions]:
    """Emissions of a long recording, from 16 kHz samples in chunks of any size; blocks are whole numbers of steps."""
    loudest = 0.0
    known = None
    for window, start, length in windows(pieces):
        own = window[start : start + length]
        if not np.isfinite(window).all():
            raise AlignmentError("the recording holds values that are not numbers")
        loudest = max(loudest, float(np.abs(own).max()))
        frames = -(-length // (HOP * POOL)) * POOL
        if float(np.abs(own).max()) <= QUIET * loudest:
            yield silence(frames, known)
        else:
            missing = start + frames * HOP - len(window)
            whole = listen(np.pad(window, (0, max(0, missing))))
            known = part(whole, start // HOP, start // HOP + frames)
            yield known


def windows(pieces: Iterable[Wave]) -> Iterator[tuple[Wave, int, int]]:
    """Blocks of a long recording with context: (samples, start of the block in them, length of the block)."""
    before = waiting = np.zeros(0, dtype=np.float32)
    for piece in pieces:
        waiting = np.concatenate([waiting, piece])
        while len(waiting) >= BLOCK + CONTEXT:
            yield np.concatenate([before, waiting[: BLOCK + CONTEXT]]), len(before), BLOCK
            before, waiting = waiting[BLOCK - CONTEXT : BLOCK], waiting[BLOCK:]
    if len(waiting):
        yield np.concatenate([before, waiting]), len(before), len(waiting)


def silence(frames: int, like: Emissions | None) -> Emissions:
    """Emissions of a silent block in a long recording, with the prior and search weights of `like`."""
    scores = np.full((frames, STATES), LOWEST, dtype=np.float32)
    scores[:, 0] = 0.0
    change = np.full(frames, -8.0, dtype=np.float32)
    if like is None:
        return Emissions(scores, change, np.zeros(STATES))
    acoustics = None if like.acoustics is None else Acoustics.silence(frames, float(np.log(MEL.log_floor * BINS)))
    return Emissions(scores, change, like.log_prior, like.weights, acoustics)


def part(emissions: Emissions, start: int, end: int) -> Emissions:
    """Slice of emissions: the frames start … end."""
    return Emissions(
        emissions.log_probabilities[start:end],
        emissions.change_logits[start:end],
        emissions.log_prior,
        emissions.weights,
        None if emissions.acoustics is None else emissions.acoustics.part(start, end),
    )


def pooled(emissions: Emissions) -> NDArray[np.float32]:
    """Emissions of a long recording in steps of two frames, one column per sound, silence first.  (steps, sounds)"""
    scores = emissions.scores[:, :STATES]
    speech = scores[:, 1:].reshape(len(scores), -1, HALVES).max(2)
    both = np.concatenate([scores[:, :1], speech], axis=1)
    return both.reshape(-1, POOL, both.shape[1]).mean(1)


class Waiting:
    """Queue of emissions of a long recording that are not aligned yet."""

    def __init__(self) -> None:
        self._parts: list[Emissions] = []

    def append(self, emissions: Emissions) -> None:
        self._parts.append(emissions)

    def take(self, frames: int) -> Emissions:
        taken: list[Emissions] = []
        while frames > 0:
            first = self._parts.pop(0)
            count = len(first.change_logits)
            if count > frames:
                self._parts.insert(0, part(first, frames, count))
                first, count = part(first, 0, frames), frames
            taken.append(first)
            frames -= count
        acoustics = [piece.acoustics for piece in taken if piece.acoustics is not None]
        last = taken[-1]  # silence before the first emissions does not have the model's prior and weights
        return Emissions(
            np.concatenate([piece.log_probabilities for piece in taken]),
            np.concatenate([piece.change_logits for piece in taken]),
            last.log_prior,
            last.weights,
            Acoustics.joined(acoustics) if len(acoustics) == len(taken) else None,
        )
