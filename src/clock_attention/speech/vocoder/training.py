"""Training of the harmonic vocoder on recordings: by likelihood first, then also by distances and discriminators."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor
from torch.nn.functional import interpolate, pad

from clock_attention.files import make_folder, replacing, write_atomically
from clock_attention.speech.audio.mel import MelConfig, MelSpectrogram
from clock_attention.speech.audio.wave import load_audio
from clock_attention.speech.vocoder.analysis import Excitation, analyse
from clock_attention.speech.vocoder.harmonic import (
    BANDS,
    NOISE_BINS,
    NOISE_FFT,
    TONE_BINS,
    TONE_FFT,
    Block,
    HarmonicConfig,
    HarmonicNetwork,
)
from clock_attention.speech.vocoder.harmonic_synthesis import overlap_add, pulses, short_time
from clock_attention.speech.vocoder.losses import (
    EDGE,
    Discriminators,
    adversarial_loss,
    discriminator_loss,
    feature_loss,
    likelihood,
    pitch_loss,
    spectral_distance,
)

CHECKPOINT = "training.pt"
SUFFIXES = (".wav", ".flac")


@dataclass(frozen=True)
class VocoderTraining:
    """Lengths and weights of a training. The first `likelihood_steps` are by likelihood and pitch alone."""

    steps: int = 20000
    likelihood_steps: int = 1000
    batch: int = 8
    frames: int = 40
    learning_rate: float = 1e-3
    discriminator_rate: float = 5e-4
    likelihood: float = 0.05
    distance: float = 2.0
    mel: float = 3.0
    adversarial: float = 0.2
    features: float = 2.0
    largest_gradient: float = 5.0
    mel_noise: float = 0.12  # deviation, at most: mels of an acoustic model are not exact
    save_every: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        if self.frames < 16 or self.frames % 2:
            raise ValueError(f"crops need an even number of at least 16 frames, got {self.frames}")


def recordings(folders: Sequence[Path]) -> list[Path]:
    found = [file for folder in folders for file in sorted(folder.rglob("*")) if file.suffix.lower() in SUFFIXES]
    if not found:
        raise ValueError(f"no {' or '.join(SUFFIXES)} files in {', '.join(map(str, folders))}")
    return found


class Crops:
    """Random crops of analysed recordings, one behind another."""

    def __init__(self, excitations: Sequence[Excitation], config: MelConfig, generator: np.random.Generator) -> None:
        self.hop, self.pad, self.generator = config.hop_length, config.pad, generator
        self.wave = np.concatenate([each.wave for each in excitations])
        self.phase = np.concatenate([each.phase for each in excitations]).astype(np.float32)
        self.hertz = np.concatenate([each.hertz for each in excitations]).astype(np.float32)
        self.voiced = np.concatenate([each.voiced for each in excitations]).astype(np.float32)

    def draw(self, count: int, frames: int) -> tuple[Tensor, ...]:
        """Waves with the mel's padding, phases, pitches and voicing: (B, samples) twice, (B, frames) twice."""
        margin, rows = math.ceil(self.pad / self.hop), []
        if len(self.hertz) < frames + 2 * margin:
            raise ValueError(f"{len(self.hertz)} frames of recordings are too few for crops of {frames + 2 * margin}")
        for first in self.generator.integers(margin, len(self.hertz) - frames - margin + 1, count):
            begin, end = first * self.hop, (first + frames) * self.hop
            gain = np.exp(self.generator.uniform(-1.5, 0.5)) if self.generator.random() < 0.5 else 1.0
            wave = self.wave[begin - self.pad : end + self.pad] * np.float32(gain)
            inner = slice(first, first + frames)
            rows.append((wave, self.phase[begin:end], self.hertz[inner], self.voiced[inner]))
        return tuple(torch.from_numpy(np.stack(column)) for column in zip(*rows, strict=True))


