"""A voice: one folder with everything needed to speak, and nothing that could run.

VOICE/voice.json           model options, phoneme inventory, mel definition, statistics, pace, where it comes from
VOICE/model.safetensors    the weights
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from clock_attention.speech import checkpoint
from clock_attention.speech.config import ModelConfig, TrainingConfig
from clock_attention.speech.model import SpeechModel
from clock_attention.speech.run import Language, RunDescription
from clock_attention.speech.store import write_atomically

FORMAT = 1
CARD, WEIGHTS = "voice.json", "model.safetensors"


class VoiceError(ValueError):
    """A folder that is not a voice, or not one that this version can use."""


class Provenance(BaseModel):
    """Where a voice comes from, for its users and for whoever wants to make it again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    corpus: str
    licence: str
    training: TrainingConfig
    steps: int
    seconds: float
    valid_l1: float | None
    software: str


class VoiceCard(BaseModel):
    """Contents of `voice.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    model: ModelConfig
    language: Language
    provenance: Provenance


@dataclass(frozen=True)
class Voice:
    """A loaded voice: the model in evaluation mode, and what it needs to know about text and mel."""

    card: VoiceCard
    model: SpeechModel
    path: Path

    @classmethod
    def load(cls, path: str | Path, device: torch.device | str = "cpu") -> Voice:
        """Read and check a voice folder. Only JSON and safetensors are read: nothing in it can run."""
        folder = Path(path)
        card = read_card(folder)
        try:
            weights = load_file(folder / WEIGHTS, device=str(device))
        except FileNotFoundError:
            raise VoiceError(f"{folder}: {WEIGHTS} is missing; export the voice again") from None
        except SafetensorError as error:
            raise VoiceError(f"{folder / WEIGHTS}: damaged or not a safetensors file ({error})") from None
        with torch.device(device):
            model = SpeechModel(card.model)
        check_weights(folder / WEIGHTS, model.state_dict(), weights)
        model.load_state_dict(weights)
        return cls(card, model.eval().requires_grad_(False), folder)

    @property
    def language(self) -> Language:
        return self.card.language

    def standardised(self, mel: Tensor) -> Tensor:
        """log-mel (…, M) → what the model predicts."""
        return (mel - self._statistic("mean", mel)) / self._statistic("std", mel)

    def log_mel(self, standardised: Tensor) -> Tensor:
        """What the model predicts → log-mel (…, M)."""
        return standardised * self._statistic("std", standardised) + self._statistic("mean", standardised)

    def _statistic(self, name: str, like: Tensor) -> Tensor:
        return torch.tensor(getattr(self.language, name), dtype=like.dtype, device=like.device)


def read_card(folder: Path) -> VoiceCard:
    try:
        text = (folder / CARD).read_text("utf-8")
    except OSError:
        raise VoiceError(
            f"{folder}: not a voice (no {CARD}); make one with `clock-attention export RUN VOICE`"
        ) from None
    try:
        card = VoiceCard.model_validate_json(text)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"])) or "file"
        raise VoiceError(f"{folder / CARD}: {where}: {fault['msg']}; export the voice again") from None
    if card.format != FORMAT:
        raise VoiceError(f"{folder / CARD}: voice format {card.format}, this version reads {FORMAT}: export it again")
    if card.model.symbols != len(card.language.symbols) or card.model.mels != card.language.mel.n_mels:
        raise VoiceError(
            f"{folder / CARD}: a model for {card.model.symbols} symbols and {card.model.mels} mel bins, but an "
            f"inventory of {len(card.language.symbols)} symbols and a mel of {card.language.mel.n_mels} bins"
        )
    return card


def check_weights(path: Path, expected: dict[str, Tensor], found: dict[str, Tensor]) -> None:
    """Names and shapes before anything is loaded, with the first difference in words."""
    missing, unknown = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    if missing or unknown:
        raise VoiceError(
            f"{path}: weights do not belong to the model in {CARD}: "
            f"missing {', '.join(missing[:3]) or 'none'}; unknown {', '.join(unknown[:3]) or 'none'}"
        )
    for name, tensor in expected.items():
        if found[name].shape != tensor.shape:
            raise VoiceError(
                f"{path}: {name} has shape {tuple(found[name].shape)}, {CARD} asks for {tuple(tensor.shape)}"
            )
        if not bool(found[name].isfinite().all()):
            raise VoiceError(f"{path}: {name} holds values that are not finite numbers")


def export(run: Path, folder: Path, *, licence: str, which: str = "best") -> VoiceCard:
    """Write the weights of a run, averaged ones where it has them, and all it takes to use them.

    Args:
        which: "best" (lowest validation L1), "last", or the path of a checkpoint.
    """
    description = RunDescription.read(run)
    best = run / "checkpoints" / "best.pt"
    path = checkpoint.latest(run) if which == "last" or (which == "best" and not best.exists()) else best
    state = checkpoint.read(path if which in ("best", "last") else Path(which))
    weights: dict[str, Any] = {**state["model"], **state["average"]}
    check_weights(path, SpeechModel(description.config.model).state_dict(), weights)
    card = VoiceCard(
        model=description.config.model,
        language=description.language,
        provenance=Provenance(
            corpus=description.source,
            licence=licence,
            training=description.config.training,
            steps=state["step"],
            seconds=round(state["seconds"][0], 1),
            valid_l1=state["best"] if state["best"] < float("inf") else None,
            software=f"clock-attention {version('clock-attention')}",
        ),
    )
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{WEIGHTS}"
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, temporary)
    os.replace(temporary, folder / WEIGHTS)
    write_atomically(folder / CARD, card.model_dump_json(indent=1))
    return card
