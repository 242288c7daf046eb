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


def test_parameters_without_any_value_are_reported_missing():
    """Assigned to a module on the meta device, the old weights leave nothing to multiply the clocks' score by."""
    old, new = nn.MultiheadAttention(12, 3), ClockAttention(12, 3, out_proj=True, device="meta")
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "logit_scale"'):
        new.load_state_dict(old.state_dict(), assign=True)
    new.load_state_dict({**old.state_dict(), "logit_scale": torch.ones(3)}, assign=True)
    assert not any(parameter.is_meta for parameter in new.parameters())


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


def test_deviations_from_multihead_attention_are_those_in_the_guide():
    """docs/guides/library.md lists them."""
    module, query, key = ClockAttention(16, 2), torch.randn(2, 5, 16), torch.randn(2, 4, 16)
    with pytest.raises(ValueError, match="float mask with values other than 0 and -inf"):
        module(query, key, key, key_padding_mask=torch.full((2, 4), -2.0))
    for empty in ((query[:, :0], key), (query, key[:, :0])):
        with pytest.raises(ValueError, match="expected at least one step"):
            module(*empty, empty[1])
    for option in ("add_bias_kv", "add_zero_attn"):
        with pytest.raises(TypeError, match=option):
            ClockAttention(16, 2, **{option: True})
    padded = torch.tensor([[False] * 4, [True] * 4])
    nobody = torch.zeros(2, 5, dtype=torch.bool)
    output, weights = module(query, key, key, padded, query_padding_mask=nobody)
    assert not output[1].any()
    assert not weights[1].any()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, weights = ClockAttention(16, 2, dropout=0.9).train()(query, key, key)
    assert (output.dtype, weights.dtype) == (torch.bfloat16, torch.float32)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 5))
