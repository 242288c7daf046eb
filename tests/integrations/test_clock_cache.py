"""Clocks in the generation cache."""

import pytest
import torch

pytest.importorskip("transformers", minversion="5.22", reason="Hugging Face transformers 5.22 is not installed")
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from tests.integrations import tiny_models


def test_several_steps_at_a_time_from_the_cache_equal_one_pass(marian):
    steps = torch.randint(3, 30, (2, 9))
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    with torch.no_grad():
        expected = marian.model(**marian.inputs, decoder_input_ids=steps).logits
        parts = [
            marian.model(**marian.inputs, decoder_input_ids=part, past_key_values=cache, use_cache=True).logits
            for part in steps.split([3, 1, 4, 1], dim=1)
        ]
    torch.testing.assert_close(torch.cat(parts, 1), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("prompt", [1, 3])
def test_a_cache_follows_what_is_done_to_its_batch(marian, prompt):
    """After the first pass and after a step: repeat, select, and reset."""
    steps = torch.randint(3, 30, (2, 6))
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())

    def run(part, source):
        return marian.model(**source, decoder_input_ids=part, past_key_values=cache, use_cache=True).logits

    order = torch.tensor([1, 1, 0])
    reordered = {name: value[order] for name, value in marian.inputs.items()}
    with torch.no_grad():
        expected = marian.model(**reordered, decoder_input_ids=steps[order]).logits
        run(steps[:, :prompt], marian.inputs)
        cache.batch_repeat_interleave(2)  # items 0 0 1 1
        cache.batch_select_indices(torch.tensor([2, 3, 1]))
        got = run(steps[order, prompt : prompt + 1], reordered)
        torch.testing.assert_close(got, expected[:, prompt : prompt + 1], rtol=1e-4, atol=1e-4)
        cache.reorder_cache(torch.tensor([2, 1, 0]))
        got = run(steps[order.flip(0), prompt + 1 :], {name: value.flip(0) for name, value in reordered.items()})
        torch.testing.assert_close(got, expected.flip(0)[:, prompt + 1 :], rtol=1e-4, atol=1e-4)
        cache.reset()
        got = run(steps, marian.inputs)
    torch.testing.assert_close(got[:1], expected[2:], rtol=1e-4, atol=1e-4)


def test_caches_without_clocks_and_cropped_ones_are_refused(marian):
    plain = tiny_models.marian().model.eval()
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    steps = torch.randint(3, 30, (2, 4))
    plain(**marian.inputs, decoder_input_ids=steps, past_key_values=cache, use_cache=True)
    with pytest.raises(ValueError, match="a cache that was filled without clock attention"):
        marian.model(**marian.inputs, decoder_input_ids=steps[:, :1], past_key_values=cache, use_cache=True)
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    marian.model(**marian.inputs, decoder_input_ids=steps, past_key_values=cache, use_cache=True)
    cache.crop(-2)
    with pytest.raises(ValueError, match="got 2 steps in the cache of the self-attention and 4 taken by the clock"):
        marian.model(**marian.inputs, decoder_input_ids=steps[:, :1], past_key_values=cache, use_cache=True)
