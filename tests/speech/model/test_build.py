"""The model that a configuration describes."""

import pytest
import torch

from clock_attention.speech.model.aligned import AlignedModel
from clock_attention.speech.model.build import build_model, expected_weights
from clock_attention.speech.model.config import AlignedConfig, ModelConfig
from clock_attention.speech.model.transformer_model import SpeechModel

SMALL = {"width": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "feed_forward": 16}


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (ModelConfig(**SMALL), SpeechModel),
        (ModelConfig(**SMALL, decoding="autoregressive"), SpeechModel),
        (AlignedConfig(**SMALL, prosody_width=8, prosody_layers=1, decoder_width=8), AlignedModel),
    ],
)
def test_expected_weights_are_those_of_the_model(config, kind):
    model = build_model(config)
    assert type(model) is kind
    expected = expected_weights(config)
    assert {name: tensor.shape for name, tensor in expected.items()} == {
        name: tensor.shape for name, tensor in model.state_dict().items()
    }
    assert all(tensor.is_meta for tensor in expected.values())


def test_expecting_weights_draws_no_random_numbers():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    expected_weights(ModelConfig(**SMALL))
    assert torch.equal(torch.get_rng_state(), before)
