"""The rivals of clock attention: positions that are shares of both lengths, and uniform upsampling."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clock_attention.speech.model.config import ModelConfig
from clock_attention.speech.model.cross_attention import LaropeAttention, UniformAttention, overlaps, turned
from clock_attention.speech.model.transformer_model import SpeechModel

SIZES = {"symbols": 6, "mels": 4, "width": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "feed_forward": 16}


def padding(*lengths):
    return torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]


def test_larope_scores_depend_on_the_difference_of_shares_alone():
    torch.manual_seed(0)
    attention = LaropeAttention(16, 2, out_proj=False, scale=10.0).double()
    # The same content everywhere: what is left is position. 4 of 8 frames in, 3 of 6 tokens in: the same place.
    query, key = torch.randn(1, 1, 16).double().expand(1, 8, 16), torch.randn(1, 1, 16).double().expand(1, 6, 16)
    queries, keys = attention.queries(query, None), attention.start(key).key
    scores = (queries @ keys.transpose(-1, -2))[0]  # (H, S, T)
    twice = attention.queries(query.repeat(1, 2, 1), None) @ keys.transpose(-1, -2)  # 16 frames instead of 8
    torch.testing.assert_close(twice[0][:, ::2], scores, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(scores[:, 0, 0], scores[:, 4, 3], rtol=1e-6, atol=1e-6)
    assert (scores[:, 0, 0] - scores[:, 4, 0]).abs().max() > 1e-3


def test_turning_by_whole_positions_is_the_usual_rotation():
    from clock_attention.speech.model.layers import rotate

    x = torch.randn(2, 2, 5, 8)
    torch.testing.assert_close(turned(x, torch.arange(5.0).expand(2, 5)), rotate(x))


@settings(max_examples=25, deadline=None)
@given(pairs=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 30)), min_size=1, max_size=3))
def test_uniform_weights_are_rows_of_one_and_give_every_token_the_same_time(pairs):
    tokens, frames = zip(*pairs, strict=True)
    query, key = torch.zeros(len(pairs), max(frames), 2), torch.zeros(len(pairs), max(tokens), 2)
    weights = overlaps(query, padding(*frames), key, padding(*tokens))
    for row, (token, frame) in zip(weights, pairs, strict=True):
        torch.testing.assert_close(row[:frame].sum(1), torch.ones(frame))
        torch.testing.assert_close(row[:frame].sum(0)[:token], torch.full((token,), frame / token))
        assert (row[:frame, token:] == 0).all()
        assert row.isfinite().all()


@pytest.mark.parametrize("kind", ["larope", "uniform"])
def test_an_utterance_alone_and_in_a_batch_come_out_the_same_and_weights_are_shown(kind):
    torch.manual_seed(0)
    model = SpeechModel(ModelConfig(cross_attention=kind, positions="normalized", **SIZES)).eval()
    tokens, lengths, frames = torch.randint(0, 6, (2, 7)), torch.tensor([7, 4]), torch.tensor([20, 11])
    together = model(tokens, lengths, frames, need_weights=True)
    alone = model(tokens[1:, :4], lengths[1:], frames[1:], need_weights=True)
    torch.testing.assert_close(together.mel[1, :11], alone.mel[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(together.weights[0][1, :, :11, :4], alone.weights[0][0], rtol=1e-4, atol=1e-5)
    together.mel[0, :20].sum().backward()
    assert all(p.grad is not None for name, p in model.named_parameters() if "cross_attention" in name)
    spoken = model.synthesise(tokens, lengths, frames=frames)
    assert spoken.mel.shape[1] == 20


@pytest.mark.parametrize("kind", ["larope", "uniform"])
def test_lengths_must_be_known(kind):
    with pytest.raises(ValueError, match="needs the length of the utterance"):
        ModelConfig(cross_attention=kind, decoding="autoregressive", **SIZES)
    attention = (
        UniformAttention(16, 2, out_proj=False)
        if kind == "uniform"
        else LaropeAttention(16, 2, out_proj=False, scale=1)
    )
    with pytest.raises(ValueError, match="step by step"):
        attention.step(torch.zeros(1, 16), None)
