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


def test_decoder_layer_equals_torchs_except_for_the_cross_attention():
    """With the same cross-attention in both, our forward and torch's agree."""
    theirs = nn.TransformerDecoderLayer(16, 4, 32, batch_first=True, dropout=0.0)
    ours = ClockDecoderLayer.from_layer(theirs, ClockAttention(16, 4, clocks="causal"))
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


def test_a_layer_at_several_places_is_swapped_at_all_of_them_and_stays_one():
    layer = nn.TransformerDecoderLayer(16, 2, 32, batch_first=True)
    model = nn.ModuleDict({"deep": nn.TransformerDecoder(layer, 1), "tied": nn.ModuleList([layer])})
    model["deep"].layers = nn.ModuleList([layer] * 3)
    assert swap_cross_attention(model) == 1
    (found,) = {*model["deep"].layers, *model["tied"]}
    assert isinstance(found, ClockDecoderLayer)
    assert model["deep"](torch.randn(2, 5, 16), torch.randn(2, 7, 16)).shape == (2, 5, 16)


def test_hooks_of_a_layer_are_called_after_the_swap():
    decoder, called = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 2, 32), 1), []
    layer = decoder.layers[0]
    layer.register_forward_hook(lambda module, *_: called.append(type(module)))
    swap_cross_attention(decoder)
    decoder(torch.randn(5, 2, 16), torch.randn(7, 2, 16))
    assert called == [ClockDecoderLayer]
    decoder.layers[0].register_forward_pre_hook(lambda *_: called.append("new"))
    assert isinstance(layer.multihead_attn, nn.MultiheadAttention)  # the old layer is as it was
    layer(torch.randn(5, 2, 16), torch.randn(7, 2, 16))
    assert called == [ClockDecoderLayer, nn.TransformerDecoderLayer]


def test_a_compiled_layer_runs_its_new_attention():
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 2, 32), 1).eval()
    target, memory = torch.randn(5, 2, 16), torch.randn(7, 2, 16)
    decoder.layers[0].compile(backend="eager")
    swap_cross_attention(decoder)
    layer = decoder.layers[0]
    torch.testing.assert_close(layer(target, memory), layer.forward(target, memory))


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


@pytest.mark.parametrize("flagged", [True, False])
def test_normalized_clocks_refuse_a_causal_decoder_instead_of_leaking_its_future(flagged):
    model = nn.Transformer(16, 2, 1, 1, 32, batch_first=True).eval()
    swap_cross_attention(model)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    with pytest.raises(ValueError, match="clocks='normalized' under a causal tgt_mask: every step would see the whole"):
        model(torch.randn(2, 7, 16), torch.randn(2, 5, 16), tgt_mask=mask)
    layer = model.decoder.layers[0]
    causal = {"tgt_is_causal": True, "tgt_mask": mask} if flagged else {"tgt_mask": mask == -torch.inf}
    with pytest.raises(ValueError, match="Use clocks='causal'"):
        layer(torch.randn(2, 5, 16), torch.randn(2, 7, 16), **causal)
    layer(torch.randn(2, 5, 16), torch.randn(2, 7, 16), torch.zeros(5, 5))  # a mask that hides nothing


def test_causal_clocks_keep_the_future_of_a_causal_decoder_hidden():
    torch.manual_seed(0)
    model = nn.Transformer(16, 2, 1, 2, 32, batch_first=True).eval()
    swap_cross_attention(model, copy_weights=True, clocks="causal")
    source, target = torch.randn(2, 7, 16), torch.randn(2, 5, 16)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    first = model(source, target, tgt_mask=mask)
    target[:, 3:] = torch.randn(2, 2, 16)
    assert torch.equal(model(source, target, tgt_mask=mask)[:, :3], first[:, :3])


def test_the_printed_variant_warns_under_a_causal_mask():
    layer = ClockDecoderLayer(16, 2, dim_feedforward=16, clock_options={"clocks": "unnormalized"})
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    with pytest.warns(UserWarning, match="'unnormalized' is the paper's printed variant"):
        layer(torch.randn(2, 5, 16), torch.randn(2, 7, 16), mask)


def test_copied_weights_that_do_not_fit_the_clock_are_named_and_nothing_is_replaced():
    model = nn.Transformer(16, 4, 1, 2, 32)
    with pytest.raises(ValueError, match=r"copy_weights=True with clock_width=1: .* projects to 4 channels per head"):
        swap_cross_attention(model, copy_weights=True, clock_width=1)
    assert isinstance(model.decoder.layers[0].multihead_attn, nn.MultiheadAttention)
    swap_cross_attention(model, copy_weights=True, clock_width=4)


class OwnBlock(nn.TransformerDecoderLayer):
    def _mha_block(self, x, *args, **kwargs):
        return 2 * super()._mha_block(x, *args, **kwargs)


class FairseqLikeLayer(nn.Module):
    """Cross-attention under the usual name, with the usual projections, called with time first."""

    def __init__(self):
        super().__init__()
        self.encoder_attn = nn.Module()
        self.encoder_attn.num_heads = 2
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self.encoder_attn, name, nn.Linear(16, 16))


def test_layers_with_another_call_are_refused_with_a_sentence():
    with pytest.raises(ValueError, match="is a OwnBlock with its own _mha_block, which would be lost"):
        swap_cross_attention(nn.Sequential(OwnBlock(16, 2)))
    with pytest.raises(ValueError, match=r"replace encoder_attn \(Module\) by hand, where you know how it is called"):
        swap_cross_attention(nn.Sequential(FairseqLikeLayer()))
    patched = nn.TransformerDecoderLayer(16, 2)
    patched.forward = patched.forward
    with pytest.raises(ValueError, match="is a TransformerDecoderLayer with its own forward, which would be lost"):
        swap_cross_attention(nn.Sequential(patched))
    strange = nn.TransformerDecoderLayer(16, 2)
    strange.multihead_attn = nn.Linear(16, 16)
    with pytest.raises(ValueError, match=r"multihead_attn is Linear, expected nn\.MultiheadAttention"):
        swap_cross_attention(nn.Sequential(strange))


def test_hugging_face_models_are_sent_to_their_own_function():
    transformers = pytest.importorskip("transformers", reason="Hugging Face transformers is not installed")
    config = transformers.BartConfig(
        vocab_size=30, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=32,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"is a Hugging Face model; use clock_attention\.integrations\.transformers"):
        swap_cross_attention(transformers.BartForConditionalGeneration(config), clocks="causal")
