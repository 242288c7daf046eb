"""Clocks in Hugging Face's generation cache: a cache layer that also stores how far the target clock has run.

The cross-attention's entry of an `EncoderDecoderCache` holds projected keys and values. A causal clock also needs the
elapsed time, the last feature and the number of steps (`ClockState`). Kept in the same layer, they follow beam search
and every other reordering of the batch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer, EncoderDecoderCache

from clock_attention.streaming import ClockState


class ClockCacheLayer(DynamicLayer):
    """Keys and values of one cross-attention, and the clock of its target.

    The queries of the first pass are kept unchanged (`seen`) and only converted to a clock state if another step
    follows. In training, where a cache is created but never used, this costs nothing.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seen: Tensor | None = None  # projected queries of the first pass (B, H, S, D)
        self.state: ClockState | None = None
        self.steps = 0

    def pick(self, items: Tensor) -> None:
        """Select these batch items for the clock, in this order; items may repeat."""
        if self.seen is not None:
            self.seen = self.seen[items.to(self.seen.device)]
        if self.state is not None:
            self.state = self.state.index(items)

    def reset(self) -> None:
        super().reset()
        self.seen, self.state, self.steps = None, None, 0

    def reorder_cache(self, beam_idx: Tensor) -> None:
        super().reorder_cache(beam_idx)  # type: ignore[arg-type]
        self.pick(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        batch = 0 if self.keys is None else self.keys.shape[0]
        super().batch_repeat_interleave(repeats)
        self.pick(torch.arange(batch).repeat_interleave(repeats))

    def batch_select_indices(self, indices: Tensor) -> None:
        super().batch_select_indices(indices)
        self.pick(torch.as_tensor(indices))


def clock_layer(cache: Any, layer: int | None, new_steps: int) -> ClockCacheLayer:
    """The layer of this cache that holds clocks, created before the first step.

    Args:
        cache: the value that the model passes to its cross-attention as `past_key_values`.
        layer: the cross-attention's `layer_idx`.
        new_steps: target steps in this call, already in the self-attention's cache.
    """
    if not isinstance(cache, EncoderDecoderCache) or layer is None:
        raise ValueError(
            f"past_key_values: got {type(cache).__name__} for cross-attention layer {layer}; clock attention keeps its "
            "clocks in an EncoderDecoderCache, by layer. Pass one, or use_cache=False"
        )
    layers = cache.cross_attention_cache.layers
    while len(layers) <= layer:
        layers.append(ClockCacheLayer())
    if not cache.is_updated.get(layer):
        layers[layer] = ClockCacheLayer()
    found = layers[layer]
    if not isinstance(found, ClockCacheLayer):
        raise ValueError(
            "past_key_values: got a cache that was filled without clock attention, so the state of its clocks is "
            "unknown; start generation with an empty one"
        )
    expected = int(cache.get_seq_length(layer)) - new_steps
    if found.steps != expected:
        raise ValueError(
            f"past_key_values: got {expected} steps in the cache of the self-attention and {found.steps} taken by the "
            "clock; a clock cannot run backwards, so caches cannot be cropped: generate without an assistant model or "
            "prompt lookup"
        )
    return found
