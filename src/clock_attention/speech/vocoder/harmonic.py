"""The harmonic vocoder: a small network predicts a filter for pulses and an aperiodic part, at 80 frames per second.

    wave = iSTFT( exp(a) · e^{iπ tanh(b)} · STFT(pulses(F0)) + exp(c) · e^{id} )

The first term is voiced sound, the second everything aperiodic. The pitch is estimated from the mel. Spectra have 601
bins every 300 samples at 24 kHz, as in hibari-tts (Apache-2.0), whose decoder initialised the blocks and the head.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn.functional import gelu

from clock_attention.speech.audio.mel import MEL_PRESETS, MelConfig
from clock_attention.speech.vocoder.checked_weights import read_weights_file
from clock_attention.speech.vocoder.hifigan import VocoderError

RATE, FFT, HOP = 24000, 1200, 300  # of the spectra that the network predicts
SPECTRUM_BINS = FFT // 2 + 1
# A mel is normalised with these before the first layer: about the mean and standard deviation of speech.
MEL_MEAN, MEL_SCALE = -5.0, 2.2
LOWEST_PITCH, HIGHEST_PITCH, PITCH_CLASSES = 60.0, 600.0, 192
NEIGHBOURS = 4  # classes on each side of the best that the pitch is averaged over
MIDDLE_PITCH, PITCH_SCALE = 200.0, 3.0  # pitch input of the network: PITCH_SCALE · log(F0 / MIDDLE_PITCH)
LOUDEST = 7.0  # largest log magnitude
INPUT_KERNEL, BLOCK_KERNEL = 5, 7

Width = Annotated[int, Field(ge=1, le=4096)]
Layers = Annotated[int, Field(ge=1, le=64)]


class HarmonicConfig(BaseModel):
    """The harmonic vocoder's `config.json`, stored next to its weights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    width: Width = 256
    front_layers: Layers = 2  # at the mel's frame rate
    middle_layers: Layers = 3  # at 80 frames per second, like everything after them
    reader_hidden: Width = 512
    layers: Layers = 8
    hidden: Width = 768
    pitch_width: Width = 160
    pitch_layers: Layers = 4
    mel: MelConfig = MEL_PRESETS["hifigan"]

    @model_validator(mode="after")
    def _known_mel(self) -> HarmonicConfig:
        mel = self.mel
        if (mel.sample_rate, mel.hop_length, mel.padding) != (22050, 256, "hop"):
            raise ValueError("the harmonic vocoder is made for 22,050 Hz, hops of 256 samples and padding 'hop'")
        return self

    @classmethod
    def read(cls, path: Path) -> HarmonicConfig:
        try:
            return cls.model_validate(json.loads(path.read_text("utf-8")))
        except FileNotFoundError:
            raise VocoderError(f"{path} is missing: it describes the vocoder whose weights are next to it") from None
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "config"
            raise VocoderError(f"{path} does not describe a harmonic vocoder: {where}: {first['msg']}") from None
        except (ValueError, RecursionError) as error:
            raise VocoderError(f"{path} is not JSON: {error}") from None

    @property
    def ratio(self) -> float:
        """Mel frames per frame of the spectra."""
        return HOP / RATE * self.mel.frames_per_second

    @property
    def mel_context(self) -> int:
        """Mel frames on each side that the pitch of a mel frame, or a feature of the front layers, depends on."""
        return INPUT_KERNEL // 2 + BLOCK_KERNEL // 2 * max(self.pitch_layers, self.front_layers)

    @property
    def context(self) -> int:
        """Frames of the spectra on each side that a spectrum depends on through the later layers."""
        return INPUT_KERNEL // 2 + BLOCK_KERNEL // 2 * (self.middle_layers + self.layers)


class ConvNeXtBlock(nn.Module):
    """A layer of the harmonic vocoder: ConvNeXt block over time, channels last."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv1d(width, width, BLOCK_KERNEL, padding=BLOCK_KERNEL // 2, groups=width)
        self.norm = nn.LayerNorm(width)
        self.inner, self.outer = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.scale = nn.Parameter(torch.full((width,), 0.3))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x.transpose(1, 2)).transpose(1, 2))
        return x + self.outer(gelu(self.inner(y), approximate="tanh")) * self.scale


class InputConv(nn.Conv1d):
    """A layer of the harmonic vocoder: convolution over time, channels last."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__(inputs, width, INPUT_KERNEL, padding=INPUT_KERNEL // 2)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


