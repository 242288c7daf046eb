"""ONNX graphs of the aligned acoustic model (with durations): text side, frame side, or both in one."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import onnx

from clock_attention.speech.model.aligned import (
    MOST_FRAMES,
    SHORTEST_SILENCE,
    SILENCE_AFTER,
    SILENCE_BEFORE,
    AlignedModel,
)
from clock_attention.speech.model.convolution import ConvBlock, ConvStack
from clock_attention.speech.model.layers import EncoderLayer
from clock_attention.speech.voice.onnx_graph import proto_of
from clock_attention.speech.voice.onnx_layers import DOUBLE, FLOAT, INT64, AcousticGraph

Statistics = tuple[float, ...]


class TextSide(NamedTuple):
    """Names of the ONNX tensors of the aligned model's encoded text, with the enclosing silences."""

    encoded: str  # (B, T + 2, E)
    energy: str  # (B, T + 2)
    natural: str  # frames at natural pace (B, T + 2)
    optional: str  # tokens that may take no frames (B, T + 2)
    padding: str  # (B, T + 2)
    last: str  # index of the last silence (B, 1)


class AlignedGraph(AcousticGraph):
    """The aligned model as an ONNX graph: `AlignedModel.synthesise`, step by step, where the reasons are documented."""

    def conv_stack(self, x: str, stack: ConvStack, keep: str) -> str:
        x = self.linear(x, stack.input)
        for block in stack.blocks:
            assert isinstance(block, ConvBlock)
            y = self.norm(self.over_time(self.times(x, keep), block.depthwise), block.norm)
            y = self.linear(self.gelu(self.linear(y, block.inner)), block.outer)
            x = self.plus(x, self.times(y, block.scale))
        return self.norm(x, stack.norm)

    def column(self, x: str, place: int) -> str:
        """One feature of (B, L, F).  (B, L)"""
        return self.add("Gather", x, self.value(place, np.int64), axis=2)

    def text_side(self, model: AlignedModel) -> TextSide:
        """From the inputs `tokens` (B, T) and `token_lengths` (B,)."""
        symbols, lengths = model.config.symbols, "token_lengths"
        present = self.where(self.past_end(lengths, self.size("tokens", 1)), 0, "tokens", np.int64)
        ids = self.add("Pad", present, self.value([0, 1, 0, 1], np.int64))
        place = self.unsqueeze(self.range(self.size(ids, 1)), 0)  # (1, T + 2)
        first = self.add("Equal", place, self.value(0, np.int64))
        end = self.plus(self.unsqueeze(lengths, 1), 1, np.int64)  # (B, 1)
        last = self.add("Equal", place, end)
        ids = self.where(first, symbols, self.where(last, symbols + 1, ids, np.int64), np.int64)
        padding = self.add("Greater", place, end)
        x = self.add("Gather", self.value(model.embedding.weight), ids)
        for layer in model.encoder:
            assert isinstance(layer, EncoderLayer)
            x = self.encoder_layer(x, layer, padding)
        x = self.norm(x, model.encoder_norm)
        keep = self.cast(self.unsqueeze(self.add("Not", padding), 2), FLOAT)
        timing = self.linear(self.conv_stack(x, model.timing, keep), model.timing_output)
        optional = self.add(
            "Or",
            self.add("Less", ids, self.value(model.config.boundaries, np.int64)),
            self.add("GreaterOrEqual", ids, self.value(symbols, np.int64)),
        )
        natural = self.natural(self.column(timing, 0), optional, padding, first, last)
        return TextSide(x, self.column(timing, 1), natural, optional, padding, end)

    def natural(self, log_duration: str, optional: str, padding: str, first: str, last: str) -> str:
        """`natural_durations`.  (B, T + 2)"""
        frames = self.minus(self.add("Exp", log_duration), 1.0)
        frames = self.where(self.add("IsNaN", frames), 1.0, frames)
        frames = self.binary("Min", frames, MOST_FRAMES)
        none = self.add("And", optional, self.add("Less", frames, self.value(SHORTEST_SILENCE)))
        frames = self.where(none, 0.0, self.binary("Max", frames, 1.0))
        frames = self.where(padding, 0.0, frames)
        return self.where(first, SILENCE_BEFORE, self.where(last, SILENCE_AFTER, frames))

    def wanted_frames(self, natural: str) -> str:
        """From the inputs `frames` and `pace`.  (B, 1), float"""
        total = self.total(natural, 1)
        predicted = self.add("Round", self.over(total, self.unsqueeze("pace", 1)))
        given = self.unsqueeze(self.cast("frames", FLOAT), 1)
        wanted = self.where(self.add("Greater", given, self.value(0.0)), given, predicted)
        return self.binary("Max", wanted, 1.0)

    def fitted(self, text: TextSide, wanted: str) -> str:
        """`fitted_durations`: whole frames that sum to `wanted` (B, 1).  (B, T + 2), float"""
        least = self.cast(self.add("Not", self.add("Or", text.optional, text.padding)), FLOAT)
        total = self.total(text.natural, 1)
        fewest = self.total(least, 1)
        faster = self.binary("Min", self.over(wanted, total), 1.0)
        hurried = self.where(text.optional, self.times(text.natural, faster), text.natural)
        room = self.binary("Max", self.minus(wanted, fewest), 0.0)
        share = self.over(room, self.binary("Max", self.minus(self.total(hurried, 1), fewest), 1e-6))
        squeezed = self.plus(least, self.times(self.minus(hurried, least), share))
        scaled = self.over(self.times(text.natural, wanted), total)
        plain = self.add(
            "Or", self.add("GreaterOrEqual", wanted, total), self.add("Less", wanted, fewest)
        )  # longer than natural, or too short for one frame per phoneme
        exact = self.cast(self.where(plain, scaled, squeezed), DOUBLE)
        ends = self.add("Floor", self.plus(self.add("CumSum", exact, self.value(1, np.int64)), 0.5, np.float64))
        whole = self.cast(wanted, DOUBLE)
        place = self.unsqueeze(self.range(self.size(text.natural, 1)), 0)
        ends = self.add("Min", ends, whole)
        ends = self.add("Where", self.add("GreaterOrEqual", place, text.last), whole, ends)
        before = self.cut(
            self.add("Pad", ends, self.value([0, 1, 0, 0], np.int64)), self.size(text.natural, 1), 1
        )  # shifted right by one
        return self.cast(self.minus(ends, before), FLOAT)

    def meeting(self, durations: str, time: str) -> str:
        """`meeting_weights`.  (B, S, T + 2)"""
        centre = self.minus(self.add("CumSum", durations, self.value(1, np.int64)), self.times(durations, 0.5))
        half = self.times(durations, 0.5)
        variance = self.plus(self.times(self.times(half, half), 0.5), 0.25)
        distance = self.minus(self.unsqueeze(time, 0, 2), self.unsqueeze(centre, 1))
        score = self.over(self.times(distance, distance), self.times(self.unsqueeze(variance, 1), -2.0))
        score = self.minus(score, self.unsqueeze(self.times(self.add("Log", variance), 0.5), 1))
        absent = self.add("LessOrEqual", durations, self.value(0.0))
        return self.add("Softmax", self.where(self.unsqueeze(absent, 1), -1e9, score), axis=-1)

    def positions(self, durations: str, time: str) -> str:
        """`position_features`.  (B, S, 8)"""
        end = self.add("CumSum", durations, self.value(1, np.int64))
        earlier = self.add("Less", self.unsqueeze(end, 1), self.unsqueeze(time, 0, 2))  # (B, S, T + 2)
        token = self.add("ReduceSum", self.cast(earlier, INT64), self.value([2], np.int64), keepdims=0)
        most = self.minus(self.size(durations, 1), 1, np.int64)
        token = self.add("Min", token, most)
        start = self.add("GatherElements", self.minus(end, durations), token, axis=1)
        length = self.binary("Max", self.add("GatherElements", durations, token, axis=1), 1.0)
        since = self.binary("Max", self.minus(self.unsqueeze(time, 0), start), 0.0)
        share = self.over(since, length)
        angle = self.times(share, math.pi)
        twice = self.times(angle, 2.0)
        left = self.binary("Max", self.minus(length, since), 0.0)
        parts = (
            share,
            self.add("Log", length),
            self.add("Log", self.plus(since, 1.0)),
            self.add("Log", self.plus(left, 1.0)),
            self.add("Sin", angle),
            self.add("Cos", angle),
            self.add("Sin", twice),
            self.add("Cos", twice),
        )
        return self.add("Concat", *(self.unsqueeze(part, 2) for part in parts), axis=2)

    def frame_side(
        self,
        model: AlignedModel,
        encoded: str,
        energy: str,
        durations: str,
        pitch: str | None,
        mean: Statistics,
        std: Statistics,
        log_floor: float,
    ) -> tuple[str, str, str]:
        """log-mel (B, S, M), its lengths (B,) and the weights (B, S, T + 2); `pitch` is added to each token's pitch."""
        frames = self.reshape(self.cast(self.total(durations, 1), INT64), -1)
        longest = self.largest(frames)
        absent = self.past_end(frames, longest)  # (B, S)
        present = self.cast(self.unsqueeze(self.add("Not", absent), 2), FLOAT)
        time = self.plus(self.cast(self.range(longest), FLOAT), 0.5)
        weights = self.meeting(durations, time)
        text = self.plus(encoded, self.linear(self.unsqueeze(energy, 2), model.energy_input))
        aligned = self.add("Concat", self.matmul(weights, text), self.positions(durations, time), axis=2)
        hidden = self.conv_stack(aligned, model.prosody, present)
        prosody = self.linear(hidden, model.prosody_output)
        contour = self.column(prosody, 0)
        voiced = self.cast(self.add("Greater", self.column(prosody, 1), self.value(0.0)), FLOAT)
        if pitch is not None:
            contour = self.plus(contour, self.reshape(self.matmul(weights, self.unsqueeze(pitch, 2)), 0, -1))
        drawn = self.add(
            "Concat", self.unsqueeze(self.times(contour, voiced), 2), self.unsqueeze(voiced, 2), axis=2
        )  # (B, S, 2)
        drawn = self.over_time(self.times(drawn, present), model.pitch_input)
        mel = self.conv_stack(self.add("Concat", aligned, hidden, drawn, axis=2), model.decoder, present)
        mel = self.plus(self.times(self.linear(mel, model.output), std), mean)
        return self.where(self.unsqueeze(absent, 2), math.log(log_floor), mel), frames, weights

    def acoustic_model(
        self, model: AlignedModel, mean: Statistics, std: Statistics, log_floor: float
    ) -> tuple[str, str, str]:
        """Text to log-mel, its lengths and the attention (B, 1, S, T + 2)."""
        text = self.text_side(model)
        durations = self.fitted(text, self.wanted_frames(text.natural))
        mel, frames, weights = self.frame_side(model, text.encoded, text.energy, durations, None, mean, std, log_floor)
        absent = self.past_end(frames, self.largest(frames))
        return mel, frames, self.unsqueeze(self.where(self.unsqueeze(absent, 2), 0.0, weights), 1)


