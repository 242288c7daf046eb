"""The aligner's network: for every 5 ms, which half of which phone is spoken, and whether a new phone starts.

A convolution merges four frames into one step, ConvNeXt blocks of different dilations see about 0.8 s each way, and one
linear layer outputs the four 5 ms frames of each step: it computes at 50 Hz and outputs at 200 Hz.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn
from torch.nn import functional as F

from clock_attention.files import write_atomically
from clock_attention.speech.aligner.features import BINS
from clock_attention.speech.aligner.phone_classes import CLASSES, STATES
from clock_attention.speech.aligner.search_weights import SearchWeights
from clock_attention.speech.model.weight_files import weights_fault

SHIPPED = Path(__file__).parent / "model"
CONFIG, WEIGHTS = "config.json", "model.safetensors"
STRIDE = 4


class AlignerConfig(BaseModel):
    """Sizes of the aligner's network and parameters of its search, stored with the weights."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    classes: tuple[str, ...] = CLASSES
    width: Annotated[int, Field(gt=0, le=2048)] = 192
    hidden: Annotated[int, Field(gt=0, le=8192)] = 384
    kernel: Annotated[int, Field(gt=0, le=63)] = 7
    dilations: Annotated[tuple[Annotated[int, Field(gt=0, le=64)], ...], Field(max_length=64)] = (1, 2, 3, 1, 2, 3, 1)
    log_prior: tuple[float, ...] = (0.0,) * STATES  # prior of each state in the training data
    threshold: float = -2.0  # below this score, the text does not match the recording
    search: SearchWeights = SearchWeights()


class ConvolutionBlock(nn.Module):
    """A block of the aligner's network: a dilated depthwise convolution, norm, two linear layers."""

    def __init__(self, width: int, hidden: int, kernel: int, dilation: int) -> None:
        super().__init__()
        pad = dilation * (kernel - 1) // 2
        self.depthwise = nn.Conv1d(width, width, kernel, padding=pad, dilation=dilation, groups=width)
        self.norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, hidden)
        self.narrow = nn.Linear(hidden, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: Tensor) -> Tensor:  # (B, S, C)
        y = self.depthwise(x.transpose(1, 2)).transpose(1, 2)
        return x + self.scale * self.narrow(F.relu(self.widen(self.norm(y))))


class AlignerNet(nn.Module):
    """The aligner's network: features (B, frames, bins) → log-probabilities of states, logits of a change.

    `change[t]` says whether a sound starts at frame t.
    """

    def __init__(self, config: AlignerConfig) -> None:
        super().__init__()
        self.config = config
        self.stem = nn.Conv1d(BINS, config.width, 3 * STRIDE, stride=STRIDE, padding=STRIDE)
        self.blocks = nn.ModuleList(
            ConvolutionBlock(config.width, config.hidden, config.kernel, dilation) for dilation in config.dilations
        )
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, STRIDE * (STATES + 1))

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        frames = features.shape[1]
        x = F.pad(features.transpose(1, 2), (0, -frames % STRIDE), mode="replicate")
        x = self.stem(x).transpose(1, 2)  # (B, S, C)
        for block in self.blocks:
            x = block(x)
        out = self.head(self.norm(x)).unflatten(-1, (STRIDE, STATES + 1)).flatten(1, 2)[:, :frames]
        return out[..., :STATES].log_softmax(-1), out[..., STATES]


def save_model(folder: str | Path, model: AlignerNet) -> None:
    """Write the aligner's network to a folder: configuration and half-precision weights."""
    from safetensors.torch import save

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.half().contiguous() for name, tensor in model.state_dict().items()}
    write_atomically(folder / WEIGHTS, save(weights))
    write_atomically(folder / CONFIG, (model.config.model_dump_json(indent=1) + "\n").encode())


def model_name(folder: str | Path) -> str:
    """Identifies the aligner's model in a folder by its files' contents, to recognise alignments made with it."""
    files = sorted(path for path in Path(folder).iterdir() if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def load_model(folder: str | Path) -> AlignerNet:
    """Load the aligner's network from a folder; raises a ValueError if it does not contain such a model."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    folder = Path(folder)
    try:
        config = AlignerConfig(**json.loads((folder / CONFIG).read_text("utf-8")))
        weights = load((folder / WEIGHTS).read_bytes())
    except (OSError, SafetensorError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{folder}: no aligner model can be read there ({error})") from None
    if config.classes != CLASSES or len(config.log_prior) != STATES:
        raise ValueError(
            f"{folder}: an aligner model of other sounds, expected {len(CLASSES)} classes as in this version"
        )
    with torch.device("meta"):
        expected = AlignerNet(config).state_dict()
    if fault := weights_fault(expected, weights):
        raise ValueError(f"{folder}: {fault}")
    model = AlignerNet(config)
    model.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    return model.eval()
