"""Layers of the acoustic models as ONNX nodes."""

import numpy as np
import pytest
import torch

pytest.importorskip("onnxruntime", reason="needs the extra clock-attention[onnx]")

import onnxruntime

from clock_attention.rates import rational
from clock_attention.speech.model.layers import SelfAttention, sinusoids
from clock_attention.speech.voice.onnx_graph import proto_of
from clock_attention.speech.voice.onnx_layers import FLOAT, INT64, AcousticGraph


def run(build, **inputs):
    graph = AcousticGraph()
    graph.add("Identity", build(graph), output="y")
    kinds = {np.dtype(np.float32): FLOAT, np.dtype(np.int64): INT64}
    shapes = {
        name: (kinds[value.dtype], [f"{name}{axis}" for axis in range(value.ndim)]) for name, value in inputs.items()
    }
    proto = proto_of(graph, shapes, {"y": (FLOAT, ["y"])})
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def test_the_rate_is_the_papers():
    x = np.linspace(-5, 5, 41, dtype=np.float32)
    np.testing.assert_allclose(run(lambda g: g.rational("x"), x=x), rational(torch.from_numpy(x)), rtol=1e-5, atol=1e-6)


def test_positions_are_the_transformers():
    places = np.array([[0.0, 1.0, 2.5, 100.0]], np.float32)
    expected = sinusoids(torch.from_numpy(places), 16)
    np.testing.assert_allclose(run(lambda g: g.sinusoids("p", 16), p=places), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rotary", [False, True])
def test_self_attention_ignores_padding_as_in_torch(rotary):
    torch.manual_seed(0)
    layer = SelfAttention(8, 2, dropout=0.0, rotary=rotary).eval()
    x, lengths = np.random.default_rng(0).normal(size=(2, 6, 8)).astype(np.float32), np.array([6, 4])
    padding = torch.arange(6) >= torch.from_numpy(lengths)[:, None]
    expected = layer(torch.from_numpy(x), ~padding[:, None, None]).detach().numpy()
    found = run(lambda g: g.self_attention("x", layer, g.past_end("n", g.size("x", 1))), x=x, n=lengths)
    for item, length in enumerate(lengths):
        np.testing.assert_allclose(found[item, :length], expected[item, :length], rtol=1e-4, atol=1e-5)
