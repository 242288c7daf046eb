import pytest

from clock_attention.speech.voice.voice import Voice
from tests.speech.voices import tiny_voice


@pytest.fixture(scope="module")
def voice(tmp_path_factory):
    """A small voice with both ways of decoding."""
    folder = tiny_voice(tmp_path_factory.mktemp("voices") / "voice")
    # An untrained clock without a norm may stand still; the cumulative norm keeps every clock ticking.
    tiny_voice(folder / "autoregressive", decoding="autoregressive", causal_norm="cumulative")
    return Voice.load(folder)
