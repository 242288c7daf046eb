"""Padding of a module's inputs: checks features and padding masks, and brings them into one form."""

from __future__ import annotations

import torch
from torch import Tensor

from clock_attention.attention import valid_steps
from clock_attention.options import has_values


def check_features(name: str, x: Tensor, dimensions: int, width: int, *, batch_first: bool = True) -> None:
    """Reject input features of the wrong shape or type before their padding is handled."""
    if x.dim() != dimensions or x.shape[-1] != width:
        batched = f"(batch, steps, {width})" if batch_first else f"(steps, batch, {width})"
        layout = batched if dimensions == 3 else f"(steps, {width}), or {batched}"
        raise ValueError(f"{name}: got shape {tuple(x.shape)}, expected {layout}")
    if not x.is_floating_point():
        raise TypeError(f"{name}: got dtype {x.dtype}, expected a floating point type")


def blanked(name: str, x: Tensor, padding: Tensor | None) -> Tensor:
    """Set padded steps to zero, so that their contents do not reach the projections' gradients."""
    if padding is None:
        return x
    return x.masked_fill(~steps_in(name, padding, x)[..., None], 0.0)


def steps_in(name: str, padding: Tensor | None, x: Tensor) -> Tensor:
    """Mask (B, L) of the steps of features (B, L, E) that are not padding."""
    if padding is None:
        return torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    return valid_steps(name, padding, (x.shape[0], x.shape[1]))


def padding_as_bool(name: str, mask: Tensor | None) -> Tensor | None:
    """A padding mask as bool; nn.MultiheadAttention also takes an additive float mask of 0 and −inf."""
    if mask is None or not mask.is_floating_point():
        return mask
    padded = mask == -torch.inf
    if has_values(mask) and bool((mask.masked_fill(padded, 0.0) != 0).any()):
        raise ValueError(
            f"{name}: got a float mask with values other than 0 and -inf, expected padding (bool, True = padding); "
            "pass weights on keys as attn_mask"
        )
    return padded
