"""HiFi-GAN as an ONNX graph: log-mel (1, S, M) in, waveform (S · hop,) out."""

from __future__ import annotations

import onnx
from torch import nn

from clock_attention.speech.vocoder.hifigan import LAST_SLOPE, SLOPE, Generator, ResidualBlock, load_generator
from clock_attention.speech.vocoder.vocoder import Hifigan, Vocoder
from clock_attention.speech.voice.onnx_graph import Graph, proto_of
from clock_attention.speech.voice.onnx_layers import FLOAT


class VocoderGraph(Graph):
    """Channels first, as convolutions want it: (1, C, L)."""

    def convolution(self, x: str, layer: nn.Module, slope: float | None = None) -> str:
        """leaky_relu, where there is a slope, and a convolution or a transposed one."""
        assert isinstance(layer, nn.Conv1d | nn.ConvTranspose1d)
        if slope is not None:
            x = self.add("LeakyRelu", x, alpha=slope)
        transposed = isinstance(layer, nn.ConvTranspose1d)
        return self.add(
            "ConvTranspose" if transposed else "Conv",
            x,
            self.value(layer.weight),
            self.value(layer.bias),
            kernel_shape=list(layer.kernel_size),
            dilations=list(layer.dilation),
            strides=list(layer.stride),
            pads=[int(layer.padding[0])] * 2,
        )

    def generator(self, mel: str, generator: Generator) -> str:
        x = self.convolution(self.transpose(mel, 0, 2, 1), generator.conv_pre)
        for stage, up in enumerate(generator.ups):
            x = self.convolution(x, up, SLOPE)
            sums = []
            for block in generator.resblocks[stage * generator.kinds : (stage + 1) * generator.kinds]:
                assert isinstance(block, ResidualBlock)
                y = x
                for dilated, plain in zip(block.convs1, block.convs2, strict=True):
                    y = self.plus(y, self.convolution(self.convolution(y, dilated, SLOPE), plain, SLOPE))
                sums.append(y)
            x = self.times(self.add("Sum", *sums), 1 / generator.kinds)
        return self.add("Tanh", self.convolution(x, generator.conv_post, LAST_SLOPE))


def vocoder_graph(vocoder: Vocoder) -> tuple[onnx.ModelProto, int]:
    """The graph, and mel frames to each side that a sample depends on."""
    if not isinstance(vocoder, Hifigan):
        raise ValueError(f"vocoder: got {vocoder.name!r}, expected HiFi-GAN: no other one can be exported yet")
    graph = VocoderGraph()
    wave = graph.generator("mel", load_generator(vocoder.weights, vocoder.config))
    graph.add("Reshape", wave, graph.value([-1], "int64"), output="wave")
    shape = ["one", "frames", vocoder.mel.n_mels]
    return proto_of(graph, {"mel": (FLOAT, shape)}, {"wave": (FLOAT, ["samples"])}), vocoder.config.context
