"""Stochastic clock attention: attend where the clocks of two ordered sequences are likely to meet."""

from typing import TYPE_CHECKING

from clock_attention.lazy import attach
from clock_attention.moved import install_old_paths

if TYPE_CHECKING:
    from clock_attention.attention import clock_attention
    from clock_attention.module import ClockAttention
    from clock_attention.streaming import ClockState, decoding_over
    from clock_attention.transformer import ClockDecoderLayer, swap_cross_attention

__version__ = "0.2.0"

__all__ = [
    "ClockAttention",
    "ClockDecoderLayer",
    "ClockState",
    "clock_attention",
    "decoding_over",
    "swap_cross_attention",
]

# Imported on first use: importing torch takes seconds, and `clock-attention --help` need not wait for it.
MODULES = {
    "ClockAttention": "module",
    "ClockDecoderLayer": "transformer",
    "ClockState": "streaming",
    "clock_attention": "attention",
    "decoding_over": "streaming",
    "swap_cross_attention": "transformer",
}


__getattr__ = attach(__name__, MODULES)
install_old_paths()


def __dir__() -> list[str]:
    """Names of the package, including those that are imported on first use."""
    return sorted({*globals(), *__all__})
