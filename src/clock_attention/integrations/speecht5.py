"""SpeechT5's cross-attention with clocks: the only supported model without transformers' `AttentionInterface`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.speecht5.modeling_speecht5 import SpeechT5Attention

from clock_attention.integrations.clock_cache import clock_layer


def is_speecht5_attention(module: nn.Module) -> bool:
    """Whether a module is an attention of SpeechT5."""
    return isinstance(module, SpeechT5Attention)


class ClockSpeechT5Attention(SpeechT5Attention):
    """`SpeechT5Attention` as cross-attention with clocks; created by changing the class of an existing instance."""

    clocks: nn.Module

    def forward(  # type: ignore[override]  # the original also returns two values, despite its annotation
        self,
        hidden_states: Tensor,
        key_value_states: Tensor | None = None,
        past_key_values: Any = None,
        attention_mask: Tensor | None = None,
        position_bias: Tensor | None = None,
        output_attentions: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """hidden_states (B, S, E) attend to key_value_states (B, T, E)."""
        if key_value_states is None:
            raise ValueError("key_value_states: got None; clock attention replaces cross-attention only")

        def heads(x: Tensor) -> Tensor:
            return x.view(x.shape[0], -1, self.num_heads, self.head_dim).transpose(1, 2)

        layer = None
        if past_key_values is not None:
            layer = clock_layer(past_key_values, self.layer_idx, hidden_states.shape[1])
        if layer is not None and past_key_values.is_updated.get(self.layer_idx):
            key, value = layer.keys, layer.values
        else:
            key, value = heads(self.k_proj(key_value_states)), heads(self.v_proj(key_value_states))
            if layer is not None:
                key, value = past_key_values.cross_attention_cache.update(key, value, self.layer_idx)
                past_key_values.is_updated[self.layer_idx] = True
        padding = None
        if attention_mask is not None:
            row = attention_mask[:, 0, 0, :]
            padding = row < torch.finfo(row.dtype).min / 2
        output, weights = self.clocks(
            heads(self.q_proj(hidden_states) * self.scaling),
            key,
            value,
            padding,
            scaling=1.0,  # the queries are already scaled
            dropout=self.dropout if self.training else 0.0,
            need_weights=output_attentions,
            cache=layer,
        )
        return self.out_proj(output.transpose(1, 2).flatten(2)), weights
