"""Models that several test files use."""

import pytest
import torch

from tests.broken_packages import hide_broken_torchaudio

hide_broken_torchaudio()  # before the test files import transformers


@pytest.fixture
def marian():
    """A tiny Marian model with clocks."""
    from clock_attention.integrations.transformers import use_clock_attention
    from tests.integrations import tiny_models

    torch.manual_seed(0)
    found = tiny_models.marian()
    use_clock_attention(tiny_models.lively(found.model), pace=1.5)
    return found
