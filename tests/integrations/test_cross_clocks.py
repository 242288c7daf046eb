"""The clocks of a Hugging Face cross-attention: content, norms and variances."""

import pytest
import torch

pytest.importorskip("transformers", minversion="5.22", reason="Hugging Face transformers 5.22 is not installed")

from clock_attention.integrations.transformers import use_clock_attention
from tests.integrations import tiny_models
from tests.integrations.tiny_models import generated, lively


@pytest.mark.parametrize("options", [{"content": True}, {"causal_norm": "cumulative"}, {"variance": "surrogate"}])
def test_other_clocks_generate_alike_with_and_without_the_cache(options):
    torch.manual_seed(0)
    found = tiny_models.whisper() if "content" in options else tiny_models.marian()
    use_clock_attention(lively(found.model), pace=1.5, logit_scale=0.5, **options)
    with_cache, logits = generated(found.model, found.inputs)
    without, expected = generated(found.model, found.inputs, use_cache=False)
    torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-3)
    assert torch.equal(with_cache, without)


def test_content_is_the_attention_the_model_had():
    """With clocks that say nothing, the model's own dot products decide: the outputs of the plain model."""
    torch.manual_seed(0)
    found = tiny_models.bart()
    lively(found.model)
    with torch.no_grad():
        expected = found.model(**found.inputs, labels=found.labels).logits
        use_clock_attention(found.model, content=True, logit_scale=1e-12)
        got = found.model(**found.inputs, labels=found.labels).logits
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
