"""Vocoders that several test files use."""

import json
from pathlib import Path

import pytest
import torch

from tests.speech.vocoder.tiny_hifigan import SMALL, random_generator


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small random generator in the original format."""
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    torch.save({"generator": random_generator().state_dict()}, tmp_path / "generator_v1")
    return tmp_path
