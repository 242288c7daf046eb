"""Log-mel frames from waveforms. One configuration object defines them, and is stored with corpora and voices."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn

from clock_attention.speech.audio.wave import Wave

# Upper bounds far above any definition in use: tables of these sizes are allocated.
Rate = Annotated[int, Field(gt=0, le=400_000)]
Samples = Annotated[int, Field(gt=0, le=16_384)]
Bins = Annotated[int, Field(gt=0, le=512)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]


class MelConfig(BaseModel):
    """A mel definition. Two presets: the paper's (torchaudio's defaults) and HiFi-GAN's, which its vocoders expect."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    sample_rate: Rate = 22050
    n_fft: Samples = 1024
    win_length: Samples = 1024
    hop_length: Samples = 256
    n_mels: Bins = 80
    f_min: NonNegative = 0.0
    f_max: Positive = 11025.0
    mel_scale: Literal["htk", "slaney"] = "htk"
    norm: Literal["slaney"] | None = None
    power: Literal[1, 2] = 2
    # Pad by reflection: n_fft // 2 as torch.stft's center=True does, or (n_fft - hop) // 2 as HiFi-GAN does.
    padding: Literal["center", "hop"] = "center"
    # Added under the square root of the magnitude (power = 1); HiFi-GAN's own constant.
    magnitude_eps: NonNegative = 0.0
    # Natural log of max(mel, log_floor).
    log_floor: Positive = 1e-7

    @model_validator(mode="after")
    def _consistent(self) -> MelConfig:
        if max(self.win_length, self.hop_length) > self.n_fft:
            raise ValueError(f"win_length {self.win_length} or hop_length {self.hop_length} exceeds n_fft {self.n_fft}")
        if not self.f_min < self.f_max <= self.sample_rate / 2:
            raise ValueError(
                f"need f_min < f_max <= sample_rate / 2, got {self.f_min}, {self.f_max}, {self.sample_rate}"
            )
        return self

    @classmethod
    def preset(cls, name: str) -> MelConfig:
        """ "paper" or "hifigan"."""
        if name not in MEL_PRESETS:
            raise ValueError(f"unknown mel preset {name!r}; choose one of {', '.join(MEL_PRESETS)}")
        return MEL_PRESETS[name]

    @property
    def frames_per_second(self) -> float:
        return self.sample_rate / self.hop_length

    def frames(self, samples: int) -> int:
        """Number of frames of a waveform."""
        return 1 + (samples + 2 * self.pad - self.n_fft) // self.hop_length

    @property
    def pad(self) -> int:
        return self.n_fft // 2 if self.padding == "center" else (self.n_fft - self.hop_length) // 2


MEL_PRESETS = {
    # Its floor is about the power of 16-bit quantisation noise in a narrow filter: all silences look alike.
    "paper": MelConfig(),
    "hifigan": MelConfig(
        f_max=8000.0,
        mel_scale="slaney",
        norm="slaney",
        power=1,
        padding="hop",
        magnitude_eps=1e-9,
        log_floor=1e-5,
    ),
}


class MelSpectrogram(nn.Module):
    """Waveform (samples,) or (B, samples) at the configured rate → log-mel (frames, n_mels) or (B, frames, n_mels)."""

    window: Tensor
    filters: Tensor

    def __init__(self, config: MelConfig) -> None:
        import librosa  # takes longer to import than everything else here together

        super().__init__()
        self.config = config
        filters = librosa.filters.mel(
            sr=config.sample_rate,
            n_fft=config.n_fft,
            n_mels=config.n_mels,
            fmin=config.f_min,
            fmax=config.f_max,
            htk=config.mel_scale == "htk",
            norm=config.norm,
        )
        self.register_buffer("window", torch.hann_window(config.win_length), persistent=False)
        self.register_buffer("filters", torch.from_numpy(filters), persistent=False)  # (n_mels, bins)

    def forward(self, wave: Tensor | Wave) -> Tensor:
        return self.linear(wave).clamp(min=self.config.log_floor).log()

    def linear(self, wave: Tensor | Wave) -> Tensor:
        """The mel before the logarithm: what torchaudio's MelSpectrogram returns, frames first."""
        config = self.config
        wave = torch.as_tensor(wave, dtype=torch.float32, device=self.window.device)
        if wave.shape[-1] <= config.pad:
            raise ValueError(
                f"{wave.shape[-1]} samples are too few for one frame: need more than {config.pad} "
                f"({config.pad / config.sample_rate:.3f} s)"
            )
        padded = nn.functional.pad(wave.reshape(-1, 1, wave.shape[-1]), (config.pad, config.pad), mode="reflect")
        spectrum = torch.stft(
            padded[:, 0],
            config.n_fft,
            config.hop_length,
            config.win_length,
            self.window,
            center=False,
            return_complex=True,
        )  # (B, bins, frames)
        energy = spectrum.real.square() + spectrum.imag.square()
        if config.power == 1:
            energy = (energy + config.magnitude_eps).sqrt()
        mel = (self.filters @ energy).transpose(-1, -2)  # (B, frames, n_mels)
        return mel.reshape(*wave.shape[:-1], *mel.shape[-2:])
