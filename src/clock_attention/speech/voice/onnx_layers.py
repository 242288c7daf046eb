"""Layers of the acoustic models in an ONNX graph. Clocks are summed and compared in fp64, as in the portable kernel."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto
from torch import Tensor, nn

from clock_attention import ClockAttention
from clock_attention.speech.model.cross_attention import LaropeAttention, UniformAttention
from clock_attention.speech.model.layers import DecoderLayer, EncoderLayer, FeedForward, Postnet, SelfAttention
from clock_attention.speech.model.length import LengthModel
from clock_attention.speech.voice.onnx_graph import OnnxGraph

FLOAT, DOUBLE, INT64 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64


class AcousticGraph(OnnxGraph):
    """ONNX graph of the Transformer's layers: `SpeechModel.synthesise` for parallel decoding, layer by layer."""

    def sinusoids(self, position: str, width: int) -> str:
        """The Transformer's position encoding.  (1 or B, L) → (1 or B, L, width)"""
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
        # In fp64 the cancellation error of this form is far below what the variance could amplify.
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
        # The edge before each step instead of after it: then a single step has an edge, too, with rate 0.
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
        """Frames predicted by the length model, rounded.  (B,), float"""
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
