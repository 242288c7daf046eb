"""The interface of the attention kernels: what an implementation is given, and what it returns.

Every module in this package that implements the attention has the same two functions:

    refusal(inputs, options, wanted) -> str | None    why this call cannot be served, or None
    attend(inputs, options, wanted) -> Attended       output, weights, logits and clocks; None if not wanted

`attention.py` checks arguments and picks one. `reference` is the specification: it imports torch alone and shares no
code with the others, which are tested against it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

if TYPE_CHECKING:
    from clock_attention.clocks import ClockPair

# Two feature tensors (B, H, S, C) and (B, H, T, C), whose inner products are the scores, or the scores (B, H, S, T).
Content = tuple[Tensor, Tensor] | Tensor
Function = TypeVar("Function", bound=Callable[..., Any])


def constant_when_compiled(function: Function) -> Function:
    """Mark a kernel's function constant for torch.compile, without loading the compiler, which takes seconds."""
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@dataclass(frozen=True)
class AttentionInputs:
    """The checked tensors that every kernel receives for one call; see `clock_attention.clock_attention`."""

    query: Tensor  # (B, H, S, D)
    key: Tensor  # (B, H, T, D)
    value: Tensor  # (B, H, T, Dv)
    logit_scale: Tensor  # (H, 1, 1) or (1, 1, 1), at least fp32
    query_valid: Tensor | None = None  # bool (B, S), True = valid; None: all
    key_valid: Tensor | None = None  # bool (B, T)
    attn_mask: Tensor | None = None  # broadcasts to (B, H, S, T): bool, True = forbidden, or additive
    pace: float | Tensor | None = None  # target steps per source token, number or (B,); causal clocks
    content: Content | None = None  # evidence added to the logits
    segments: tuple[Tensor, Tensor] | None = None  # int64 (B, S) and (B, T): the segment of every step
    target_range: tuple[Tensor, Tensor] | None = None  # where the target starts and ends: (B, H or 1) or (B, H, T)

    def valid_queries(self) -> Tensor:
        """The query mask, all True where none was given.  (B, S)"""
        return all_valid(self.query) if self.query_valid is None else self.query_valid

    def valid_keys(self) -> Tensor:
        """The key mask, all True where none was given.  (B, T)"""
        return all_valid(self.key) if self.key_valid is None else self.key_valid


def all_valid(x: Tensor) -> Tensor:
    """A padding mask for kernels in which every step is valid."""
    return torch.ones(x.shape[0], x.shape[2], dtype=torch.bool, device=x.device)


@dataclass(frozen=True)
class Wanted:
    """What a kernel returns besides the output; anything not wanted is not built where S × T can be avoided."""

    weights: bool = True
    logits: bool = False
    clocks: bool = False


# Output (B, H, S, Dv), weights (B, H, S, T), logits (B, H, S, T) with −inf where a key is not allowed, and clocks.
Attended = tuple[Tensor, Tensor | None, Tensor | None, "ClockPair | None"]
