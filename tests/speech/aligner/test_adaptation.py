from __future__ import annotations

import numpy as np
import pytest
import torch

from clock_attention.speech.aligner import Aligner, AlignmentError
from clock_attention.speech.aligner.adaptation import sure_states
from clock_attention.speech.aligner.network import AlignerConfig, AlignerNet
from clock_attention.speech.aligner.training import UNKNOWN, Labels, labels_from_phones

TEXT = "Ten men."


class Sure(Aligner):
    """Finds the same boundaries whatever it hears."""

    def labels(self, wave, sample_rate, text) -> tuple[Labels | None, float]:
        return labels_from_phones([0, 5, 30, 0], [0.2, 0.5, 0.8, 1.0]), -1.0


def untrained(kind: type[Aligner], threshold: float) -> Aligner:
    torch.manual_seed(0)
    return kind(AlignerNet(AlignerConfig(width=8, hidden=16, dilations=(1, 2), threshold=threshold)))


def noise(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=16000).astype(np.float32) * 0.1


def test_adapting_makes_another_aligner():
    aligner = untrained(Sure, threshold=-2.0)
    before = [tensor.clone() for tensor in aligner.model.state_dict().values()]
    told: list[tuple[int, int, float]] = []
    sounds = [(noise(seed), TEXT) for seed in range(3)]
    adapted = aligner.adapt(sounds, sample_rate=16000, passes=2, report=lambda *row: told.append(row))
    assert all(torch.equal(a, b) for a, b in zip(before, aligner.model.state_dict().values(), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(before, adapted.model.state_dict().values(), strict=True))
    assert told == [(0, 3, -1.0), (1, 3, -1.0)]


def test_recordings_that_do_not_fit_are_not_learned_from():
    with pytest.raises(AlignmentError, match="none of the 1 recordings fits its text"):
        untrained(Aligner, threshold=0.0).adapt([(noise(0), TEXT)], sample_rate=16000)


def test_frames_near_the_edges_of_sounds_teach_nothing_and_the_middle_of_a_sound_does():
    labels = labels_from_phones([0, 5, 30, 0], [0.2, 0.5, 0.8, 1.0])
    taught = sure_states(labels, 200, 0.0) != UNKNOWN
    assert np.flatnonzero(~taught).tolist() == [
        frame for edge in (40, 100, 160, 200) for frame in range(edge - 4, edge + 4) if frame < 200
    ]
    later = sure_states(labels, 100, 0.5)
    np.testing.assert_array_equal(later, sure_states(labels, 200, 0.0)[100:])
