"""The network's output as scores for the search: phones, their permitted substitutes, and any other speech."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from clock_attention.speech.aligner.acoustics import Acoustics
from clock_attention.speech.aligner.phone_classes import ALSO, HALVES, STATES, state
from clock_attention.speech.aligner.search_graph import SearchGraph
from clock_attention.speech.aligner.search_weights import SearchWeights

OTHER_COLUMN = STATES  # speech of any kind
ALSO_WEIGHT = 1.0
OTHER_COST = 2.5  # nats per frame that speech of any kind costs more than the sound that fits best
LOWEST = -12.0
MISFIT = -4.0  # in a score: nats per frame of other speech, and of sounds that were skipped
USUAL_LENGTH = 12  # typical frames of a sound


class Emissions:
    """Emissions of the network: log-probabilities of states (frames, STATES), logits of a change (frames,).

    `acoustics` holds the level and spectral change of the same frames, if known.
    """

    def __init__(
        self,
        log_probabilities: NDArray[np.float32],
        change: NDArray[np.float32],
        log_prior: NDArray[np.float64],
        weights: SearchWeights | None = None,
        acoustics: Acoustics | None = None,
    ) -> None:
        if (
            log_probabilities.ndim != 2
            or log_probabilities.shape[1] != STATES
            or change.shape != log_probabilities.shape[:1]
        ):
            shapes = f"{log_probabilities.shape} and {change.shape}"
            raise ValueError(f"emissions: got shapes {shapes}, expected (frames, {STATES}) and (frames,)")
        self.log_probabilities = log_probabilities
        self.change_logits = change
        self.log_prior = log_prior
        self.weights = weights or SearchWeights()
        self.acoustics = acoustics

    @cached_property
    def scores(self) -> NDArray[np.float32]:
        """Scores for the search (frames, STATES + 1), including permitted substitutes; other speech is last."""
        own = np.maximum(self.log_probabilities - self.weights.prior * self.log_prior, LOWEST).astype(np.float32)
        own[:, 0] += self.weights.silence
        out = np.empty((len(own), STATES + 1), np.float32)
        out[:, :STATES] = own
        for name, others in ALSO.items():
            for half in range(HALVES):
                column = state(name, half)
                for other, cost in others.items():
                    np.maximum(out[:, column], own[:, state(other, half)] - ALSO_WEIGHT * cost, out=out[:, column])
        out[:, OTHER_COLUMN] = own[:, 1:].max(1) - OTHER_COST
        return out

    @cached_property
    def change(self) -> NDArray[np.float32]:
        """Score for starting a sound at each frame.  (frames,)"""
        return self.weights.change * np.clip(self.change_logits, -8.0, 8.0)

    @cached_property
    def clock(self) -> NDArray[np.float32]:
        """Sounds heard so far: the sum of the onset probabilities.  (frames,)"""
        speech = 1.0 - np.exp(self.log_probabilities[:, 0])
        return np.cumsum(speech / (1.0 + np.exp(-self.change_logits))).astype(np.float32)

    def score(self, path: NDArray[np.int32], graph: SearchGraph) -> float:
        """How well the sounds of a path fit, in nats per frame of speech; 0 if nothing would fit better."""
        columns = graph.column[path]
        silence = self.scores[:, 0] - self.weights.silence
        best = np.maximum(self.scores[:, 1:STATES].max(1), silence)
        ratio = self.scores[np.arange(len(path)), columns] - best
        ratio[columns == OTHER_COLUMN] = MISFIT
        skipped = np.setdiff1d(graph.unit[(graph.column != 0) & (graph.column != OTHER_COLUMN)], graph.unit[path])
        lost = USUAL_LENGTH * len(skipped)
        speech = ratio[columns != 0]
        return float((speech.sum() + MISFIT * lost) / max(len(speech) + lost, 1))
