"""16 bits are used where the device multiplies in them, and nowhere else."""

from __future__ import annotations

import pytest
import torch

from clock_attention.speech.bfloat16 import bfloat16_where_fast


@pytest.mark.parametrize("fast", [True, False])
def test_products_are_in_16_bits_only_where_that_is_fast(fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": fast})
    x = torch.ones(2, 2)
    with bfloat16_where_fast(x):
        product = x @ x
    assert product.dtype == (torch.bfloat16 if fast else torch.float32)
