"""Tiny voices, and a vocoder and recognizers that take no time and count what they are asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from clock_attention.evaluation.pipeline.chain import Chain, ChainWorkers
from clock_attention.evaluation.prompts import Prompt
from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.corpus.language import Language
from clock_attention.speech.model.config import ModelConfig
from clock_attention.speech.model.transformer_model import SpeechModel
from clock_attention.speech.text.hibari import HibariPhonemizer
from clock_attention.speech.training.config import TrainingConfig
from clock_attention.speech.voice.voice import Voice
from clock_attention.speech.voice.voice_folder import CARD, WEIGHTS, Provenance, VoiceCard

MELS = 8
MEL = MelConfig(n_mels=MELS)
TEXTS = ["The cat sat on the mat.", "No.", "She sells sea shells by the sea shore.", "One by one they came in.", "Why?"]
PROMPTS = [Prompt(f"p{number}", text, "test") for number, text in enumerate(TEXTS)]


def write_voice(folder: Path, seed: int = 0, **options: object) -> Path:
    """A voice with random weights."""
    symbols = HibariPhonemizer.symbols
    sizes = {"width": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "feed_forward": 16, "dropout": 0.0}
    model = ModelConfig.model_validate({**sizes, "symbols": len(symbols), "mels": MELS, **options})
    language = Language(phonemizer="hibari", symbols=symbols, mel=MEL, mean=(-5.0,) * MELS, std=(2.0,) * MELS, mpr=6.0)
    provenance = Provenance(
        corpus="nothing", licence="CC0", training=TrainingConfig(), steps=0, seconds=0, valid_l1=None, software="test"
    )
    torch.manual_seed(seed)
    module = SpeechModel(model)
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in module.state_dict().items()}, folder / WEIGHTS)
    (folder / CARD).write_text(VoiceCard(model=model, language=language, provenance=provenance).model_dump_json())
    return folder


@dataclass
class FakeVocoder:
    """A tone whose loudness follows the mel."""

    fingerprint: str = "vocoder"
    name: str = "fake"
    mel: MelConfig = MEL
    calls: int = 0

    def __call__(self, mel: torch.Tensor) -> Wave:
        self.calls += 1
        return np.repeat(mel.mean(1).exp().clamp(max=0.5).numpy() + 0.01, 256).astype(np.float32)


@dataclass
class FakeRecognizer:
    """Hears one of a few words for every second; fails at the call it is told to."""

    name: str = "fake"
    fingerprint: str = "recognizer"
    fails_at: int = -1
    calls: int = 0
    heard: list[int] = field(default_factory=list)

    def transcribe(self, wave: Wave, sample_rate: int) -> str:
        if self.calls == self.fails_at:
            raise KeyboardInterrupt
        self.calls += 1
        self.heard.append(len(wave))
        return " ".join(["the", "cat", "sat", "on"][: 1 + len(wave) // sample_rate])


@dataclass
class FakeSource:
    vocoder: FakeVocoder = field(default_factory=FakeVocoder)
    recognizers: list[FakeRecognizer] = field(default_factory=lambda: [FakeRecognizer()])

    def load(self) -> Chain:
        return Chain(self.vocoder, {one.name: one for one in self.recognizers})


@pytest.fixture
def make_voice(tmp_path: Path) -> Callable[..., Voice]:
    def make(name: str = "voice", **options: object) -> Voice:
        return Voice.load(write_voice(tmp_path / name, **options))

    return make


@pytest.fixture
def source() -> FakeSource:
    return FakeSource()


@pytest.fixture
def chains(source: FakeSource) -> ChainWorkers:
    return ChainWorkers(source)