def text_graph(model: AlignedModel) -> onnx.ModelProto:
    """The aligned model's text side in ONNX: phonemes → encoded text, durations; `frames` 0: predicted length."""
    graph = AlignedGraph()
    text = graph.text_side(model)
    durations = graph.fitted(text, graph.wanted_frames(text.natural))
    found = {"encoded": text.encoded, "energy": text.energy, "natural": text.natural, "optional": text.optional}
    for name, tensor in {**found, "durations": graph.cast(durations, INT64)}.items():
        graph.add("Identity", tensor, output=name)
    sides = ["batch", "tokens and silences"]
    return proto_of(
        graph,
        {
            "tokens": (INT64, ["batch", "tokens"]),
            "token_lengths": (INT64, ["batch"]),
            "frames": (INT64, ["batch or 1"]),
            "pace": (FLOAT, ["batch or one"]),
        },
        {
            "encoded": (FLOAT, [*sides, model.config.width]),
            "energy": (FLOAT, sides),
            "natural": (FLOAT, sides),
            "optional": (onnx.TensorProto.BOOL, sides),
            "durations": (INT64, sides),
        },
    )


def frame_graph(model: AlignedModel, mean: Statistics, std: Statistics, log_floor: float) -> onnx.ModelProto:
    """The aligned model's frame side in ONNX: encoded text and durations → log-mel; `pitch` is added, standardised."""
    graph = AlignedGraph()
    durations = graph.cast("durations", FLOAT)
    mel, _, weights = graph.frame_side(model, "encoded", "energy", durations, "pitch", mean, std, log_floor)
    graph.add("Identity", mel, output="mel")
    graph.add("Identity", weights, output="attention")
    sides = ["batch", "tokens and silences"]
    return proto_of(
        graph,
        {
            "encoded": (FLOAT, [*sides, model.config.width]),
            "energy": (FLOAT, sides),
            "durations": (INT64, sides),
            "pitch": (FLOAT, sides),
        },
        {
            "mel": (FLOAT, ["batch", "frames", model.config.mels]),
            "attention": (FLOAT, ["batch", "frames", "tokens and silences"]),
        },
    )
