"""bfloat16 where the device multiplies fast in it."""

from __future__ import annotations

import torch
from torch import Tensor


def bfloat16_where_fast(like: Tensor) -> torch.autocast:
    """Autocast to bfloat16 on devices that multiply in it; elsewhere a CPU emulates it, which is slow."""
    kind = like.device.type
    fast = torch.cuda.is_bf16_supported() if kind == "cuda" else bool(torch.cpu.get_capabilities().get("avx512_bf16"))
    return torch.autocast(kind, torch.bfloat16, enabled=fast)
