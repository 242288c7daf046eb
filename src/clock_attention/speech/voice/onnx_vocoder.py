"""Vocoders as ONNX graphs: HiFi-GAN from log-mel to waveform, the harmonic vocoder up to its predicted spectra."""

from __future__ import annotations

import math

import numpy as np
import onnx
from torch import nn

from clock_attention.speech.vocoder.harmonic import (
    HIGHEST_PITCH,
    LOWEST_PITCH,
    MEL_MEAN,
    MEL_SCALE,
    MIDDLE_PITCH,
    NEIGHBOURS,
    PITCH_CLASSES,
    PITCH_SCALE,
    SPECTRUM_BINS,
    ConvNeXtBlock,
    HarmonicNetwork,
    PitchNetwork,
)
from clock_attention.speech.vocoder.hifigan import LAST_SLOPE, SLOPE, Generator, ResidualBlock, load_generator
from clock_attention.speech.vocoder.vocoder import Hifigan
from clock_attention.speech.voice.onnx_graph import OnnxGraph, Shapes, proto_of
from clock_attention.speech.voice.onnx_layers import DOUBLE, FLOAT, INT64


class VocoderGraph(OnnxGraph):
    """HiFi-GAN as an ONNX graph, channels first, as convolutions require: (1, C, L)."""

    def convolution(self, x: str, layer: nn.Module, slope: float | None = None) -> str:
        """leaky_relu, if a slope is given, and a convolution or transposed convolution."""
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


class HarmonicGraph(OnnxGraph):
    """The harmonic vocoder's network as an ONNX graph, channels last: (1, L, C)."""

    def block(self, x: str, block: nn.Module) -> str:
        assert isinstance(block, ConvNeXtBlock)
        y = self.norm(self.over_time(x, block.depthwise), block.norm)
        y = self.linear(self.gelu(self.linear(y, block.inner)), block.outer)
        return self.plus(x, self.times(y, block.scale))

    def between(self, x: str, left: str, right: str, weight: str) -> str:
        """Interpolate (1, T, C) at positions between frames.  (1, N, C)"""
        near, far = (self.add("Gather", x, place, axis=1) for place in (left, right))
        return self.plus(self.times(near, self.minus(1.0, weight)), self.times(far, weight))

    def neighbours(self, mel: str) -> tuple[str, str, str]:
        """From the input `places` (N,): the frames around each, and the weight of the later one (1, N, 1)."""
        last = self.minus(self.size(mel, 1), 1, np.int64)
        place = self.add("Min", self.binary("Max", "places", 0.0, np.float64), self.cast(last, DOUBLE))
        left = self.cast(self.add("Floor", place), INT64)
        left = self.add("Min", left, self.binary("Max", self.minus(last, 1, np.int64), 0, np.int64))
        weight = self.cast(self.minus(place, self.cast(left, DOUBLE)), FLOAT)
        return left, self.add("Min", self.plus(left, 1, np.int64), last), self.unsqueeze(weight, 0, 2)

    def frequency(self, mel: str, pitch: PitchNetwork, around: tuple[str, str, str]) -> str:
        """F0 in Hz at the positions `places`, 0 where unvoiced.  (1, N, 1)"""
        x = self.over_time(mel, pitch.input)
        for block in pitch.blocks:
            x = self.block(x, block)
        scores = self.between(self.linear(self.norm(x, pitch.norm), pitch.output), *around)
        bounds = [self.value([bound], np.int64) for bound in (0, PITCH_CLASSES, PITCH_CLASSES + 1, 2)]
        classes = self.add("Slice", scores, bounds[0], bounds[1], bounds[3])
        voicing = self.add("Slice", scores, bounds[1], bounds[2], bounds[3])
        best = self.cast(self.add("ArgMax", classes, axis=2, keepdims=1), FLOAT)
        numbers = np.arange(PITCH_CLASSES, dtype=np.float32)
        far = self.add("Greater", self.add("Abs", self.minus(numbers, best)), self.value(float(NEIGHBOURS)))
        weights = self.add("Softmax", self.where(far, -np.inf, classes), axis=-1)
        place = self.total(self.times(weights, numbers), 2)
        height = self.times(place, math.log(HIGHEST_PITCH / LOWEST_PITCH) / (PITCH_CLASSES - 1))
        hertz = self.times(self.add("Exp", height), LOWEST_PITCH)
        return self.where(self.add("Greater", voicing, self.value(0.0)), hertz, 0.0)

    def drawn(self, mel: str, frequency: str, network: HarmonicNetwork, around: tuple[str, str, str]) -> str:
        """Log magnitudes and phases.  (1, N, 4 · BINS)"""
        x = self.over_time(mel, network.input)
        for block in network.front:
            x = self.block(x, block)
        voiced = self.cast(self.add("Greater", frequency, self.value(0.0)), FLOAT)
        ratio = self.over(self.binary("Max", frequency, LOWEST_PITCH), MIDDLE_PITCH)
        height = self.times(self.times(self.add("Log", ratio), PITCH_SCALE), voiced)
        told = self.over_time(self.add("Concat", height, voiced, axis=2), network.pitch_input)
        x = self.plus(self.between(x, *around), told)
        for block in network.middle:
            x = self.block(x, block)
        x = self.linear(x, network.bridge)
        for block in network.decoder:
            x = self.block(x, block)
        return self.linear(self.norm(x, network.norm), network.head)


def harmonic_graph(network: HarmonicNetwork) -> onnx.ModelProto:
    """The harmonic vocoder in ONNX: `mel` (1, T, M), `places` (N,) → `frequency` (N,), `drawn` (N, 4 · BINS)."""
    graph = HarmonicGraph()
    mel = graph.over(graph.minus("mel", MEL_MEAN), MEL_SCALE)
    around = graph.neighbours(mel)
    frequency = graph.frequency(mel, network.pitch, around)
    drawn = graph.drawn(mel, frequency, network, around)
    graph.add("Reshape", frequency, graph.value([-1], np.int64), output="frequency")
    graph.add("Reshape", drawn, graph.value([-1, 4 * SPECTRUM_BINS], np.int64), output="drawn")
    inputs: Shapes = {"mel": (FLOAT, ["one", "frames", network.config.mel.n_mels]), "places": (DOUBLE, ["spectra"])}
    return proto_of(
        graph, inputs, {"frequency": (FLOAT, ["spectra"]), "drawn": (FLOAT, ["spectra", 4 * SPECTRUM_BINS])}
    )


def hifigan_graph(vocoder: Hifigan) -> onnx.ModelProto:
    """HiFi-GAN in ONNX: log-mel `mel` (1, S, M) → `wave` (S · hop,)."""
    graph = VocoderGraph()
    wave = graph.generator("mel", load_generator(vocoder.weights, vocoder.config))
    graph.add("Reshape", wave, graph.value([-1], np.int64), output="wave")
    inputs: Shapes = {"mel": (FLOAT, ["one", "frames", vocoder.mel.n_mels])}
    return proto_of(graph, inputs, {"wave": (FLOAT, ["samples"])})
