"""A tiny voice with random weights: it babbles, but everything around the sound is real."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file

from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.corpus.language import Language
from clock_attention.speech.model.config import ModelConfig
from clock_attention.speech.model.model import SpeechModel
from clock_attention.speech.text.phonemizers import phonemizer
from clock_attention.speech.training.config import TrainingConfig
from clock_attention.speech.voice.folder import Provenance, VoiceCard

MPR = 6.0


def tiny_voice(folder: Path, *, mel: str = "hifigan", reader: str = "hibari", **options: object) -> Path:
    """Write a voice of random weights; `options` change its model."""
    symbols, config = phonemizer(reader).symbols, MelConfig.preset(mel)
    sizes = {"width": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 2, "feed_forward": 16}
    corpus = {"symbols": len(symbols), "mels": config.n_mels}
    positions = {"positions": "normalized", "encoder_positions": "rotary", "frames_per_step": 2}
    model = ModelConfig.model_validate({**sizes, **corpus, **positions, **options})
    torch.manual_seed(0)
    weights = SpeechModel(model)
    language = Language(
        phonemizer=reader,
        symbols=symbols,
        mel=config,
        mean=(-5.0,) * config.n_mels,
        std=(1.5,) * config.n_mels,
        mpr=MPR,
    )
    provenance = Provenance(
        corpus="none", licence="CC0", training=TrainingConfig(), steps=0, seconds=0.0, valid_l1=None, software="tests"
    )
    folder.mkdir(parents=True)
    card = VoiceCard(model=model, language=language, provenance=provenance)
    (folder / "voice.json").write_text(card.model_dump_json())
    save_file(weights.state_dict(), folder / "model.safetensors")
    return folder
