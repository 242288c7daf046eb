"""Stochastic clock attention: attend where the clocks of two ordered sequences are likely to meet."""

from clock_attention.attention import clock_attention

__all__ = ["clock_attention"]
