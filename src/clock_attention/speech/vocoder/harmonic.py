"""A small vocoder: the network draws filters at the mel's frame rate; pulses and noise pass through them.

    wave = iSTFT(H · STFT(pulses(F0))) + iSTFT(σ · STFT(white noise))

F0 is estimated from the mel. H (magnitude, minimum phase and a learnt turn) has 257 bins every 128 samples; σ has wide
bands every 64 samples, because noise needs time resolution and must not imitate harmonics. All layers are products of
matrices over at most three frames, so the reach is finite (`HarmonicConfig.context`).
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import gelu, interpolate, pad

from clock_attention.speech.audio.mel import PRESETS, MelConfig
from clock_attention.speech.vocoder.hifigan import VocoderError

# A mel is normalised by these before the first layer: about the mean and deviation of speech.
MEL_MEAN, MEL_SCALE = -5.0, 2.2
TONE_FFT, NOISE_FFT = 512, 256
TONE_BINS, NOISE_BINS = TONE_FFT // 2 + 1, NOISE_FFT // 2 + 1
# Centres of the noise bands in Hz: wider apart than harmonics are.
BANDS = np.concatenate([np.arange(0, 4001, 250), np.linspace(4000, 11025, 16)[1:]])
LOWEST_PITCH, HIGHEST_PITCH, PITCH_CLASSES = 60.0, 600.0, 192
NEIGHBOURS = 4  # classes to each side of the best that the pitch is averaged over

Width = Annotated[int, Field(ge=1, le=4096)]
Dilations = Annotated[tuple[Annotated[int, Field(ge=1, le=64)], ...], Field(min_length=1, max_length=64)]


class HarmonicConfig(BaseModel):
    """What is in `config.json` beside the weights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    width: Width = 256
    hidden: Width = 512
    dilations: Dilations = (1, 2, 4, 1, 2, 4, 1, 2)
    pitch_width: Width = 192
    pitch_hidden: Width = 384
    pitch_dilations: Dilations = (1, 2, 3, 1, 2)
    mel: MelConfig = PRESETS["hifigan"]

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
            raise VocoderError(f"{path} is missing: it says how the vocoder beside it is built") from None
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "config"
            raise VocoderError(f"{path} does not describe a harmonic vocoder: {where}: {first['msg']}") from None
        except (ValueError, RecursionError) as error:
            raise VocoderError(f"{path} is not JSON: {error}") from None

    @property
    def context(self) -> int:
        """Mel frames to each side that a frame of filters or of pitch depends on."""
        return 1 + max(sum(self.dilations), sum(self.pitch_dilations))


def three_frames(x: Tensor, dilation: int) -> Tensor:
    """(B, T, C) → (B, T, 3 C): each frame between the ones `dilation` before and after it, zeros outside."""
    padded = pad(x, (0, 0, dilation, dilation))
    return torch.cat([padded[:, : -2 * dilation], x, padded[:, 2 * dilation :]], -1)


