"""HiFi-GAN's generator as an ONNX graph.

Written out node by node, which takes a few milliseconds and nothing but the `onnx` package: tracing the torch module
takes many seconds at every start, or a cache on disk that can go stale. The weights stay beside the graph, as ONNX's
external data: inside, they would be copied five times before the first sound.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from torch import nn

from clock_attention.speech.hifigan import LAST_SLOPE, SLOPE, Generator, ResidualBlock

OPSET = 17


class Graph:
    """Nodes and weights so far; every method adds one operation and returns the name of its output."""

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

    def activation(self, x: str, slope: float = SLOPE) -> str:
        return self.add("LeakyRelu", x, alpha=slope)

    def convolution(self, x: str, layer: nn.Module) -> str:
        assert isinstance(layer, nn.Conv1d | nn.ConvTranspose1d)
        assert layer.bias is not None
        name = f"layer_{len(self.nodes)}"
        weight = self.constant(f"{name}.weight", layer.weight.detach().numpy())
        bias = self.constant(f"{name}.bias", layer.bias.detach().numpy())
        padding = int(layer.padding[0])
        return self.add(
            "ConvTranspose" if isinstance(layer, nn.ConvTranspose1d) else "Conv",
            x,
            weight,
            bias,
            kernel_shape=list(layer.kernel_size),
            strides=list(layer.stride),
            dilations=list(layer.dilation),
            pads=[padding, padding],
        )

    def residual_block(self, x: str, block: nn.Module) -> str:
        assert isinstance(block, ResidualBlock)
        for dilated, plain in zip(block.convs1, block.convs2, strict=True):
            inner = self.convolution(self.activation(x), dilated)
            x = self.add("Add", x, self.convolution(self.activation(inner), plain))
        return x


def elsewhere(name: str, values: np.ndarray[Any, Any]) -> onnx.TensorProto:
    """An initializer whose values are handed to the session under its name."""
    kind = helper.np_dtype_to_tensor_dtype(values.dtype)
    tensor = TensorProto(name=name, data_type=kind, dims=values.shape, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="memory")
    return tensor


def onnx_model(generator: Generator, n_mels: int) -> tuple[bytes, dict[str, np.ndarray[Any, Any]]]:
    """`Generator.forward`, operation by operation, and its weights.

    Input "mel" (1, n_mels, frames), output "wave" (1, 1, samples).
    """
    graph = Graph()
    x = graph.convolution("mel", generator.conv_pre)
    for stage, up in enumerate(generator.ups):
        x = graph.convolution(graph.activation(x), up)
        first, *others = generator.resblocks[stage * generator.kinds : (stage + 1) * generator.kinds]
        total = graph.residual_block(x, first)
        for block in others:
            total = graph.add("Add", total, graph.residual_block(x, block))
        x = graph.add("Div", total, graph.constant(f"kinds_{stage}", np.array(generator.kinds, np.float32)))
    x = graph.convolution(graph.activation(x, LAST_SLOPE), generator.conv_post)
    graph.add("Tanh", x, output="wave")
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "hifigan",
            [helper.make_tensor_value_info("mel", TensorProto.FLOAT, [1, n_mels, "frames"])],
            [helper.make_tensor_value_info("wave", TensorProto.FLOAT, [1, 1, "samples"])],
            [elsewhere(name, values) for name, values in graph.weights.items()],
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        # The oldest format that has this opset: newer ones are refused by ONNX Runtimes of the same age.
        ir_version=8,
    )
    return model.SerializeToString(), graph.weights
