"""Clock attention in Hugging Face encoder-decoder models: `use_clock_attention(model, pace=...)`.

The cross-attentions keep their class, their projections and the names of their parameters. Each gets a submodule
`clocks` (learned sharpness and pace, saved with the model) and is routed to the attention function "clock", registered
in transformers' `AttentionInterface`. Everything else, including self-attention, is unchanged.

Importing this module also enables `from_pretrained` to rebuild a saved clock model: its config stores the options.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.utils import output_capturing

from clock_attention.integrations.clock_cache import clock_layer
from clock_attention.integrations.cross_clocks import CrossClocks
from clock_attention.integrations.speecht5 import ClockSpeechT5Attention, is_speecht5_attention
from clock_attention.options import check_pace, checkable

NAME = "clock"
CROSS_ATTENTIONS = (
    "encoder_attn",
    "EncDecAttention",
    "crossattention",
    "cross_attn",
    "cross_attention",
    "encoder_decoder_attention",
)


def use_clock_attention(model: PreTrainedModel, **options: Any) -> PreTrainedModel:
    """Make every cross-attention of a Hugging Face model use causal clocks, in place; returns the model.

    Works for models whose cross-attention goes through transformers' `AttentionInterface` (BART, mBART, Marian,
    Pegasus, NLLB, Whisper, Moonshine, T5, Musicgen, BERT and others as decoders of an `EncoderDecoderModel`), and for
    SpeechT5. Others raise an error that says why. Training, `generate` with its cache, beam search,
    `output_attentions`, gradient checkpointing, `Trainer`, PEFT and `save_pretrained`/`from_pretrained` work as before;
    the model must then be trained, as its projections were learned for another attention. Pad the target only at its
    end: these decoders do not pass target padding to their cross-attention.

    Args:
        model: any `PreTrainedModel` with a decoder.
        options: options of `CrossClocks`: `pace` (target steps per source step, measured on the training data, default
            1), `logit_scale`, `content` (keep the model's own dot products as evidence, in addition to the clocks),
            `phi`, `variance`, `log_variance_term`, `causal_norm`, `eps`, `impl`. There is no `clocks`: these models
            predict each step from the previous ones, so only causal clocks do not leak future steps.
    """
    if not isinstance(model, PreTrainedModel):
        raise TypeError(
            f"model: got {type(model).__name__}, expected a Hugging Face PreTrainedModel; for torch.nn decoders there "
            "is clock_attention.swap_cross_attention, and a PEFT model is made from one that has clocks already"
        )
    if "clocks" in options:
        raise ValueError(
            f"clocks: got {options['clocks']!r}; a decoder that generates step by step must not see later steps, so "
            "use_clock_attention always takes causal clocks and no such option"
        )
    if any(isinstance(module, CrossClocks) for module in model.modules()):
        raise ValueError(
            f"use_clock_attention: {type(model).__name__} has clocks already, and new ones would lose what they have "
            "learned; change their pace with set_pace, and other options in config.clock_attention before loading"
        )
    attentions = dict(cross_attentions(model))
    if not attentions:
        raise ValueError(
            f"use_clock_attention: found no cross-attention in {type(model).__name__}; it looks for decoder layers "
            f"with one of {', '.join(CROSS_ATTENTIONS)}. Clocks align two sequences, and a decoder alone has only one"
        )
    for name, module in attentions.items():
        if (reason := why_not(module)) is not None:
            raise ValueError(f"use_clock_attention: cannot put clocks into {name} ({type(module).__name__}): {reason}")
    # Numbers of NumPy and torch as Python's: the config is saved as JSON.
    options = {name: x.item() if hasattr(x, "item") and math.prod(x.shape) == 1 else x for name, x in options.items()}
    install_clocks(model, options)
    model.config.clock_attention = options
    return model


def set_pace(model: nn.Module, pace: float) -> None:
    """Set the target steps per source step of every cross-attention with clocks; smaller reads the source faster."""
    check_pace(pace, 1)
    found = [module for module in model.modules() if isinstance(module, CrossClocks)]
    if not found:
        raise ValueError(f"set_pace: {type(model).__name__} has no clocks; call use_clock_attention first")
    for module in found:
        module.pace.fill_(float(pace))


def install_clocks(model: PreTrainedModel, options: dict[str, Any]) -> None:
    """Put clocks into every cross-attention of a Hugging Face model."""
    for _, module in cross_attentions(model):
        module.clocks = CrossClocks(head_count(module), device=next(module.parameters()).device, **options)
        if is_speecht5_attention(module):
            module.__class__ = ClockSpeechT5Attention
        elif not isinstance(module.config, CrossAttentionConfig):
            module.config = CrossAttentionConfig(module.config)  # type: ignore[assignment]
            module.register_forward_pre_hook(hand_over_cache, with_kwargs=True)


def cross_attentions(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every cross-attention module that itself contains projections and attention, with its name in the model."""
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in CROSS_ATTENTIONS:
            inner = getattr(module, "self", None)  # BERT wraps it together with its output layer
            yield (f"{name}.self", inner) if isinstance(inner, nn.Module) else (name, module)


def why_not(module: nn.Module) -> str | None:
    """Why this Hugging Face attention cannot take clocks, or None."""
    if is_speecht5_attention(module):
        return None
    if not hasattr(sys.modules[type(module).__module__], "ALL_ATTENTION_FUNCTIONS"):
        return "it computes its attention by itself instead of through transformers' AttentionInterface"
    parameters = inspect.signature(type(module).forward).parameters
    if all(parameter.kind != parameter.VAR_KEYWORD for parameter in parameters.values()):
        return "its forward takes no additional keyword arguments, which are needed to pass on the clocks in the cache"
    if "past_key_values" not in parameters:
        return (
            "its forward takes no cache, so its queries are not consecutive steps of a target, and causal clocks need "
            "such an order"
        )
    if not hasattr(module, "config"):
        return "it has no config in which to set the attention function"
    return None


def head_count(module: Any) -> int:
    """Number of heads of a Hugging Face attention, under any of the attribute names in use."""
    config = getattr(module, "config", None)
    own = [getattr(module, name, None) for name in ("num_heads", "n_heads", "num_attention_heads")]
    shared = [getattr(config, name, None) for name in ("num_key_value_heads", "num_attention_heads")]
    for count in own + shared:
        if isinstance(count, int):
            return count
    raise ValueError(f"use_clock_attention: cannot tell how many heads {type(module).__name__} has")


class CrossAttentionConfig:
    """A model's config as seen by its cross-attention: identical except for the attention function."""

    _attn_implementation = NAME

    def __init__(self, config: Any) -> None:
        self.config = config

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "config":  # during copying and unpickling there is no config yet
            raise AttributeError(name)
        return getattr(self.config, name)


def hand_over_cache(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Forward pre-hook of a cross-attention: passes on the clocks in the cache, hidden from the attention function."""
    given = inspect.signature(type(module).forward).bind_partial(module, *args, **kwargs).arguments
    cache = given.get("past_key_values")
    if cache is None:
        return args, kwargs
    layer = clock_layer(cache, getattr(module, "layer_idx", None), given["hidden_states"].shape[1])
    return args, {**kwargs, "clock_cache": layer}


def attend_by_clocks(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    output_attentions: bool | None = None,
    clock_cache: Any = None,
    **_: Any,
) -> tuple[Tensor, Tensor | None]:
    """The attention function "clock": (B, H, S, D) and (B, H, T, D) to (B, S, H, Dv), and weights if requested."""
    clocks = getattr(module, "clocks", None)
    if clocks is None:
        raise ValueError(
            f"attn_implementation: got 'clock' for {type(module).__name__}, which has no clocks. Load the model as "
            "usual and call use_clock_attention(model): it changes the cross-attention only"
        )
    if key.shape[1] != query.shape[1]:  # grouped-query attention: several queries share a key head
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    unused = getattr(module, "head_dim_padding", 0)  # Moonshine pads its heads with zeros, which would all tick alike
    if unused:
        query, key, value = query[..., :-unused], key[..., :-unused], value[..., :-unused]
    output, weights = clocks(
        query,
        key,
        value,
        padding_of(attention_mask),
        scaling=query.shape[-1] ** -0.5 if scaling is None else scaling,
        dropout=dropout,
        need_weights=bool(output_attentions) or recording(module.config),
        cache=clock_cache,
    )
    return F.pad(output, (0, unused)).transpose(1, 2).contiguous(), weights


def recording(config: Any) -> bool:
    """Whether a Hugging Face model collects attentions in this call; some models do not tell their layers."""
    collected = output_capturing._active_collector.get()
    return (
        "cross_attentions" in collected if collected is not None else bool(getattr(config, "output_attentions", False))
    )


def padding_of(attention_mask: Any) -> Tensor | None:
    """Padded source steps, bool (B, T), True = padding, from the mask that a Hugging Face model passes."""
    if attention_mask is None:
        return None
    if not isinstance(attention_mask, Tensor):
        raise TypeError(
            f"attention_mask: got {type(attention_mask).__name__}, expected a tensor; use attn_implementation='sdpa' "
            "or 'eager' for the rest of the model"
        )
    # One row is enough: a cross-attention mask hides the same padded source steps from every target step.
    row = attention_mask if attention_mask.dim() == 2 else attention_mask[:, 0, 0, :]
    padded = row < torch.finfo(row.dtype).min / 2 if row.is_floating_point() else ~row.bool()
    if checkable(attention_mask):
        if attention_mask.dim() == 4 and bool((attention_mask != attention_mask[:, :1, :1]).any()):
            raise ValueError(
                "attention_mask: got one that differs between target steps or heads, expected the padding of the "
                "source; a clock runs through the whole source"
            )
        if row.is_floating_point() and bool((row.masked_fill(padded, 0.0) != 0).any()):
            raise ValueError(
                f"attention_mask: got values other than 0 and {torch.finfo(row.dtype).min}, expected only these, for "
                "valid and padded source steps; pass a bool mask (True = valid)"
            )
    return padded


AttentionInterface.register(NAME, attend_by_clocks)


def with_saved_clocks(post_init: Callable[[PreTrainedModel], None]) -> Callable[[PreTrainedModel], None]:
    """Wrap `post_init` of Hugging Face models, which runs before weights are loaded: it restores saved clocks."""

    @functools.wraps(post_init)
    def post_init_with_clocks(self: PreTrainedModel) -> None:
        if isinstance(options := getattr(self.config, "clock_attention", None), dict):
            install_clocks(self, options)
        post_init(self)

    return post_init_with_clocks


def with_new_clocks(initialize: Callable[..., None]) -> Callable[..., None]:
    """Wrap Hugging Face's weight initialization, which knows only the model's own modules: it also handles clocks."""

    @functools.wraps(initialize)
    def initialize_with_clocks(self: PreTrainedModel, module: nn.Module, *args: Any, **kwargs: Any) -> None:
        if isinstance(module, CrossClocks) and not getattr(module, "_is_hf_initialized", False):
            module.reset_parameters()
        initialize(self, module, *args, **kwargs)

    return initialize_with_clocks


for method, wrap in (("post_init", with_saved_clocks), ("_initialize_weights", with_new_clocks)):
    if not hasattr(original := getattr(PreTrainedModel, method), "__wrapped__"):
        setattr(PreTrainedModel, method, wrap(original))
