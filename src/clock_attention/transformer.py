"""Clock attention inside existing Transformers: a decoder layer that passes the query mask, and a swap."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from clock_attention.module import ClockAttention


class ClockDecoderLayer(nn.TransformerDecoderLayer):
    """`nn.TransformerDecoderLayer` with clock cross-attention that is told which queries are padding.

    torch's own layer hands its cross-attention no query mask, so padded frames would enter the time norm and the
    clock's total; here `tgt_key_padding_mask` reaches both attentions. Takes `clock_options` for `ClockAttention`
    and otherwise the arguments of `nn.TransformerDecoderLayer` by keyword.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        *,
        batch_first: bool = True,
        clock_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(d_model, nhead, batch_first=batch_first, **kwargs)
        self.multihead_attn = ClockAttention(  # type: ignore[assignment]
            d_model,
            nhead,
            batch_first=batch_first,
            device=self.linear1.weight.device,
            dtype=self.linear1.weight.dtype,
            **(clock_options or {}),
        )

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Arguments of `nn.TransformerDecoderLayer.forward`; `tgt_key_padding_mask` must be bool."""

        def self_attend(x: Tensor) -> Tensor:
            return self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal)

        def meet(x: Tensor) -> Tensor:
            output, _ = self.multihead_attn(
                x,
                memory,
                memory,
                key_padding_mask=memory_key_padding_mask,
                attn_mask=memory_mask,
                is_causal=memory_is_causal,
                need_weights=False,
                query_padding_mask=tgt_key_padding_mask,
            )
            return self.dropout2(output)

        x = tgt
        if self.norm_first:
            x = x + self_attend(self.norm1(x))
            x = x + meet(self.norm2(x))
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self_attend(x))
        x = self.norm2(x + meet(x))
        return self.norm3(x + self._ff_block(x))

    @classmethod
    def from_layer(cls, layer: nn.TransformerDecoderLayer, attention: ClockAttention) -> ClockDecoderLayer:
        """A layer that shares every module of `layer` except its cross-attention."""
        new = cls.__new__(cls)
        nn.Module.__init__(new)
        new.__dict__.update({k: v for k, v in layer.__dict__.items() if not k.startswith("_")})
        new._modules.update({**layer._modules, "multihead_attn": attention})
        return new


def swap_cross_attention(model: nn.Module, *, copy_weights: bool = False, **options: Any) -> int:
    """Replace, in place, the cross-attention of every decoder layer in `model` by clock attention.

    Handles `nn.TransformerDecoderLayer` (so `nn.TransformerDecoder` and `nn.Transformer`), and Hugging Face decoder
    layers with BART's cross-attention: an `encoder_attn` with q_proj, k_proj, v_proj and out_proj (BART, mBART,
    Marian, Pegasus, Whisper, SpeechT5). Their decoders do not tell the cross-attention which targets are padding and
    feed it one step at a time from a cache when generating, so use `clocks="causal"` there (padding at the end cannot
    reach earlier steps) and generate with `use_cache=False`; `output_attentions` does not record it. T5's
    relative-position attention cannot be swapped.

    Args:
        model: any module; its decoder layers are found wherever they are.
        copy_weights: take over the projections of the replaced attention (and keep its output projection).
        options: keyword arguments of `ClockAttention`.

    Returns:
        The number of replaced attentions, at least one.
    """
    replaced = 0
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.TransformerDecoderLayer) and not isinstance(child, ClockDecoderLayer):
                attention = clock_attention_like(child.multihead_attn, copy_weights, options)
                setattr(parent, name, ClockDecoderLayer.from_layer(child, attention))
                replaced += 1
            elif name == "encoder_attn" and is_bart_attention(child):
                setattr(parent, name, HuggingFaceClockAttention(child, copy_weights, options))
                replaced += 1
    if isinstance(model, nn.TransformerDecoderLayer):
        raise ValueError(
            "swap_cross_attention: got a layer, which cannot be exchanged in place; give the model that holds it, or "
            "use ClockDecoderLayer"
        )
    if not replaced and any(isinstance(one, ClockAttention) for one in model.modules()):
        raise ValueError(f"swap_cross_attention: {type(model).__name__} has ClockAttention already, and nothing else")
    if not replaced:
        raise ValueError(
            f"swap_cross_attention: found no cross-attention in {type(model).__name__} that it can replace; it knows "
            "nn.TransformerDecoderLayer and Hugging Face decoder layers whose `encoder_attn` has q_proj, k_proj, "
            "v_proj and out_proj"
        )
    return replaced


def clock_attention_like(old: nn.MultiheadAttention, copy_weights: bool, options: dict[str, Any]) -> ClockAttention:
    """ClockAttention with the sizes, layout, device and dtype of an `nn.MultiheadAttention`."""
    if isinstance(old, ClockAttention):
        raise ValueError("swap_cross_attention: this layer's cross-attention already is ClockAttention")
    weight = old.out_proj.weight
    new = ClockAttention(
        old.embed_dim,
        old.num_heads,
        **{
            "out_proj": copy_weights,
            "bias": old.in_proj_bias is not None,
            "kdim": old.kdim,
            "vdim": old.vdim,
            "batch_first": old.batch_first,
            "device": weight.device,
            "dtype": weight.dtype,
            **options,
        },
    )
    if copy_weights:
        if old.in_proj_weight is not None:
            query, key, value = old.in_proj_weight.chunk(3)
        else:
            query, key, value = old.q_proj_weight, old.k_proj_weight, old.v_proj_weight
        biases = (None,) * 3 if old.in_proj_bias is None else old.in_proj_bias.chunk(3)
        copy_projections(new, (query, key, value), biases, old.out_proj)
    return new.train(old.training)


@torch.no_grad()
def copy_projections(
    new: ClockAttention,
    weights: tuple[Tensor, ...],
    biases: tuple[Tensor | None, ...],
    out_proj: nn.Linear,
) -> None:
    for projection, weight, bias in zip((new.q_proj, new.k_proj, new.v_proj), weights, biases, strict=True):
        projection.weight.copy_(weight)
        if projection.bias is not None:
            if bias is None:
                projection.bias.zero_()
            else:
                projection.bias.copy_(bias)
    if isinstance(new.out_proj, nn.Linear):
        new.out_proj.weight.copy_(out_proj.weight)
        if new.out_proj.bias is not None and out_proj.bias is not None:
            new.out_proj.bias.copy_(out_proj.bias)


def is_bart_attention(module: nn.Module) -> bool:
    projections = ("q_proj", "k_proj", "v_proj", "out_proj")
    return hasattr(module, "num_heads") and all(isinstance(getattr(module, p, None), nn.Linear) for p in projections)


class HuggingFaceClockAttention(nn.Module):
    """Clock attention behind the call of Hugging Face's BART-style cross-attention."""

    def __init__(self, old: Any, copy_weights: bool, options: dict[str, Any]) -> None:
        super().__init__()
        weight = old.q_proj.weight
        self.attention = ClockAttention(
            weight.shape[0],
            old.num_heads,
            **{"out_proj": True, "kdim": old.k_proj.weight.shape[1], "vdim": old.v_proj.weight.shape[1]}
            | {"device": weight.device, "dtype": weight.dtype}
            | options,
        )
        if copy_weights:
            projections = (old.q_proj, old.k_proj, old.v_proj)
            copy_projections(
                self.attention, tuple(p.weight for p in projections), tuple(p.bias for p in projections), old.out_proj
            )
        self.train(old.training)

    def forward(
        self,
        hidden_states: Tensor,
        key_value_states: Tensor | None = None,
        past_key_values: Any = None,
        attention_mask: Tensor | None = None,
        output_attentions: bool | None = False,
        **_: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """hidden_states (B, S, E) meet key_value_states (B, T, E); additive or boolean attention_mask (B, 1, S, T)."""
        if key_value_states is None:
            raise ValueError("key_value_states: got None; clock attention replaces cross-attention only")
        if past_key_values is not None and past_key_values.get_seq_length() > hidden_states.shape[1]:
            raise ValueError(
                "past_key_values: got a cache; Hugging Face's cache carries no clock, so call the model with "
                "use_cache=False (with clocks='causal' that gives exactly the same result, only slower)"
            )
        padding = None
        if attention_mask is not None:
            # One row is enough: a cross-attention mask hides padded source tokens from every target step alike.
            row = attention_mask[:, 0, 0, :]
            padding = ~row if row.dtype == torch.bool else row < torch.finfo(row.dtype).min / 2
        output, weights = self.attention(
            hidden_states,
            key_value_states,
            key_value_states,
            key_padding_mask=padding,
            need_weights=bool(output_attentions),
            average_attn_weights=False,
        )
        return output, weights
