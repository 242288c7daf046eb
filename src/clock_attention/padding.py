"""Padding of a module's inputs: features and padding masks, checked and in one form."""

from __future__ import annotations

import torch
from torch import Tensor

from clock_attention.attention import valid_steps


def check_features(name: str, x: Tensor, dimensions: int, width: int) -> None:
    """Refuse features given to a module whose shape or type is wrong, before their padding is looked at."""
    if x.dim() != dimensions or x.shape[-1] != width:
        layout = f"(batch, steps, {width})" if dimensions == 3 else f"(steps, {width}), or (batch, steps, {width})"
        raise ValueError(f"{name}: got shape {tuple(x.shape)}, expected {layout}")
    if not x.is_floating_point():
        raise TypeError(f"{name}: got dtype {x.dtype}, expected a floating point type")


def blanked(name: str, x: Tensor, padding: Tensor | None) -> Tensor:
    """Padding blanked: zeros in (B, L), so that what stands there does not reach the projections' gradients."""
    if padding is None:
        return x
    return x.masked_fill(~steps_in(name, padding, x)[..., None], 0.0)


def steps_in(name: str, padding: Tensor | None, x: Tensor) -> Tensor:
    """The steps (B, L) of features (B, L, E) that are not padding."""
    if padding is None:
        return torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    return valid_steps(name, padding, (x.shape[0], x.shape[1]))


def padding_as_bool(name: str, mask: Tensor | None) -> Tensor | None:
    """A padding mask as bool; nn.MultiheadAttention also takes an additive float mask of 0 and −inf."""
    if mask is None or not mask.is_floating_point():
        return mask
    padded = mask == -torch.inf
    if bool((mask.masked_fill(padded, 0.0) != 0).any()):
        raise ValueError(
            f"{name}: got a float mask with values other than 0 and -inf, expected padding (bool, True = padding); "
            "pass weights on keys as attn_mask"
        )
    return padded
