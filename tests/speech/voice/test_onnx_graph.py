"""Operations of ONNX graphs: as NumPy and torch have them."""

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("onnxruntime", reason="needs the extra clock-attention[onnx]")

import onnxruntime
from onnx import TensorProto

from clock_attention.speech.voice.onnx_graph import IR_VERSION, LEAST_HALF, OPSET, OnnxGraph, is_half, proto_of

X = np.random.default_rng(0).normal(size=(2, 5, 6)).astype(np.float32)


def run(build, kind=TensorProto.FLOAT, **inputs):
    graph = OnnxGraph()
    graph.add("Identity", build(graph), output="y")
    kinds = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}
    shapes = {name: (kinds[x.dtype], [f"{name}{axis}" for axis in range(x.ndim)]) for name, x in inputs.items()}
    proto = proto_of(graph, shapes, {"y": (kind, [])})
    session = onnxruntime.InferenceSession(stripped(proto), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def stripped(proto):
    """The shape of the output is left to the runtime."""
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto.SerializeToString()


def test_arithmetic_takes_numbers_where_tensors_can_stand():
    found = run(lambda g: g.over(g.minus(g.times(g.plus("x", 1.0), 2.0), "x"), 4.0), x=X)
    np.testing.assert_allclose(found, ((X + 1) * 2 - X) / 4, rtol=1e-6)


@pytest.mark.parametrize(
    "layer",
    [nn.Linear(6, 3), nn.LayerNorm(6), nn.Identity()],
    ids=lambda layer: type(layer).__name__,
)
def test_layers_are_torchs(layer):
    found = run(lambda g: g.norm("x", layer) if isinstance(layer, nn.LayerNorm) else g.linear("x", layer), x=X)
    np.testing.assert_allclose(found, layer(torch.from_numpy(X)).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kernel", "dilation", "groups"), [(3, 1, 1), (5, 2, 6), (1, 1, 2)])
def test_convolutions_over_time_are_torchs(kernel, dilation, groups):
    layer = nn.Conv1d(6, 6, kernel, padding=dilation * (kernel - 1) // 2, dilation=dilation, groups=groups)
    expected = layer(torch.from_numpy(X).transpose(1, 2)).transpose(1, 2).detach()
    np.testing.assert_allclose(run(lambda g: g.over_time("x", layer), x=X), expected, rtol=1e-4, atol=1e-5)


def test_heads_are_split_and_joined():
    expected = torch.from_numpy(X).unflatten(-1, (3, 2)).transpose(1, 2)
    assert np.array_equal(run(lambda g: g.split_heads("x", 3), x=X), expected)
    assert np.array_equal(run(lambda g: g.join_heads(g.split_heads("x", 3)), x=X), X)


def test_gelu_and_padding():
    expected = torch.nn.functional.gelu(torch.from_numpy(X), approximate="tanh")
    np.testing.assert_allclose(run(lambda g: g.gelu("x"), x=X), expected, rtol=1e-5, atol=1e-6)
    lengths = np.array([1, 3])
    found = run(lambda g: g.past_end("n", g.largest("n")), TensorProto.BOOL, n=lengths)
    assert found.tolist() == [[False, True, True], [False, False, False]]


def test_weights_that_lose_nothing_are_stored_in_half_precision():
    whole = np.random.default_rng(0).normal(size=LEAST_HALF).astype(np.float16).astype(np.float32)
    assert is_half(whole)
    assert not is_half(X)
    assert not is_half(np.full(3, 1e6, np.float32))
    graph = OnnxGraph()
    graph.add("Identity", graph.constant("whole", whole), output="y")
    proto = proto_of(graph, {}, {"y": (TensorProto.FLOAT, [LEAST_HALF])})
    assert {weight.data_type for weight in proto.graph.initializer} == {TensorProto.FLOAT16}
    assert (proto.ir_version, proto.opset_import[0].version) == (IR_VERSION, OPSET)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    assert np.array_equal(session.run(None, {})[0], whole)
