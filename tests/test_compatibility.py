"""Weights of `nn.MultiheadAttention` and sharded parameters."""

import pytest
import torch
from torch import nn

from clock_attention import ClockAttention


@pytest.mark.parametrize("kdim", [None, 7])
@pytest.mark.parametrize("clocks", ["normalized", "causal"])
def test_state_dicts_of_multihead_attention_load(clocks, kdim):
    old = nn.MultiheadAttention(12, 3, kdim=kdim, vdim=kdim, batch_first=True)
    nn.init.normal_(old.in_proj_bias)
    new = nn.ModuleDict({"cross": ClockAttention(12, 3, clocks=clocks, kdim=kdim, vdim=kdim, out_proj=True)})
    new.load_state_dict({f"cross.{name}": tensor for name, tensor in old.state_dict().items()})
    attention = new["cross"]
    weights = old.in_proj_weight.chunk(3) if kdim is None else (old.q_proj_weight, old.k_proj_weight, old.v_proj_weight)
    for projection, weight, bias in zip(
        (attention.q_proj, attention.k_proj, attention.v_proj), weights, old.in_proj_bias.chunk(3), strict=True
    ):
        assert torch.equal(projection.weight, weight)
        assert torch.equal(projection.bias, bias)
    assert torch.equal(attention.out_proj.weight, old.out_proj.weight)
    assert (attention.logit_scale == 1).all()
    with pytest.raises(RuntimeError, match="size mismatch"):
        ClockAttention(24, 3, out_proj=True).load_state_dict(old.state_dict())


@pytest.mark.slow
def test_decoding_starts_under_fsdp2(tmp_path):
    """FSDP2 gathers parameters for `forward` only, unless told of other methods."""
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_gloo_available():
        pytest.skip("torch was built without gloo")
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        attention = ClockAttention(12, 3, clocks="causal", pace=2.0, content_dim=4)
        query, memory = torch.randn(2, 12), torch.randn(2, 5, 12)
        state = attention.start(memory)
        expected = attention.step(query, state)[0]
        fully_shard(attention, mesh=init_device_mesh("cpu", (1,)))
        with torch.no_grad():
            found = attention.step(query, attention.start(memory))[0]
        torch.testing.assert_close(found, expected)
    finally:
        dist.destroy_process_group()