def new_network(config: HarmonicConfig) -> HarmonicNetwork:
    """Random layers; the envelope is the mel's to begin with, and the learnt turn of the phase is none."""
    import librosa

    network = HarmonicNetwork(config)
    mel = config.mel
    centres = librosa.mel_frequencies(mel.n_mels + 2, fmin=mel.f_min, fmax=mel.f_max, htk=mel.mel_scale == "htk")[1:-1]
    network.to_bins.copy_(between(centres, np.linspace(0, mel.sample_rate / 2, TONE_BINS)))
    network.bands_to_bins.copy_(between(BANDS, np.linspace(0, mel.sample_rate / 2, NOISE_BINS)))
    near = np.maximum(0, 1 - np.abs(BANDS[None] - centres[:, None]) / 260)
    near[-1, centres[-1] - 250 < BANDS] = 1  # above the mel: as its highest bin
    network.to_bands.copy_(torch.from_numpy(near / (near.sum(0) + 1e-9)))
    with torch.no_grad():
        network.filters.last.weight.mul_(0.1)
        network.filters.last.bias.zero_()
        for backbone in (network.filters, network.pitch):
            for block in backbone.blocks:
                assert isinstance(block, Block)
                block.down.weight.mul_(0.3)
                block.down.bias.zero_()
    return network


def between(places: np.ndarray, wanted: np.ndarray) -> Tensor:
    """Matrix (places, wanted) of linear interpolation."""
    return torch.from_numpy(np.stack([np.interp(wanted, places, row) for row in np.eye(len(places))]))


class VocoderRun:
    """State of a training, and its steps."""

    def __init__(self, options: VocoderTraining, config: HarmonicConfig, crops: Crops) -> None:
        torch.manual_seed(options.seed)
        self.options, self.config, self.crops = options, config, crops
        self.network, self.judges = new_network(config), Discriminators()
        self.optimizer = torch.optim.AdamW(self.network.parameters(), options.learning_rate, betas=(0.9, 0.98))
        self.judging = torch.optim.AdamW(
            self.judges.parameters(), options.discriminator_rate, betas=(0.8, 0.98), weight_decay=0.0
        )
        self.mel = MelSpectrogram(config.mel)
        self.step = 0

    def advance(self) -> dict[str, float]:
        """One step; what it measured."""
        options = self.options
        waves, phase, hertz, voiced = self.crops.draw(options.batch, options.frames)
        target = waves[:, self.config.mel.pad : -self.config.mel.pad]
        mel = self.log_mel(waves)
        noisy = mel + torch.randn_like(mel) * options.mel_noise * torch.rand(len(mel), 1, 1)
        tone, log_noise = self.network(noisy)
        window = torch.hann_window(TONE_FFT)
        frequency = interpolate(hertz[:, None], scale_factor=self.config.mel.hop_length, mode="linear")[:, 0]
        voice = overlap_add(tone * short_time(pulses(phase, frequency), window), window)
        surprise = likelihood(target, voice, log_noise)
        pitch = pitch_loss(self.network.pitch(noisy), hertz, voiced)
        measured = {"likelihood": surprise.item(), "pitch": pitch.item()}
        if self.step < options.likelihood_steps:
            loss = surprise + pitch
        else:
            window = torch.hann_window(NOISE_FFT)
            hiss = overlap_add(log_noise.exp() * short_time(torch.randn_like(target), window), window)
            loss, more = self.compared(target, voice + hiss, mel)
            loss = loss + options.likelihood * surprise + pitch
            measured |= more
        share = self.step / options.steps
        update(self.optimizer, loss, options.learning_rate * schedule(share, self.step), options.largest_gradient)
        self.step += 1
        return measured

    def compared(self, target: Tensor, wave: Tensor, mel: Tensor) -> tuple[Tensor, dict[str, float]]:
        """Distances and the discriminators' opinion, which learn first."""
        options, inner = self.options, slice(EDGE, -EDGE)
        target, made = target[:, inner], wave[:, inner]
        real, fake = self.judges.judge(target), self.judges.judge(made.detach())
        judged = discriminator_loss(real, fake)
        rate = options.discriminator_rate * schedule(self.step / options.steps, self.step)
        update(self.judging, judged, rate, options.largest_gradient)
        self.judges.requires_grad_(False)
        fake = self.judges.judge(made)
        self.judges.requires_grad_(True)
        side = self.config.mel.pad
        copied = (self.log_mel(pad(wave, (side, side))) - mel)[:, 4:-4].abs().mean()
        distance = spectral_distance(target, made)
        adversarial, features = adversarial_loss(fake), feature_loss(real, fake)
        loss = options.distance * distance + options.mel * copied
        loss = loss + options.adversarial * adversarial + options.features * features
        names = ("distance", "mel", "adversarial", "features", "discriminator")
        values = (distance, copied, adversarial, features, judged)
        return loss, {name: value.item() for name, value in zip(names, values, strict=True)}

    def log_mel(self, padded: Tensor) -> Tensor:
        """(B, samples with padding) → (B, frames, n_mels)."""
        config = self.config.mel
        spectrum = torch.fft.rfft(padded.unfold(-1, config.n_fft, config.hop_length) * self.mel.window)
        size = (spectrum.real.square() + spectrum.imag.square() + config.magnitude_eps).sqrt()
        return (size @ self.mel.filters.T).clamp(min=config.log_floor).log()

    def save(self, folder: Path) -> None:
        state = {
            "step": self.step,
            "network": self.network.state_dict(),
            "judges": self.judges.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "judging": self.judging.state_dict(),
        }
        with replacing(folder / CHECKPOINT) as temporary:
            torch.save(state, temporary)
        write_vocoder(self.network, folder)

    def load(self, folder: Path) -> None:
        state = torch.load(folder / CHECKPOINT, map_location="cpu", weights_only=True)
        for name in ("network", "judges", "optimizer", "judging"):
            getattr(self, name).load_state_dict(state[name])
        self.step = state["step"]


