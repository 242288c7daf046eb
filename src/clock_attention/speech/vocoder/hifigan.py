"""HiFi-GAN's generator (Kong et al., 2020) as a torch module, its `config.json` and its checkpoints."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, Field, ValidationError, model_validator
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from clock_attention.speech.audio.mel import MEL_PRESETS, MelConfig
from clock_attention.speech.model.weight_files import load_torch, weights_fault
from clock_attention.speech.vocoder.checked_weights import read_weights_file

SLOPE = 0.1
# The last activation uses torch's default slope instead, as in the published code and therefore the published weights.
LAST_SLOPE = 0.01


# The mel definition in a published config.json; settings that it omits are the same in all of them.
MEL_FIELDS = {
    "sample_rate": "sampling_rate",
    "n_fft": "n_fft",
    "win_length": "win_size",
    "hop_length": "hop_size",
    "n_mels": "num_mels",
    "f_min": "fmin",
    "f_max": "fmax",
}


class VocoderError(ValueError):
    """A vocoder, HiFi-GAN or another, that is not available or does not fit the voice."""


# Bounds far above any published generator: a small untrusted configuration must not make us allocate all memory.
SmallCount = Annotated[int, Field(strict=True, ge=1, le=64)]
Kernel = Annotated[int, Field(strict=True, ge=1, le=256)]
StageSizes = Annotated[tuple[SmallCount, ...], Field(min_length=1, max_length=8)]
Kernels = Annotated[tuple[Kernel, ...], Field(min_length=1, max_length=8)]


class GeneratorOptions(BaseModel):
    """Options of HiFi-GAN's generator in a `config.json`, checked: consistent sizes that fit into memory."""

    upsample_rates: StageSizes
    upsample_kernel_sizes: Kernels
    upsample_initial_channel: Annotated[int, Field(strict=True, ge=1, le=4096)]
    resblock_kernel_sizes: Kernels
    resblock_dilation_sizes: Annotated[tuple[StageSizes, ...], Field(min_length=1, max_length=8)]

    @model_validator(mode="after")
    def _consistent(self) -> GeneratorOptions:
        rates, kernels = self.upsample_rates, self.upsample_kernel_sizes
        if len(rates) != len(kernels):
            raise ValueError(f"{len(rates)} upsample_rates and {len(kernels)} upsample_kernel_sizes")
        for rate, kernel in zip(rates, kernels, strict=True):
            if kernel < rate or (kernel - rate) % 2:
                raise ValueError(f"an upsampling by {rate} with a kernel of {kernel}: their difference must be even")
        if len(self.resblock_kernel_sizes) != len(self.resblock_dilation_sizes):
            raise ValueError("resblock_kernel_sizes and resblock_dilation_sizes differ in number")
        if any(size % 2 == 0 for size in self.resblock_kernel_sizes):
            raise ValueError(f"resblock_kernel_sizes {self.resblock_kernel_sizes} must be odd")
        if self.upsample_initial_channel % 2 ** len(rates):
            raise ValueError(f"{self.upsample_initial_channel} channels cannot be halved {len(rates)} times")
        return self


