"""bfloat16 autocast on devices with fast bfloat16 arithmetic."""

from __future__ import annotations

import torch
from torch import Tensor


def bfloat16_where_fast(like: Tensor) -> torch.autocast:
    """Autocast to bfloat16 on devices with native support; other CPUs emulate it, which is slow."""
    kind = like.device.type
    fast = torch.cuda.is_bf16_supported() if kind == "cuda" else bool(torch.cpu.get_capabilities().get("avx512_bf16"))
    return torch.autocast(kind, torch.bfloat16, enabled=fast)