def schedule(share: float, step: int) -> float:
    """Share of the learning rate: a short rise, then a cosine."""
    return min(1.0, (step + 1) / 150) * max(0.02, 0.5 * (1 + math.cos(math.pi * min(share, 1.0))))


def update(optimizer: torch.optim.Optimizer, loss: Tensor, rate: float, largest: float) -> None:
    """A step of this learning rate; none where the gradient is not finite."""
    optimizer.zero_grad()
    loss.backward()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if torch.nn.utils.clip_grad_norm_(parameters, largest).isfinite():
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()


def write_vocoder(network: HarmonicNetwork, folder: Path) -> None:
    """`config.json` and 16-bit weights: a folder that `load_vocoder` takes."""
    write_atomically(folder / "config.json", network.config.model_dump_json(indent=1) + "\n")
    state = {name: tensor.half().contiguous() for name, tensor in network.state_dict().items()}
    write_atomically(folder / "model.safetensors", save(state))


def train_vocoder(
    files: Sequence[Path],
    out: Path,
    options: VocoderTraining,
    config: HarmonicConfig,
    *,
    resume: bool = False,
    max_minutes: float | None = None,
    report: Callable[[int, dict[str, float]], None] = lambda step, measured: None,
) -> Path:
    """Analyse the recordings and train on them; `out` becomes a vocoder's folder. Interrupted, it can be resumed."""
    if not resume and (out / CHECKPOINT).exists():
        raise ValueError(f"{out} already holds a training: give --resume to continue it, or another folder")
    make_folder(out)
    excitations = [analyse(load_audio(file, config.mel.sample_rate), config.mel) for file in files]
    run = VocoderRun(options, config, Crops(excitations, config.mel, np.random.default_rng(options.seed)))
    if resume:
        run.load(out)
        run.crops.generator = np.random.default_rng([options.seed, run.step])  # not the crops of the beginning again
    began = time.monotonic()
    while run.step < options.steps and (max_minutes is None or time.monotonic() - began < 60 * max_minutes):
        measured = run.advance()
        report(run.step, measured)
        if run.step % options.save_every == 0:
            run.save(out)
    run.save(out)
    return out
