"""A tiny voice with random weights: it babbles, but everything around the sound is real."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.corpus.language import Language
from clock_attention.speech.corpus.speakers import ProsodyStatistics, SpeakerStatistics
from clock_attention.speech.model.aligned import AlignedModel
from clock_attention.speech.model.config import AlignedConfig, ModelConfig
from clock_attention.speech.model.transformer_model import SpeechModel
from clock_attention.speech.text.phonemizers import phonemizer
from clock_attention.speech.training.config import TrainingConfig
from clock_attention.speech.voice.voice_folder import Provenance, VoiceCard

MPR = 6.0


def tiny_aligned_voice(
    folder: Path, *, mel: str = "hifigan", reader: str = "hibari", speakers: Sequence[str] = (), **options: object
) -> Path:
    """Write a voice of random weights whose model has durations, as the default voice; `options` change its model."""
    options |= {"speakers": len(speakers)} if speakers else {}
    symbols, config = phonemizer(reader).symbols, MelConfig.preset(mel)
    sizes = {"width": 16, "heads": 2, "encoder_layers": 1, "feed_forward": 16}
    sizes |= {"prosody_width": 8, "prosody_layers": 1, "decoder_width": 8, "decoder_layers": 1, "expansion": 1}
    model = AlignedConfig.model_validate({**sizes, "symbols": len(symbols), "mels": config.n_mels, **options})
    torch.manual_seed(0)
    weights = AlignedModel(model)
    with torch.no_grad():  # about as many frames a phoneme as speech has, and not all alike
        weights.timing_output.weight.normal_(0, 0.2)
        weights.timing_output.bias.fill_(1.9)
        if weights.speaker_embedding is not None:
            weights.speaker_embedding.weight.normal_()
    return written(
        folder,
        model,
        weights,
        reader,
        ProsodyStatistics(pitch_mean=5.2, pitch_std=0.2, energy_mean=-6, energy_std=2),
        config,
        speakers,
    )


def tiny_voice(folder: Path, *, mel: str = "hifigan", reader: str = "hibari", **options: object) -> Path:
    """Write a voice of random weights; `options` change its model."""
    symbols, config = phonemizer(reader).symbols, MelConfig.preset(mel)
    sizes = {"width": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 2, "feed_forward": 16}
    corpus = {"symbols": len(symbols), "mels": config.n_mels}
    positions = {"positions": "normalized", "encoder_positions": "rotary", "frames_per_step": 2}
    model = ModelConfig.model_validate({**sizes, **corpus, **positions, **options})
    torch.manual_seed(0)
    return written(folder, model, SpeechModel(model), reader, mel=config)


def written(
    folder: Path,
    model: ModelConfig | AlignedConfig,
    weights: torch.nn.Module,
    reader: str,
    prosody: ProsodyStatistics | None = None,
    mel: MelConfig | None = None,
    speakers: Sequence[str] = (),
) -> Path:
    config = mel or MelConfig.preset("hifigan")
    language = Language(
        phonemizer=reader,
        symbols=phonemizer(reader).symbols,
        mel=config,
        mean=(-5.0,) * config.n_mels,
        std=(1.5,) * config.n_mels,
        mpr=MPR,
        prosody=prosody,
        speakers=tuple(
            SpeakerStatistics(
                name=name,
                mean=(-5.0 - place,) * config.n_mels,
                std=(1.5 + 0.1 * place,) * config.n_mels,
                mpr=MPR,
                prosody=prosody and prosody.model_copy(update={"pitch_std": 0.2 + 0.1 * place}),
            )
            for place, name in enumerate(speakers)
        ),
    )
    provenance = Provenance(
        corpus="none", licence="CC0", training=TrainingConfig(), steps=0, seconds=0.0, valid_l1=None, software="tests"
    )
    folder.mkdir(parents=True)
    card = VoiceCard(model=model, language=language, provenance=provenance)
    (folder / "voice.json").write_text(card.model_dump_json())
    save_file(weights.state_dict(), folder / "model.safetensors")
    return folder


CHANGES = [
    *("width=16", "heads=2", "encoder_layers=1", "decoder_layers=1", "feed_forward=16", "steps=6", "batch_size=8"),
    *("validate_every=3", "log_every=2", "pictures=0", "validation_utterances=4", "warmup_steps=1", "ema=0.5"),
]


def tiny_run(folder: Path) -> Path:
    """A finished training run."""
    from clock_attention.speech.training.config import load_preset
    from clock_attention.speech.training.loop import train
    from tests.speech.corpora import tiny_store

    torch.set_num_threads(1)
    train(load_preset("small-l1").changed(CHANGES), tiny_store(folder / "store"), folder / "run", quiet=True)
    return folder / "run"
