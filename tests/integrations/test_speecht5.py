"""SpeechT5 with clocks."""

import pytest
import torch

pytest.importorskip("transformers", minversion="5.22", reason="Hugging Face transformers 5.22 is not installed")
import transformers

from clock_attention.integrations.transformers import use_clock_attention
from tests.integrations import tiny_models
from tests.integrations.tiny_models import lively


def test_speecht5_speaks():
    torch.manual_seed(0)
    model = transformers.SpeechT5ForTextToSpeech(tiny_models.speecht5_config())
    use_clock_attention(lively(model), pace=2.0)
    text, speaker = torch.randint(3, 30, (1, 8)), torch.randn(1, 6)
    speech, attention = model.generate_speech(
        text, speaker_embeddings=speaker, minlenratio=2.0, maxlenratio=3.0, output_cross_attentions=True
    )
    assert speech.shape[0] >= 16
    assert speech.isfinite().all()
    torch.testing.assert_close(attention.sum(-1), torch.ones_like(attention[..., 0]))