class Block(nn.Module):
    """x + down(gelu(up(three frames of norm(x))))."""

    def __init__(self, width: int, hidden: int, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(3 * width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        hidden = gelu(self.up(three_frames(self.norm(x), self.dilation)), approximate="tanh")
        return x + self.down(hidden)


class Backbone(nn.Module):
    """log-mel (B, T, n_mels) → features (B, T, outputs)."""

    def __init__(self, n_mels: int, width: int, hidden: int, dilations: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        self.first = nn.Linear(3 * n_mels, width)
        self.blocks = nn.ModuleList(Block(width, hidden, dilation) for dilation in dilations)
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, outputs)

    def forward(self, mel: Tensor) -> Tensor:
        x = self.first(three_frames((mel - MEL_MEAN) / MEL_SCALE, 1))
        for block in self.blocks:
            x = block(x)
        return self.last(self.norm(x))


class HarmonicNetwork(nn.Module):
    """log-mel → filters of the harmonic and the noise part, and the pitch."""

    to_bins: Tensor
    to_bands: Tensor
    bands_to_bins: Tensor

    def __init__(self, config: HarmonicConfig) -> None:
        super().__init__()
        self.config = config
        n_mels, hop = config.mel.n_mels, config.mel.hop_length
        self.tones, self.noises = hop // (TONE_FFT // 4), hop // (NOISE_FFT // 4)  # filters per mel frame
        outputs = self.tones * 3 * TONE_BINS + self.noises * len(BANDS)
        self.filters = Backbone(n_mels, config.width, config.hidden, config.dilations, outputs)
        self.pitch = Backbone(n_mels, config.pitch_width, config.pitch_hidden, config.pitch_dilations, PITCH_CLASSES)
        # Where each mel bin lies among spectrum bins and noise bands: the envelope to begin with, which learning bends.
        self.register_buffer("to_bins", torch.zeros(n_mels, TONE_BINS))
        self.register_buffer("to_bands", torch.zeros(n_mels, len(BANDS)))
        self.register_buffer("bands_to_bins", torch.zeros(len(BANDS), NOISE_BINS))

    def forward(self, mel: Tensor) -> tuple[Tensor, Tensor]:
        """log-mel (B, T, n_mels) → H (B, T · tones, bins), complex, and log σ (B, T · noises, noise bins)."""
        batch, frames, _ = mel.shape
        features = self.filters(mel).float()
        mel = mel.float()
        split = self.tones * 3 * TONE_BINS
        shape = features[..., :split].reshape(batch, frames * self.tones, 3, TONE_BINS)
        log_tone = (shape[:, :, 0] + finer(mel, self.tones) @ self.to_bins - 2).clamp(-16, 4)
        bands = features[..., split:].reshape(batch, frames * self.noises, len(BANDS))
        log_noise = ((bands + finer(mel, self.noises) @ self.to_bands - 2) @ self.bands_to_bins).clamp(-13, 2)
        turn = torch.complex(1 + shape[:, :, 1], shape[:, :, 2])
        turn = turn * (turn.real.square() + turn.imag.square() + 1e-6).rsqrt()
        return torch.polar(log_tone.exp(), minimum_phase(log_tone)) * turn, log_noise

    def frequency(self, mel: Tensor) -> Tensor:
        """log-mel (B, T, n_mels) → F0 in Hz (B, T), also where there is no voice."""
        return pitch_of(self.pitch(mel))


def finer(mel: Tensor, rate: int) -> Tensor:
    """(B, T, n) → (B, T · rate, n), linearly between the middles of frames."""
    return interpolate(mel.transpose(1, 2), scale_factor=rate, mode="linear").transpose(1, 2)


def minimum_phase(log_magnitude: Tensor) -> Tensor:
    """Phase (..., bins) of the minimum-phase filter: the causal half of the cepstrum, doubled."""
    cepstrum = torch.fft.irfft(torch.complex(log_magnitude, torch.zeros_like(log_magnitude)))
    half = cepstrum.shape[-1] // 2
    causal = torch.cat([cepstrum[..., :1], 2 * cepstrum[..., 1:half], cepstrum[..., half : half + 1]], -1)
    return torch.fft.rfft(causal, n=2 * half).imag


def pitch_of(logits: Tensor) -> Tensor:
    """Class scores (..., PITCH_CLASSES) → Hz: the mean of log F0 around the best class."""
    classes = torch.arange(PITCH_CLASSES, device=logits.device)
    best = logits.argmax(-1, keepdim=True)
    weights = logits.float().masked_fill((classes - best).abs() > NEIGHBOURS, -math.inf).softmax(-1)
    place = (weights * classes).sum(-1) / (PITCH_CLASSES - 1)
    return LOWEST_PITCH * (HIGHEST_PITCH / LOWEST_PITCH) ** place


def load_network(folder: Path) -> HarmonicNetwork:
    """From `config.json` and `model.safetensors` (16 or 32 bit)."""
    config, weights = HarmonicConfig.read(folder / "config.json"), folder / "model.safetensors"
    with torch.device("meta"):
        network = HarmonicNetwork(config)
    try:
        network.load_state_dict({name: tensor.float() for name, tensor in load_file(weights).items()}, assign=True)
    except FileNotFoundError:
        raise VocoderError(f"{weights} is missing") from None
    except (RuntimeError, SafetensorError, OSError) as error:
        first = str(error).splitlines()[-1].strip()
        raise VocoderError(f"{weights} does not hold the weights of the vocoder in its config.json: {first}") from None
    return network.eval().requires_grad_(False)
