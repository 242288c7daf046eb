"""Building blocks of ONNX graphs: tensor operations and basic layers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

OPSET = 17
IR_VERSION = 8  # the oldest format with this opset; ONNX Runtime versions of the same age reject newer ones
LEAST_HALF = 4096  # minimum size of a constant to be stored in half precision, if that is lossless


class OnnxGraph:
    """An ONNX graph under construction; every method adds one operation and returns the name of its output.

    Numbers and arrays are accepted in place of tensors and become constants.
    """

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray[Any, Any]] = {}

    def add(self, operation: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        output = output or f"{operation}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, list(inputs), [output], **attributes))
        return output

    def constant(self, name: str, values: np.ndarray[Any, Any]) -> str:
        self.weights[name] = np.asarray(values, order="C")
        return name

    def value(self, x: Any, dtype: Any = np.float32) -> str:
        if isinstance(x, str):
            return x
        array = x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x, dtype)
        return self.constant(f"constant_{len(self.weights)}", array)

    def binary(self, operation: str, a: Any, b: Any, dtype: Any = np.float32) -> str:
        return self.add(operation, self.value(a, dtype), self.value(b, dtype))

    def plus(self, a: Any, b: Any, dtype: Any = np.float32) -> str:
        return self.binary("Add", a, b, dtype)

    def minus(self, a: Any, b: Any, dtype: Any = np.float32) -> str:
        return self.binary("Sub", a, b, dtype)

    def times(self, a: Any, b: Any, dtype: Any = np.float32) -> str:
        return self.binary("Mul", a, b, dtype)

    def over(self, a: Any, b: Any, dtype: Any = np.float32) -> str:
        return self.binary("Div", a, b, dtype)

    def matmul(self, a: str, b: Any) -> str:
        return self.binary("MatMul", a, b)

    def where(self, mask: str, a: Any, b: Any, dtype: Any = np.float32) -> str:
        return self.add("Where", mask, self.value(a, dtype), self.value(b, dtype))

    def cast(self, x: str, to: int) -> str:
        return self.add("Cast", x, to=to)

    def unsqueeze(self, x: str, *axes: int) -> str:
        return self.add("Unsqueeze", x, self.value(list(axes), np.int64))

    def reshape(self, x: str, *shape: int) -> str:
        """Reshape a tensor; 0 keeps a dimension, −1 is inferred."""
        return self.add("Reshape", x, self.value(list(shape), np.int64))

    def transpose(self, x: str, *order: int) -> str:
        return self.add("Transpose", x, perm=list(order))

    def total(self, x: str, axis: int) -> str:
        return self.add("ReduceSum", x, self.value([axis], np.int64), keepdims=1)

    def largest(self, x: str) -> str:
        return self.add("ReduceMax", x, keepdims=0)

    def size(self, x: str, axis: int) -> str:
        return self.add("Gather", self.add("Shape", x), self.value(axis, np.int64))

    def range(self, stop: str) -> str:
        """0 … stop − 1, int64."""
        return self.add("Range", self.value(0, np.int64), stop, self.value(1, np.int64))

    def cut(self, x: str, stop: str, axis: int) -> str:
        """The first `stop` entries along an axis."""
        return self.add("Slice", x, self.value([0], np.int64), self.reshape(stop, 1), self.value([axis], np.int64))

    def past_end(self, lengths: str, longest: str) -> str:
        """The padding mask of sequences of these lengths.  (B,) → (B, longest)"""
        return self.add("GreaterOrEqual", self.range(longest), self.unsqueeze(lengths, 1))

    def linear(self, x: str, layer: nn.Module) -> str:
        if isinstance(layer, nn.Identity):
            return x
        assert isinstance(layer, nn.Linear)
        return self.plus(self.matmul(x, layer.weight.T.contiguous()), layer.bias)

    def norm(self, x: str, layer: nn.Module) -> str:
        if isinstance(layer, nn.Identity):
            return x
        assert isinstance(layer, nn.LayerNorm)
        return self.add("LayerNormalization", x, self.value(layer.weight), self.value(layer.bias), epsilon=layer.eps)

    def over_time(self, x: str, layer: nn.Module) -> str:
        """A convolution of (B, L, E)."""
        assert isinstance(layer, nn.Conv1d)
        y = self.add(
            "Conv",
            self.transpose(x, 0, 2, 1),
            self.value(layer.weight),
            self.value(layer.bias),
            kernel_shape=list(layer.kernel_size),
            dilations=list(layer.dilation),
            pads=[int(layer.padding[0])] * 2,
            group=layer.groups,
        )
        return self.transpose(y, 0, 2, 1)

    def split_heads(self, x: str, heads: int) -> str:
        """(B, L, H·D) → (B, H, L, D)"""
        return self.transpose(self.reshape(x, 0, 0, heads, -1), 0, 2, 1, 3)

    def join_heads(self, x: str) -> str:
        return self.reshape(self.transpose(x, 0, 2, 1, 3), 0, 0, -1)

    def gelu(self, x: str) -> str:
        """GELU with the tanh approximation."""
        cubic = self.times(self.times(self.times(x, x), x), 0.044715)
        inner = self.add("Tanh", self.times(self.plus(x, cubic), math.sqrt(2 / math.pi)))
        return self.times(self.times(x, 0.5), self.plus(inner, 1.0))


def is_half(values: np.ndarray[Any, Any]) -> bool:
    """Whether an ONNX graph's weights are exact in half precision, as those of shipped voices are."""
    with np.errstate(over="ignore"):
        return values.dtype == np.float32 and np.array_equal(values.astype(np.float16), values)


Shapes = Mapping[str, tuple[int, Sequence[str | int]]]


def proto_of(
    graph: OnnxGraph, inputs: Shapes, outputs: Shapes, metadata: Mapping[str, str] | None = None
) -> onnx.ModelProto:
    """A finished ONNX graph as a checked model; weights that are exact in half precision are stored in it."""
    nodes, weights = [], []
    for name, values in graph.weights.items():
        if values.size >= LEAST_HALF and is_half(values):
            weights.append(numpy_helper.from_array(values.astype(np.float16), f"{name}_half"))
            nodes.append(helper.make_node("Cast", [f"{name}_half"], [name], to=TensorProto.FLOAT))
        else:
            weights.append(numpy_helper.from_array(values, name))
    given, made = (
        [helper.make_tensor_value_info(name, kind, list(shape)) for name, (kind, shape) in side.items()]
        for side in (inputs, outputs)
    )
    proto = helper.make_model(
        helper.make_graph([*nodes, *graph.nodes], "clock_attention", given, made, weights),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="clock-attention",
    )
    helper.set_model_props(proto, dict(metadata or {}))
    onnx.checker.check_model(proto)
    return proto
