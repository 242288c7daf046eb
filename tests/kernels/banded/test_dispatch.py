"""Which calls the banded kernel serves, and in which precision."""

import pytest
import torch

from clock_attention import clock_attention

from ..attention_cases import features

BANDED = {"impl": "banded"}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_is_computed_in_fp32(dtype):
    inputs = features((1, 2, 66, 20, 16, 16), 9, dtype)
    output, _ = clock_attention(*inputs, **BANDED)
    exact, _ = clock_attention(*(x.float() for x in inputs), **BANDED)
    assert output.dtype == dtype
    assert torch.equal(output, exact.to(dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under_autocast, _ = clock_attention(*(x.float() for x in inputs), variance="exact", **BANDED)
    assert under_autocast.dtype == torch.float32
    torch.testing.assert_close(
        under_autocast, clock_attention(*(x.float() for x in inputs), variance="exact", impl="portable")[0]
    )


def test_weights_are_built_on_request_only():
    inputs = features((1, 1, 30, 20, 8, 8), 10, torch.float32)
    output, none = clock_attention(*inputs, return_weights=False, **BANDED)
    same, weights = clock_attention(*inputs, return_weights=True, **BANDED)
    assert none is None
    assert torch.equal(output, same)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 30))
    torch.testing.assert_close(weights @ inputs[2], output)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"attn_mask": torch.zeros(6, 5, dtype=torch.bool)}, "attn_mask is given"),
        ({"content": torch.zeros(2, 1, 6, 5)}, "content is given as scores"),
        ({"return_logits": True}, "logits are wanted"),
        ({"vmap": True}, "torch.func transform"),
    ],
)
def test_what_it_cannot_serve_raises_by_name_and_falls_back_under_auto(change, reason):
    query, key, value = features((2, 1, 6, 5, 4, 4), 12, torch.float32)

    def call(query: torch.Tensor, impl: str) -> torch.Tensor:
        if "vmap" in change:
            return torch.func.vmap(lambda q: clock_attention(q[None], key[:1], value[:1], impl=impl)[0])(query)
        return clock_attention(query, key, value, **change, impl=impl)[0]

    with pytest.raises(ValueError, match=reason):
        call(query, "banded")
    torch.testing.assert_close(call(query, "auto"), call(query, "portable"))


def test_other_devices_are_refused():
    query, key, value = (x.to("meta") for x in features((2, 1, 6, 5, 4, 4), 12, torch.float32))
    with pytest.raises(ValueError, match="runs on the CPU only"):
        clock_attention(query, key, value, impl="banded")
