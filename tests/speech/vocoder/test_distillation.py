"""The teacher's decoder, taken out of its graph, draws what the graph draws; its features are learned from a mel."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clock_attention.speech.vocoder.distillation import Distillation, TeacherDecoder, distil
from clock_attention.speech.vocoder.harmonic import SPECTRUM_BINS, HarmonicConfig, HarmonicNetwork

pytest.importorskip("onnx")
pytest.importorskip("hibari")


def test_the_decoder_is_the_teachers() -> None:
    teacher = TeacherDecoder()
    network = HarmonicNetwork(HarmonicConfig())
    missing, unexpected = network.load_state_dict(teacher.decoder_state(), strict=False)
    assert not unexpected
    assert not any(name.startswith(("decoder", "norm", "head")) for name in missing)
    ids = teacher.hibari.ids(teacher.hibari.phonemize("A quick test.")[0])
    given = {"ids": np.array([ids], np.int64), "speed": np.ones(1, np.float32)}
    loudness, _, _, rest, _, _, features = teacher.session.run(None, given)
    with torch.no_grad():
        drawn = network.spectra(torch.from_numpy(features).transpose(1, 2))[0].T.numpy()
    for ours, theirs in ((drawn[:SPECTRUM_BINS], loudness[0]), (drawn[2 * SPECTRUM_BINS : 3 * SPECTRUM_BINS], rest[0])):
        assert np.abs(ours - theirs).mean() < 0.15  # the graph computes in 8 bits


def test_features_are_learned() -> None:
    texts = ["The birch canoe slid on the smooth planks, and the boy was there when the sun rose over the hill."]
    measured: list[dict[str, float]] = []
    config = HarmonicConfig(front_layers=1, middle_layers=1, reader_hidden=32, pitch_width=16, pitch_layers=1)
    options = Distillation(steps=31, feature_steps=30, batch=2, frames=48)
    distil(texts, options, config, report=lambda _, values: measured.append(values))
    assert measured[29]["features"] < 0.8 * measured[0]["features"]
    assert "spectra" in measured[-1]
    assert "spectra" not in measured[0]
