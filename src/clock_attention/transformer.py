"""Clock attention inside torch's own Transformers: a decoder layer that passes the query mask, and a swap."""

from __future__ import annotations

import warnings
from copy import copy
from typing import Any

import torch
from torch import Tensor, nn

from clock_attention.module import ClockAttention
from clock_attention.options import checkable


class ClockDecoderLayer(nn.TransformerDecoderLayer):
    """`nn.TransformerDecoderLayer` with clock cross-attention that receives the padding mask of the queries.

    torch's own layer passes no query mask to its cross-attention, so padded frames would enter the time norm and the
    clock's total; here `tgt_key_padding_mask` reaches both attentions. Takes `clock_options` for `ClockAttention`
    and otherwise the arguments of `nn.TransformerDecoderLayer` by keyword.

    A causal `tgt_mask` is refused unless the clocks are causal too: normalized clocks read the whole target, so the
    mask would hide the future from the self-attention only.
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
        """Arguments of `nn.TransformerDecoderLayer.forward`."""
        self.check_causality(tgt_mask, tgt_is_causal)

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

    def check_causality(self, tgt_mask: Tensor | None, tgt_is_causal: bool) -> None:
        """Reject a target that is decoded step by step with clocks that read all of it."""
        clocks = self.multihead_attn.clocks
        if clocks == "causal" or not (tgt_is_causal or hides_future(tgt_mask)):
            return
        advice = (
            f"clocks={clocks!r} under a causal tgt_mask: every step would see the whole target through its clock. Use "
            "clocks='causal' for autoregressive decoding, or no causal mask for parallel decoding"
        )
        if clocks == "normalized":
            raise ValueError(advice)
        warnings.warn(f"{advice}; 'unnormalized' is the paper's printed variant, for comparison", stacklevel=3)

    @classmethod
    def from_layer(cls, layer: nn.TransformerDecoderLayer, attention: ClockAttention) -> ClockDecoderLayer:
        """A layer that shares every module and hook of `layer` except its cross-attention."""
        new = cls.__new__(cls)
        # The dictionaries of modules and hooks are copied: the new layer must not change the old one. A compiled call
        # is left out, as it would still run the old one.
        state = {k: v for k, v in vars(layer).items() if k != "_compiled_call_impl"}
        new.__dict__.update({k: copy(v) if isinstance(v, dict | set) else v for k, v in state.items()})
        new._modules["multihead_attn"] = attention
        return new


def hides_future(mask: Tensor | None) -> bool:
    """Whether a Transformer's mask hides the future: the first target step may not see the last. Checked if cheap."""
    if mask is None or not checkable(mask) or mask.shape[-1] < 2:
        return False
    corner = mask[..., 0, -1].flatten()[0]
    return bool(corner) if mask.dtype == torch.bool else bool(corner == -torch.inf)


def swap_cross_attention(model: nn.Module, *, copy_weights: bool = False, **options: Any) -> int:
    """Replace, in place, the cross-attention of every `nn.TransformerDecoderLayer` in `model` by clock attention.

    That covers `nn.TransformerDecoder` and `nn.Transformer`. For Hugging Face models there is
    `clock_attention.integrations.transformers.use_clock_attention`. Nothing is replaced unless everything can be.

    Args:
        model: any module; its decoder layers are found wherever they are.
        copy_weights: copy the projections of the replaced attention (and keep its output projection).
        options: keyword arguments of `ClockAttention`. A decoder with a causal mask needs `clocks="causal"`.

    Returns:
        The number of replaced attentions, at least one. A layer that the model uses at several places counts once.
    """
    if isinstance(model, nn.TransformerDecoderLayer):
        raise ValueError(
            "swap_cross_attention: got a layer, which cannot be exchanged in place; give the model that holds it, or "
            "use ClockDecoderLayer"
        )
    found = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent._modules.items()  # named_children() skips a layer that is repeated
        if isinstance(child, nn.TransformerDecoderLayer) and not isinstance(child, ClockDecoderLayer)
    ]
    if not found:
        raise ValueError(f"swap_cross_attention: {why_nothing(model)}")
    for _, name, child in found:
        if own := sorted({"forward", "_sa_block", "_mha_block", "_ff_block"} & set(overridden(child))):
            raise ValueError(
                f"swap_cross_attention: layer {name!r} is a {type(child).__name__} with its own {', '.join(own)}, "
                "which would be lost; replace its multihead_attn by ClockAttention and pass query_padding_mask there"
            )
    layers = dict.fromkeys(child for _, _, child in found)  # each once, in order
    attentions = {layer: clock_attention_like(layer.multihead_attn, copy_weights, options) for layer in layers}
    swapped = {layer: ClockDecoderLayer.from_layer(layer, attention) for layer, attention in attentions.items()}
    for parent, name, child in found:
        setattr(parent, name, swapped[child])
    return len(swapped)


def overridden(layer: nn.TransformerDecoderLayer) -> list[str]:
    """Methods of torch's Transformer decoder layer that a subclass overrides, or an attribute of the layer itself."""
    old, own = nn.TransformerDecoderLayer, type(layer)
    return [name for name in vars(old) if getattr(own, name) is not getattr(old, name) or name in vars(layer)]


def why_nothing(model: nn.Module) -> str:
    """Error text for a model without a single `nn.TransformerDecoderLayer` to swap."""
    kind = type(model).__name__
    if any(isinstance(module, ClockAttention) for module in model.modules()):
        return f"{kind} has ClockAttention already, and no other cross-attention to replace"
    if any(base.__module__.startswith("transformers.") for base in type(model).__mro__):
        return (
            f"{kind} is a Hugging Face model; use clock_attention.integrations.transformers.use_clock_attention(model)"
            ", which also generates with the cache and is saved with the model"
        )
    foreign = {
        f"{name} ({type(child).__name__})"
        for module in model.modules()
        for name, child in module.named_children()
        if name in ("encoder_attn", "cross_attn", "crossattention")
    }
    hint = f"; replace {', '.join(sorted(foreign))} by hand, where you know how it is called" if foreign else ""
    return f"found no cross-attention in {kind} that it can replace: it knows only nn.TransformerDecoderLayer{hint}"


def clock_attention_like(old: nn.MultiheadAttention, copy_weights: bool, options: dict[str, Any]) -> ClockAttention:
    """ClockAttention with the sizes, device and dtype of an `nn.MultiheadAttention`, to swap in a Transformer."""
    if not isinstance(old, nn.MultiheadAttention):
        raise ValueError(
            f"swap_cross_attention: a layer's multihead_attn is {type(old).__name__}, expected nn.MultiheadAttention"
        )
    width = options.get("clock_width")
    if copy_weights and width not in (None, old.head_dim):
        raise ValueError(
            f"copy_weights=True with clock_width={width}: the replaced attention projects to {old.head_dim} channels "
            "per head, which do not fit; leave out one of the two"
        )
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
    """Copy the projections of torch's attention when swapping in clock attention."""
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