@dataclass(frozen=True)
class HifiganConfig:
    """HiFi-GAN's generator options and mel from the `config.json` published with each checkpoint; defaults are V1."""

    upsample_rates: tuple[int, ...] = (8, 8, 2, 2)
    upsample_kernel_sizes: tuple[int, ...] = (16, 16, 4, 4)
    upsample_initial_channel: int = 512
    resblock_kernel_sizes: tuple[int, ...] = (3, 7, 11)
    resblock_dilation_sizes: tuple[tuple[int, ...], ...] = ((1, 3, 5),) * 3
    mel: MelConfig = MEL_PRESETS["hifigan"]

    @classmethod
    def read(cls, path: Path) -> HifiganConfig:
        try:
            table: Any = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise VocoderError(
                f"{path} is missing: HiFi-GAN checkpoints are published with a config.json, put it beside the weights"
            ) from None
        except (OSError, ValueError, RecursionError) as error:
            raise VocoderError(f"{path} is not JSON: {error}") from None
        if not isinstance(table, dict):
            raise VocoderError(f"{path}: expected the options of a HiFi-GAN generator, got {type(table).__name__}")
        if str(table.get("resblock", "1")) != "1":
            raise VocoderError(
                f"{path}: resblock {table['resblock']!r} (HiFi-GAN V3) is not supported; use a V1 or V2 checkpoint"
            )
        try:
            mel = MelConfig(
                **MEL_PRESETS["hifigan"].model_dump(exclude=set(MEL_FIELDS)),
                **{ours: table[theirs] for ours, theirs in MEL_FIELDS.items() if ours != "f_max"},
                # Published configurations write null for "up to the Nyquist frequency".
                f_max=table["sampling_rate"] / 2 if table["fmax"] is None else table["fmax"],
            )
            options = GeneratorOptions.model_validate({name: table[name] for name in GeneratorOptions.model_fields})
        except KeyError as missing:
            raise VocoderError(f"{path} has no {missing}: it is not a HiFi-GAN configuration") from None
        except ValidationError as error:
            fault = error.errors()[0]
            where = ".".join(map(str, fault["loc"]))
            raise VocoderError(
                f"{path} is not a HiFi-GAN configuration: {where or 'options'}: {fault['msg']}"
            ) from None
        except (TypeError, ValueError, OverflowError) as error:
            raise VocoderError(f"{path} is not a HiFi-GAN configuration: {error}") from None
        if prod(options.upsample_rates) != mel.hop_length:
            raise VocoderError(
                f"{path}: upsample_rates {options.upsample_rates} give {prod(options.upsample_rates)} samples per "
                f"frame, but hop_size is {mel.hop_length}"
            )
        return cls(**options.model_dump(), mel=mel)

    @property
    def context(self) -> int:
        """Mel frames on each side that one sample of the wave depends on, rounded up."""
        reach, rate = 3.0, 1  # reach of the first convolution, in frames
        for up, kernel in zip(self.upsample_rates, self.upsample_kernel_sizes, strict=True):
            reach += kernel / up / rate
            rate *= up
            reach += max(
                (size // 2) * sum(dilation + 1 for dilation in dilations) / rate
                for size, dilations in zip(self.resblock_kernel_sizes, self.resblock_dilation_sizes, strict=True)
            )
        return int(reach + 3 / rate) + 1


class ResidualBlock(nn.Module):
    """HiFi-GAN's residual block: pairs of a dilated and a plain convolution, each with a residual connection."""

    def __init__(self, channels: int, kernel: int, dilations: tuple[int, ...]) -> None:
        super().__init__()
        self.convs1 = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, dilation=d, padding=(kernel - 1) * d // 2) for d in dilations
        )
        self.convs2 = nn.ModuleList(nn.Conv1d(channels, channels, kernel, padding=(kernel - 1) // 2) for _ in dilations)

    def forward(self, x: Tensor) -> Tensor:
        for dilated, plain in zip(self.convs1, self.convs2, strict=True):
            x = x + plain(leaky_relu(dilated(leaky_relu(x, SLOPE)), SLOPE))
        return x


class Generator(nn.Module):
    """HiFi-GAN's generator: log-mel (B, n_mels, frames) → wave (B, 1, frames · hop); parameters keep original names."""

    def __init__(self, config: HifiganConfig) -> None:
        super().__init__()
        width = config.upsample_initial_channel
        self.kinds = len(config.resblock_kernel_sizes)
        self.conv_pre = nn.Conv1d(config.mel.n_mels, width, 7, padding=3)
        self.ups, self.resblocks = nn.ModuleList(), nn.ModuleList()
        for up, kernel in zip(config.upsample_rates, config.upsample_kernel_sizes, strict=True):
            self.ups.append(nn.ConvTranspose1d(width, width // 2, kernel, up, padding=(kernel - up) // 2))
            width //= 2
            for size, dilations in zip(config.resblock_kernel_sizes, config.resblock_dilation_sizes, strict=True):
                self.resblocks.append(ResidualBlock(width, size, dilations))
        self.conv_post = nn.Conv1d(width, 1, 7, padding=3)

    def forward(self, mel: Tensor) -> Tensor:
        x = self.conv_pre(mel)  # (B, C, frames)
        for stage, up in enumerate(self.ups):
            x = up(leaky_relu(x, SLOPE))
            blocks = self.resblocks[stage * self.kinds : (stage + 1) * self.kinds]
            x = sum((block(x) for block in blocks[1:]), blocks[0](x)) / self.kinds
        return torch.tanh(self.conv_post(leaky_relu(x, LAST_SLOPE)))  # (B, 1, frames · hop)


def read_weights(path: Path) -> dict[str, Tensor]:
    """Weights of a HiFi-GAN checkpoint (`.safetensors`, or torch's with a `generator` key), weight norm folded in."""
    try:
        if path.suffix == ".safetensors":
            return fold_weight_norm(read_weights_file(path))
        state: dict[str, Any] = load_torch(path)
        return fold_weight_norm(state.get("generator", state))
    except Exception as error:  # every format fails in its own ways; in each case the file is unusable
        raise VocoderError(f"{path} cannot be read as a checkpoint ({type(error).__name__}: {error})") from None


def fold_weight_norm(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Fold weight norm into a HiFi-GAN checkpoint: w = g · v / ‖v‖, under either of torch's names for g and v."""
    folded = dict(state)
    for gain, direction, name in (
        ("weight_g", "weight_v", "weight"),
        ("parametrizations.weight.original0", "parametrizations.weight.original1", "weight"),
    ):
        for key in [key for key in folded if key.endswith(f".{gain}")]:
            layer = key.removesuffix(gain)
            g, v = folded.pop(key), folded.pop(layer + direction)
            folded[layer + name] = v * (g / v.flatten(1).norm(dim=1).reshape(g.shape))
    return folded


def load_generator(path: Path, config: HifiganConfig) -> Generator:
    """Load HiFi-GAN's generator with the weights of a checkpoint."""
    with torch.device("meta"):  # drawing random weights would take longer than reading the real ones
        generator = Generator(config)
    weights = read_weights(path)
    if fault := weights_fault(generator.state_dict(), weights):
        raise VocoderError(f"{path} does not hold the weights of the generator in its config.json: {fault}")
    generator.load_state_dict({name: weight.float() for name, weight in weights.items()}, assign=True)
    return generator.eval().requires_grad_(False)
