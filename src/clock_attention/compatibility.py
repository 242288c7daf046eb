"""Compatibility of `ClockAttention` with other parts of torch: state dicts of `nn.MultiheadAttention`, and FSDP2."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from torch import nn

Method = TypeVar("Method", bound=Callable[..., Any])


def gathered(method: Method) -> Method:
    """Compatibility with FSDP2: make it gather parameters for a method, as it does for `forward`."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: nn.Module, *arguments: Any, **options: Any) -> Any:
        if name not in vars(self) and any(base.__name__ == "FSDPModule" for base in type(self).__mro__):
            from torch.distributed.fsdp import register_fsdp_forward_method

            register_fsdp_forward_method(self, name)
            return getattr(self, name)(*arguments, **options)
        return method(self, *arguments, **options)

    return cast(Method, call)


def take_multihead_weights(module: nn.Module, state_dict: dict[str, Any], prefix: str) -> None:
    """Rename the projections in a state dict of `nn.MultiheadAttention`, in place, for compatibility."""
    names = ("q_proj", "k_proj", "v_proj")
    joint, separate = prefix + "in_proj_weight", [f"{prefix}{name}_weight" for name in names]
    if joint in state_dict:
        weights = state_dict.pop(joint).chunk(3)
    elif all(name in state_dict for name in separate):
        weights = [state_dict.pop(name) for name in separate]
    else:
        return
    state_dict.update({f"{prefix}{name}.weight": weight for name, weight in zip(names, weights, strict=True)})
    if (bias := prefix + "in_proj_bias") in state_dict:
        parts = zip(names, state_dict.pop(bias).chunk(3), strict=True)
        state_dict.update({f"{prefix}{name}.bias": part for name, part in parts})
    for name, tensor in module.state_dict().items():
        # logit_scale, pace, content: not in the old one; without values in this one either, they are reported missing
        if not name.startswith((*names, "out_proj")) and not tensor.is_meta:
            state_dict.setdefault(prefix + name, tensor)
