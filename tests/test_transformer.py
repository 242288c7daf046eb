"""Clock attention inside Transformers that were written without it."""

import pytest
import torch
from torch import nn

from clock_attention import ClockAttention, ClockDecoderLayer, swap_cross_attention


@pytest.mark.parametrize("norm_first", [True, False])
def test_assigning_the_module_to_a_decoder_layer_works(norm_first):
    layer = nn.TransformerDecoderLayer(16, 4, 32, batch_first=True, norm_first=norm_first)
    layer.multihead_attn = ClockAttention(16, 4)
    target, memory = torch.randn(2, 7, 16), torch.randn(2, 5, 16)
    layer(target, memory, memory_key_padding_mask=torch.zeros(2, 5, dtype=torch.bool)).sum().backward()
    assert layer.multihead_attn.q_proj.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_decoder_with_nan_in_padding_equals_items_run_alone(norm_first, batch_first):
    decoder = nn.TransformerDecoder(
        ClockDecoderLayer(16, 4, dim_feedforward=32, batch_first=batch_first, norm_first=norm_first), 2
    ).eval()
    target, memory = torch.randn(2, 7, 16), torch.randn(2, 5, 16)
    target_padding = torch.arange(7) >= torch.tensor([[7], [3]])
    memory_padding = torch.arange(5) >= torch.tensor([[5], [2]])
    memory[1, 2:] = torch.nan
    flip = (lambda x: x) if batch_first else (lambda x: x.transpose(0, 1))
    together = flip(
        decoder(
            flip(target),
            flip(memory),
            tgt_key_padding_mask=target_padding,
            memory_key_padding_mask=memory_padding,
        )
    )
    alone = flip(decoder(flip(target[1:, :3]), flip(memory[1:, :2])))
    torch.testing.assert_close(together[1:, :3], alone)


def test_decoder_layer_is_torchs_own_but_for_the_cross_attention():
    """With the same cross-attention in both, our forward and torch's agree."""
    theirs = nn.TransformerDecoderLayer(16, 4, 32, batch_first=True, dropout=0.0)
    ours = ClockDecoderLayer.from_layer(theirs, ClockAttention(16, 4))
    theirs.multihead_attn = ours.multihead_attn
    target, memory = torch.randn(2, 7, 16), torch.randn(2, 5, 16)
    mask = nn.Transformer.generate_square_subsequent_mask(7)
    torch.testing.assert_close(ours(target, memory, mask), theirs(target, memory, mask))


@pytest.mark.parametrize("copy_weights", [True, False])
def test_swap_replaces_every_cross_attention_of_a_transformer(copy_weights):
    model = nn.Transformer(16, 4, 2, 3, 32, batch_first=True)
    old = model.decoder.layers[1].multihead_attn
    assert swap_cross_attention(model, copy_weights=copy_weights) == 3
    new = model.decoder.layers[1].multihead_attn
    assert isinstance(new, ClockAttention)
    assert torch.equal(new.k_proj.weight, old.in_proj_weight[16:32]) == copy_weights
    assert isinstance(new.out_proj, nn.Linear) == copy_weights
    source, target = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    model(source, target, tgt_key_padding_mask=torch.zeros(2, 7, dtype=torch.bool)).sum().backward()
    assert isinstance(model.encoder.layers[0].self_attn, nn.MultiheadAttention)


def test_swap_keeps_layout_dtype_and_mode():
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32, dtype=torch.float64), 1).eval()
    swap_cross_attention(decoder, copy_weights=True, clocks="causal", pace=3.0)
    attention = decoder.layers[0].multihead_attn
    assert not attention.batch_first
    assert not attention.training
    assert attention.q_proj.weight.dtype == torch.float64
    assert decoder(torch.randn(7, 2, 16).double(), torch.randn(5, 2, 16).double()).shape == (7, 2, 16)


def test_float_padding_masks_of_a_transformer_still_work_after_the_swap():
    torch.manual_seed(0)
    model = nn.Transformer(16, 2, 1, 1, 32, batch_first=True).eval()
    swap_cross_attention(model, copy_weights=True)
    source, target = torch.randn(2, 7, 16), torch.randn(2, 5, 16)
    padded = {"memory_key_padding_mask": torch.arange(7) >= torch.tensor([[7], [4]])}
    padded["tgt_key_padding_mask"] = torch.arange(5) >= torch.tensor([[5], [3]])
    additive = {name: torch.zeros(mask.shape).masked_fill(mask, -torch.inf) for name, mask in padded.items()}
    torch.testing.assert_close(model(source, target, **additive), model(source, target, **padded), equal_nan=True)


def test_swap_says_what_is_wrong_with_a_lone_layer_and_with_a_second_swap():
    with pytest.raises(ValueError, match=r"got a layer, .*give the model that holds it, or use ClockDecoderLayer"):
        swap_cross_attention(nn.TransformerDecoderLayer(16, 2))
    model = nn.Transformer(16, 2, 1, 1, 32)
    swap_cross_attention(model)
    with pytest.raises(ValueError, match="Transformer has ClockAttention already"):
        swap_cross_attention(model)


def test_swap_says_when_there_is_nothing_to_swap():
    with pytest.raises(ValueError, match="found no cross-attention in Linear"):
        swap_cross_attention(nn.Linear(2, 2))


@pytest.fixture(scope="module")
def bart():
    transformers = pytest.importorskip("transformers", reason="Hugging Face transformers is not installed")
    config = transformers.BartConfig(
        vocab_size=30, d_model=16, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=32,
        pad_token_id=1, decoder_start_token_id=2, dropout=0.0,
    )  # fmt: skip
    return transformers.BartForConditionalGeneration(config)


def test_hugging_face_model_trains_and_generates_with_causal_clocks(bart):
    assert swap_cross_attention(bart, copy_weights=True, clocks="causal", pace=1.0) == 2
    source = torch.randint(3, 30, (2, 8))
    mask = torch.tensor([[1] * 8, [1] * 5 + [0] * 3])
    labels = torch.randint(3, 30, (2, 6))
    bart.train()
    bart(input_ids=source, attention_mask=mask, labels=labels).loss.backward()
    attention = bart.model.decoder.layers[0].encoder_attn.attention
    assert attention.q_proj.weight.grad.abs().sum() > 0
    bart.eval()
    with torch.no_grad():
        logits = bart(input_ids=source, attention_mask=mask, decoder_input_ids=labels).logits
        alone = bart(input_ids=source[1:, :5], decoder_input_ids=labels[1:, :4]).logits
    torch.testing.assert_close(logits[1:, :4], alone, rtol=1e-4, atol=1e-4)
    generated = bart.generate(
        source, attention_mask=mask, max_new_tokens=6, use_cache=False, do_sample=False, num_beams=1
    )
    assert generated.shape[0] == 2
    with pytest.raises(ValueError, match="use_cache=False"):
        bart.generate(source, attention_mask=mask, max_new_tokens=6, min_new_tokens=5, do_sample=False, num_beams=1)
