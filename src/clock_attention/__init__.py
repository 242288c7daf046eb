"""Stochastic clock attention: attend where the clocks of two ordered sequences are likely to meet."""

from clock_attention.attention import clock_attention
from clock_attention.module import ClockAttention
from clock_attention.streaming import ClockState, decoding_over
from clock_attention.transformer import ClockDecoderLayer, swap_cross_attention

__all__ = [
    "ClockAttention",
    "ClockDecoderLayer",
    "ClockState",
    "clock_attention",
    "decoding_over",
    "swap_cross_attention",
]
