"""The parallel acoustic model as one ONNX file: phoneme ids in, log-mel frames and attention out.

Written node by node: lengths stay free because every shape is computed inside the graph, and the file needs nothing
but an ONNX runtime. Clocks are summed and compared in fp64, as in the portable implementation.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from clock_attention import ClockAttention
from clock_attention.files import check_writable, write_atomically
from clock_attention.speech.model.cross_attention import LaropeAttention, UniformAttention
from clock_attention.speech.model.layers import DecoderLayer, EncoderLayer, FeedForward, Postnet, SelfAttention
from clock_attention.speech.model.length import NATURAL_MPR, LengthModel
from clock_attention.speech.model.model import SpeechModel
from clock_attention.speech.voice.onnx_graph import OPSET, Graph
from clock_attention.speech.voice.voice import Voice

FLOAT, DOUBLE, INT64 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64
IR_VERSION = 8  # the oldest format that has this opset: newer ones are refused by ONNX Runtimes of the same age


class AcousticGraph(Graph):
    """`SpeechModel.synthesise` for parallel decoding, layer by layer; the layers' own code says why."""

    def sinusoids(self, position: str, width: int) -> str:
        """The Transformer's position code.  (1 or B, L) → (1 or B, L, width)"""
        frequency = np.exp(np.arange(0, width, 2) * (-math.log(1e4) / width))
        angle = self.unsqueeze(self.times(self.unsqueeze(position, 2), frequency), 3)  # (…, L, width/2, 1)
        return self.reshape(self.add("Concat", self.add("Sin", angle), self.add("Cos", angle), axis=-1), 0, 0, width)

    def rotate(self, x: str, width: int) -> str:
        """Rotary positions on heads (B, H, L, width)."""
        frequency = 1e4 ** (-np.arange(0, width, 2) / width)
        place = self.cast(self.range(self.size(x, 2)), FLOAT)
        angle = self.times(self.unsqueeze(place, 1), frequency)  # (L, width/2)
        cos, sin = self.add("Cos", angle), self.add("Sin", angle)
        halves = [
            self.add("Slice", x, *(self.value([bound], np.int64) for bound in (start, start + width // 2, 3)))
            for start in (0, width // 2)
        ]
        a, b = halves
        first = self.minus(self.times(a, cos), self.times(b, sin))
        return self.add("Concat", first, self.plus(self.times(b, cos), self.times(a, sin)), axis=-1)

    def self_attention(self, x: str, layer: SelfAttention, padding: str) -> str:
        width = layer.out_proj.in_features // layer.num_heads
        joint = self.reshape(self.linear(x, layer.in_proj), 0, 0, 3, layer.num_heads, width)
        parts = [self.add("Gather", joint, self.value(part, np.int64), axis=2) for part in range(3)]  # (B, L, H, D)
        query, key, value = (self.transpose(part, 0, 2, 1, 3) for part in parts)
        if layer.rotary:
            query, key = self.rotate(query, width), self.rotate(key, width)
        weights = self.dot_weights(query, key, width, padding)
        return self.linear(self.join_heads(self.matmul(weights, value)), layer.out_proj)

    def dot_weights(self, query: str, key: str, width: int, padding: str) -> str:
        logits = self.times(self.matmul(query, self.transpose(key, 0, 1, 3, 2)), width**-0.5)
        return self.add("Softmax", self.where(self.unsqueeze(padding, 1, 2), -np.inf, logits), axis=-1)

    def feed_forward(self, x: str, layer: FeedForward, padding: str) -> str:
        if layer.kernel == 1:
            return self.linear(self.add("Relu", self.linear(x, layer.inner)), layer.outer)
        width, inner = layer.inner.in_features // layer.kernel, layer.inner.out_features
        window = nn.Conv1d(width, inner, layer.kernel, padding=layer.kernel // 2)
        window.weight.data = layer.inner.weight.detach().cpu().unflatten(1, (layer.kernel, width)).mT.contiguous()
        window.bias = layer.inner.bias
        hidden = self.over_time(self.where(self.unsqueeze(padding, 2), 0.0, x), window)
        return self.linear(self.add("Relu", hidden), layer.outer)

    def encoder_layer(self, x: str, layer: EncoderLayer, padding: str) -> str:
        if layer.norm_first:
            x = self.plus(x, self.self_attention(self.norm(x, layer.norm1), layer.self_attention, padding))
            return self.plus(x, self.feed_forward(self.norm(x, layer.norm2), layer.feed_forward, padding))
        x = self.norm(self.plus(x, self.self_attention(x, layer.self_attention, padding)), layer.norm1)
        return self.norm(self.plus(x, self.feed_forward(x, layer.feed_forward, padding)), layer.norm2)

    def decoder_layer(
        self, x: str, layer: DecoderLayer, memory: str, padding: str, memory_padding: str
    ) -> tuple[str, str]:
        """Output (B, S, E) and the attention weights (B, H, S, T)."""
        first = layer.norm_first
        hidden = self.self_attention(self.norm(x, layer.norm1) if first else x, layer.self_attention, padding)
        x = self.plus(x, hidden)
        x = x if first else self.norm(x, layer.norm1)
        query = self.norm(x, layer.norm2) if first else x
        attention = layer.cross_attention
        if isinstance(attention, LaropeAttention | UniformAttention):
            raise ValueError(f"ONNX export: got {type(attention).__name__}, expected clock or dot attention")
        parts = (attention.q_proj, query), (attention.k_proj, memory), (attention.v_proj, memory)
        q, k, v = (self.split_heads(self.linear(source, layer), attention.num_heads) for layer, source in parts)
        if isinstance(attention, ClockAttention):
            weights = self.meeting_weights(q, k, attention, padding, memory_padding)
        else:
            weights = self.dot_weights(q, k, attention.q_proj.out_features // attention.num_heads, memory_padding)
        weights = self.where(self.unsqueeze(padding, 1, 3), 0.0, weights)
        x = self.plus(x, self.linear(self.join_heads(self.matmul(weights, v)), attention.out_proj))
        x = x if first else self.norm(x, layer.norm2)
        x = self.plus(x, self.feed_forward(self.norm(x, layer.norm3) if first else x, layer.feed_forward, padding))
        return x if first else self.norm(x, layer.norm3), weights

    def meeting_weights(self, q: str, k: str, attention: ClockAttention, padding: str, memory_padding: str) -> str:
        """Softmax over keys of the meeting score (Eq. 3), surrogate variance (Eq. 4).  (B, H, S, T)"""
        if attention.phi != "rational" or attention.variance != "surrogate" or attention.log_variance_term:
            raise ValueError(
                f"ONNX export: got phi={attention.phi!r}, variance={attention.variance!r}, "
                f"log_variance_term={attention.log_variance_term}; expected what speech models are built with, "
                "'rational', 'surrogate', False"
            )
        query, query_variance = self.normalized_clock(q, padding, attention.eps)
        key, key_variance = self.normalized_clock(k, memory_padding, attention.eps)
        cross = self.matmul(query, self.transpose(key, 0, 1, 3, 2))
        # In fp64 the cancellation of this form is far below what the variance can blow up.
        norms = self.plus(self.squares(query), self.transpose(self.squares(key), 0, 1, 3, 2))
        distance = self.cast(self.minus(norms, self.times(cross, 2.0, np.float64), np.float64), FLOAT)
        variance = self.plus(self.unsqueeze(query_variance, 1, 3), self.unsqueeze(key_variance, 1, 2))  # Σ²
        width = attention.q_proj.out_features // attention.num_heads
        score = self.over(distance, self.plus(self.times(variance, 2 * math.sqrt(width)), attention.eps))
        scale = attention.scale()
        logits = self.times(score, -scale.detach().reshape(-1, 1, 1) if isinstance(scale, Tensor) else -scale)
        return self.add("Softmax", self.where(self.unsqueeze(memory_padding, 1, 2), -np.inf, logits), axis=-1)

    def squares(self, clock: str) -> str:
        """‖λ‖² of every step.  (B, H, L, D) → (B, H, L, 1)"""
        return self.total(self.times(clock, clock), -1)

    def normalized_clock(self, x: str, padding: str, eps: float) -> tuple[str, str]:
        """λ (B, H, L, D) in fp64 and its bridge variance (B, L), from features (B, H, L, D)."""
        absent = self.unsqueeze(padding, 1, 3)
        count = self.total(self.cast(self.add("Not", absent), FLOAT), 2)  # (B, 1, 1, 1)
        x = self.where(absent, 0.0, x)
        centred = self.where(absent, 0.0, self.minus(x, self.over(self.total(x, 2), count)))
        spread = self.over(self.total(self.times(centred, centred), 2), count)
        eta = self.over(centred, self.add("Sqrt", self.plus(spread, eps)))
        # The edge before each step instead of after it: then one step alone has an edge too, of rate 0.
        place = self.range(self.size(x, 2))
        padded = self.add("Pad", eta, self.value([0, 0, 1, 0, 0, 0, 0, 0], np.int64))
        before = self.cut(padded, self.size(x, 2), 2)
        first = self.unsqueeze(self.add("Equal", place, self.value(0, np.int64)), 0, 1, 3)
        middle = self.times(self.plus(before, eta), 0.5)
        rate = self.where(self.add("Or", absent, first), 0.0, self.plus(self.rational(middle), eps))
        clock = self.add("CumSum", self.cast(rate, DOUBLE), self.value(2, np.int64))
        total = self.total(self.cast(rate, DOUBLE), 2)
        some = self.add("Greater", total, self.value(0.0, np.float64))
        clock = self.where(absent, 0.0, self.over(clock, self.where(some, total, 1.0, np.float64)), np.float64)
        length = self.reshape(count, -1, 1)  # (B, 1)
        index = self.binary("Min", self.plus(self.cast(place, FLOAT), 0.5), self.minus(length, 0.5))
        pos = self.over(index, length)
        return clock, self.over(self.times(pos, self.minus(1.0, pos)), length)

    def rational(self, x: str) -> str:
        """φ(x) = ½ (1 + x (1 + x + |x|)/(1 + |x|))"""
        magnitude = self.plus(self.add("Abs", x), 1.0)
        return self.times(self.plus(self.over(self.times(x, self.plus(magnitude, x)), magnitude), 1.0), 0.5)

    def predicted_frames(self, encoded: str, padding: str, length: LengthModel) -> str:
        """What the length model says, rounded.  (B,), float"""
        absent = self.unsqueeze(padding, 2)
        hidden = self.add("Relu", self.over_time(self.where(absent, 0.0, encoded), length.inner))
        duration = self.where(absent, 0.0, self.add("Exp", self.linear(hidden, length.outer)))  # frames (B, T, 1)
        return self.add("Max", self.add("Round", self.reshape(self.total(duration, 1), -1)), self.value(1.0))

    def postnet(self, mel: str, layers: Postnet, padding: str) -> str:
        x = mel
        for place, layer in enumerate(layers.layers):
            x = self.over_time(self.where(self.unsqueeze(padding, 2), 0.0, x), layer)
            x = x if place == len(layers.layers) - 1 else self.add("Tanh", x)
        return self.plus(mel, x)


def onnx_model(voice: Voice) -> onnx.ModelProto:
    """The acoustic model of a voice, with all that its user must know as metadata.

    Inputs    tokens          int64 (B, T): phoneme ids; what follows an item's length is not looked at
              token_lengths   int64 (B,)
              frames          int64 (B,) or (1,): mel frames of each item; 0 leaves them to the length model
              pace            float (B,) or (1,): times as fast as natural, where the length model decides
    Outputs   mel             float (B, S, M): log-mel; silence after an item's last frame
              mel_lengths     int64 (B,)
              attention       float (B, layers · heads, decoder steps, T): 0 where either side is padding
    """
    model, language = voice.model, voice.language
    if not isinstance(model, SpeechModel):
        raise ValueError(
            f"{voice.path}: ONNX export takes models with clock attention, not yet those trained along an alignment; "
            "of the package's voices, `attention` can be exported"
        )
    if model.config.autoregressive:
        raise ValueError(f"{voice.path}: ONNX export takes a parallel model, got an autoregressive one")
    graph = AcousticGraph()
    mel, lengths, attention = acoustic_model(graph, model, language.mean, language.std, language.mel.log_floor)
    graph.add("Identity", mel, output="mel")
    graph.add("Identity", lengths, output="mel_lengths")
    graph.add("Identity", attention, output="attention")
    heads = model.config.heads * model.config.decoder_layers
    proto = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "clock_attention",
            [
                helper.make_tensor_value_info("tokens", INT64, ["batch", "tokens"]),
                helper.make_tensor_value_info("token_lengths", INT64, ["batch"]),
                helper.make_tensor_value_info("frames", INT64, ["batch or 1"]),
                helper.make_tensor_value_info("pace", FLOAT, ["batch or one"]),
            ],
            [
                helper.make_tensor_value_info("mel", FLOAT, ["batch", "frames", model.config.mels]),
                helper.make_tensor_value_info("mel_lengths", INT64, ["batch"]),
                helper.make_tensor_value_info("attention", FLOAT, ["batch", heads, "steps", "tokens"]),
            ],
            [numpy_helper.from_array(values, name) for name, values in graph.weights.items()],
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="clock-attention",
    )
    provenance = voice.card.provenance
    helper.set_model_props(
        proto,
        {
            "symbols": json.dumps(language.symbols, ensure_ascii=False),
            "phonemizer": language.phonemizer,
            "mel": language.mel.model_dump_json(),
            "frames_per_step": str(model.config.frames_per_step),
            "corpus": provenance.corpus,
            "licence": provenance.licence,
        },
    )
    onnx.checker.check_model(proto)
    return proto


def acoustic_model(
    graph: AcousticGraph, model: SpeechModel, mean: tuple[float, ...], std: tuple[float, ...], log_floor: float
) -> tuple[str, str, str]:
    """`SpeechModel.synthesise` and the corpus statistics: log-mel, its lengths and the attention weights."""
    config, lengths = model.config, "token_lengths"
    longest = graph.size("tokens", 1)
    memory_padding = graph.past_end(lengths, longest)
    ids = graph.where(memory_padding, 0, "tokens", np.int64)
    x = graph.add("Gather", graph.value(model.embedding.weight), ids)  # (B, T, E)
    if config.encoder_positions == "absolute":
        place = graph.unsqueeze(graph.cast(graph.range(longest), FLOAT), 0)
        x = graph.plus(x, graph.sinusoids(place, config.width))
    for layer in model.encoder:
        assert isinstance(layer, EncoderLayer)
        x = graph.encoder_layer(x, layer, memory_padding)
    memory = graph.norm(x, model.encoder_norm)

    predicted = graph.over(graph.predicted_frames(memory, memory_padding, model.length), "pace")
    predicted = graph.cast(graph.add("Round", predicted), INT64)
    given = graph.add("Greater", "frames", graph.value(0, np.int64))
    frames = graph.binary("Max", graph.where(given, "frames", predicted), 1, np.int64)  # (B,)
    group = config.frames_per_step
    steps = graph.over(graph.plus(frames, group - 1, np.int64), group, np.int64)
    padding = graph.past_end(steps, graph.largest(steps))

    place = graph.unsqueeze(graph.cast(graph.range(graph.largest(steps)), FLOAT), 0)  # (1, S)
    if config.positions == "absolute":
        place = graph.times(place, group)
    else:
        share = graph.over(graph.plus(place, 0.5), graph.unsqueeze(graph.cast(steps, FLOAT), 1))  # (B, S)
        tokens = graph.unsqueeze(graph.cast(lengths, FLOAT), 1)
        place = graph.times(graph.times(share, tokens), NATURAL_MPR)
    x = graph.sinusoids(place, config.width)
    weights = []
    for layer in model.decoder:
        assert isinstance(layer, DecoderLayer)
        x, weight = graph.decoder_layer(x, layer, memory, padding, memory_padding)
        weights.append(weight)

    mel = graph.reshape(graph.linear(graph.norm(x, model.decoder_norm), model.output), 0, -1, config.mels)
    absent = graph.past_end(frames, graph.size(mel, 1))
    if config.postnet_layers:
        mel = graph.postnet(mel, model.postnet, absent)
    mel = graph.plus(graph.times(mel, std), mean)
    mel = graph.where(graph.unsqueeze(absent, 2), math.log(log_floor), mel)
    return graph.cut(mel, graph.largest(frames), 1), frames, graph.add("Concat", *weights, axis=1)


def export_onnx(voice: Voice, path: str | Path) -> Path:
    """Write the acoustic model of a voice as an .onnx file."""
    path = Path(path)
    if path.suffix.lower() != ".onnx":
        raise ValueError(f"{path}: expected a name ending in .onnx")
    check_writable(path)
    write_atomically(path, onnx_model(voice).SerializeToString())
    return path
