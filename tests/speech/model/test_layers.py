"""Layers: torch's own with the paper's options."""

import math

import torch
from torch import nn

from clock_attention.speech.model.config import ModelConfig
from clock_attention.speech.model.layers import EncoderLayer, rotate, sinusoids
from tests.speech.model.tiny_models import SMALL


def test_an_encoder_layer_with_the_paper_s_options_is_torch_s():
    ours = EncoderLayer(ModelConfig(**SMALL)).eval()
    theirs = nn.TransformerEncoderLayer(16, 2, 24, batch_first=True).eval()
    theirs.load_state_dict(
        {
            "self_attn.in_proj_weight": ours.self_attention.in_proj.weight,
            "self_attn.in_proj_bias": ours.self_attention.in_proj.bias,
            **{f"self_attn.out_proj.{k}": v for k, v in ours.self_attention.out_proj.state_dict().items()},
            **{f"linear1.{k}": v for k, v in ours.feed_forward.inner.state_dict().items()},
            **{f"linear2.{k}": v for k, v in ours.feed_forward.outer.state_dict().items()},
            **{f"norm{n}.{k}": v for n in (1, 2) for k, v in getattr(ours, f"norm{n}").state_dict().items()},
        }
    )
    x = torch.randn(3, 6, 16)
    padding = torch.arange(6) >= torch.tensor([6, 4, 1])[:, None]
    expected = theirs(x, src_key_padding_mask=padding)
    torch.testing.assert_close(ours(x, padding)[~padding], expected[~padding], atol=1e-5, rtol=1e-5)


def test_sinusoids_are_the_transformer_s_and_rotation_keeps_relative_positions_only():
    code = sinusoids(torch.tensor([3.0]), 8)[0, :4]
    torch.testing.assert_close(
        code.tolist(), [math.sin(3.0), math.cos(3.0), math.sin(0.3), math.cos(0.3)], atol=1e-5, rtol=1e-5
    )
    query, key = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)
    near, far = ((rotate(query, s + 5) * rotate(key, s)).sum() for s in (0, 1000))
    torch.testing.assert_close(near, far, atol=1e-3, rtol=1e-3)