class PitchNetwork(nn.Module):
    """The harmonic vocoder's pitch network: normalised log-mel (B, T, n_mels) → scores of pitch classes and voicing."""

    def __init__(self, n_mels: int, width: int, layers: int) -> None:
        super().__init__()
        self.input = InputConv(n_mels, width)
        self.blocks = nn.ModuleList(ConvNeXtBlock(width, 2 * width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, PITCH_CLASSES + 1)

    def forward(self, mel: Tensor) -> tuple[Tensor, Tensor]:
        x = self.input(mel)
        for block in self.blocks:
            x = block(x)
        scores = self.output(self.norm(x))
        return scores[..., :-1], scores[..., -1]


class HarmonicNetwork(nn.Module):
    """The harmonic vocoder's network: log-mel → pitch, and with it the spectra of the voice and the aperiodic part."""

    def __init__(self, config: HarmonicConfig) -> None:
        super().__init__()
        self.config = config
        self.pitch = PitchNetwork(config.mel.n_mels, config.pitch_width, config.pitch_layers)
        self.input = InputConv(config.mel.n_mels, config.width)
        self.front = nn.ModuleList(
            ConvNeXtBlock(config.width, config.reader_hidden) for _ in range(config.front_layers)
        )
        self.pitch_input = InputConv(2, config.width)
        self.middle = nn.ModuleList(
            ConvNeXtBlock(config.width, config.reader_hidden) for _ in range(config.middle_layers)
        )
        self.bridge = nn.Linear(config.width, config.width)
        self.decoder = nn.ModuleList(ConvNeXtBlock(config.width, config.hidden) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, 4 * SPECTRUM_BINS)

    def forward(self, mel: Tensor, frequency: Tensor, places: Tensor) -> Tensor:
        """log-mel (B, T, n_mels), F0 (B, N), 0 where unvoiced, and positions between mel frames (N,)
        → log magnitude and phase of the voice's filter and of the aperiodic part (B, N, 4 · BINS)."""
        return self.spectra(self.features(mel, frequency, places))

    def features(self, mel: Tensor, frequency: Tensor, places: Tensor) -> Tensor:
        """Input features of the decoder (B, N, width)."""
        x = self.input(normalised_mel(mel))
        for block in self.front:
            x = block(x)
        voiced = (frequency > 0).to(x.dtype)
        height = PITCH_SCALE * (frequency.clamp(min=LOWEST_PITCH) / MIDDLE_PITCH).log() * voiced
        x = between(x, places) + self.pitch_input(torch.stack([height.to(x.dtype), voiced], -1))
        for block in self.middle:
            x = block(x)
        return self.bridge(x)

    def spectra(self, features: Tensor) -> Tensor:
        for block in self.decoder:
            features = block(features)
        return self.head(self.norm(features))

    def frequency(self, mel: Tensor, places: Tensor) -> Tensor:
        """F0 in Hz at the positions `places` (B, N); 0 where unvoiced."""
        classes, voicing = self.pitch(normalised_mel(mel))
        voiced = between(voicing[..., None].float(), places)[..., 0] > 0
        return pitch_of(between(classes.float(), places)) * voiced


def normalised_mel(mel: Tensor) -> Tensor:
    """The log-mel, normalised for the harmonic vocoder."""
    return (mel - MEL_MEAN) / MEL_SCALE


def mel_places(config: HarmonicConfig, first: int, count: int) -> Tensor:
    """Positions of the harmonic vocoder's spectra `first` … `first + count` in mel frames; spectrum 0 at sample 0."""
    return torch.arange(first, first + count, dtype=torch.float64) * config.ratio - 0.5


def between(x: Tensor, places: Tensor) -> Tensor:
    """Interpolate (B, T, C) linearly at fractional positions → (B, N, C), for the harmonic vocoder; ends are held."""
    last = x.shape[1] - 1
    places = places.to(x.device).clamp(0, last)
    left = places.floor().long().clamp(max=max(last - 1, 0))
    weight = (places - left).to(x.dtype)[None, :, None]
    return x[:, left] * (1 - weight) + x[:, (left + 1).clamp(max=last)] * weight


def pitch_classes(hertz: Tensor) -> Tensor:
    """A frequency as a fractional pitch class of the harmonic vocoder."""
    share = (hertz.clamp(LOWEST_PITCH, HIGHEST_PITCH) / LOWEST_PITCH).log() / math.log(HIGHEST_PITCH / LOWEST_PITCH)
    return share * (PITCH_CLASSES - 1)


def pitch_of(scores: Tensor) -> Tensor:
    """The harmonic vocoder's pitch in Hz from class scores (..., PITCH_CLASSES): mean log F0 around the best class."""
    classes = torch.arange(PITCH_CLASSES, device=scores.device)
    best = scores.argmax(-1, keepdim=True)
    weights = scores.masked_fill((classes - best).abs() > NEIGHBOURS, -math.inf).softmax(-1)
    place = (weights * classes).sum(-1) / (PITCH_CLASSES - 1)
    return LOWEST_PITCH * (HIGHEST_PITCH / LOWEST_PITCH) ** place


def load_network(folder: Path) -> HarmonicNetwork:
    """Load the harmonic vocoder's network from `config.json` and `model.safetensors` (16 or 32 bit)."""
    config, weights = HarmonicConfig.read(folder / "config.json"), folder / "model.safetensors"
    with torch.device("meta"):
        network = HarmonicNetwork(config)
    try:
        network.load_state_dict(
            {name: tensor.float() for name, tensor in read_weights_file(weights).items()}, assign=True
        )
    except FileNotFoundError:
        raise VocoderError(f"{weights} is missing") from None
    except (RuntimeError, ValueError, SafetensorError, OSError) as error:
        first = str(error).splitlines()[-1].strip()
        raise VocoderError(f"{weights} does not hold the weights of the vocoder in its config.json: {first}") from None
    return network.eval().requires_grad_(False)
