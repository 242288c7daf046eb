"""Vocoders as ONNX graphs draw what torch draws."""

import numpy as np
import pytest
import torch

pytest.importorskip("onnxruntime", reason="needs the extra clock-attention[onnx]")

import onnxruntime

from clock_attention.speech.vocoder.harmonic import SPECTRUM_BINS, HarmonicNetwork
from clock_attention.speech.voice.onnx_vocoder import harmonic_graph
from tests.speech.vocoder.tiny_vocoder import TINY


def test_the_harmonic_vocoder_draws_the_spectra_that_torch_draws():
    torch.manual_seed(0)
    network = HarmonicNetwork(TINY).eval()
    proto = harmonic_graph(network).SerializeToString()
    session = onnxruntime.InferenceSession(proto, providers=["CPUExecutionProvider"])
    mel = np.random.default_rng(0).normal(-5, 2, (1, 40, TINY.mel.n_mels)).astype(np.float32)
    places = np.linspace(-0.5, 39.0, 37)
    frequency, drawn = session.run(None, {"mel": mel, "places": places})
    with torch.no_grad():
        expected = network.frequency(torch.from_numpy(mel), torch.from_numpy(places))
        spectra = network(torch.from_numpy(mel), expected, torch.from_numpy(places))
    np.testing.assert_allclose(frequency, expected[0], rtol=1e-3)
    assert drawn.shape == (37, 4 * SPECTRUM_BINS)
    np.testing.assert_allclose(drawn, spectra[0], rtol=1e-3, atol=1e-3)
