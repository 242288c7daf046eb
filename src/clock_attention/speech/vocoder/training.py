"""Trains the harmonic vocoder on recordings, starting from another one, with spectral distances and discriminators."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from clock_attention.files import make_folder, replacing, write_atomically
from clock_attention.speech.audio.sound_reading import load_audio
from clock_attention.speech.audio.wave import Wave, resample
from clock_attention.speech.bfloat16 import bfloat16_where_fast
from clock_attention.speech.vocoder.analysis import Analysed, Analysis
from clock_attention.speech.vocoder.checked_weights import packed_weights
from clock_attention.speech.vocoder.distillation import SILENT, SPARE, crop, pitch_losses
from clock_attention.speech.vocoder.harmonic import (
    FFT,
    HOP,
    RATE,
    HarmonicNetwork,
    load_network,
    mel_places,
    normalised_mel,
)
from clock_attention.speech.vocoder.harmonic_synthesis import (
    excitation,
    filled_spectra,
    overlap_add,
    spectrum_of_pulses,
)
from clock_attention.speech.vocoder.losses import (
    Discriminators,
    adversarial_loss,
    discriminator_loss,
    feature_loss,
    spectral_distance,
)

CHECKPOINT = "training.pt"
LOWEST_FACTOR, HIGHEST_FACTOR = 0.85, 1.25  # slower recordings would lack the band above 9 kHz
SUFFIXES = (".wav", ".flac")
MOST_SKIPPED = 20  # consecutive steps without a finite gradient; a single one does no harm
EDGE = 16  # spectra at both ends of a crop whose context its mel does not fully cover


@dataclass(frozen=True)
class VocoderTraining:
    """Options of vocoder training: lengths, rates and weights."""

    steps: int = 1000
    batch: int = 8
    frames: int = 96  # spectra per crop
    learning_rate: float = 4e-4
    decoder_rate: float = 2e-4  # learning rate of decoder, norm and head
    discriminator_rate: float = 1e-3
    discriminator_from: int = 600  # before this step only spectral distances are used, at a third of the cost
    discriminator_rise: int = 300  # steps over which the discriminators' weight grows, because they have to learn first
    distance: float = 1.5
    adversarial: float = 0.1
    features: float = 2.0
    largest_gradient: float = 5.0
    mel_noise: float = 0.1  # maximum standard deviation; added because mels of an acoustic model are not exact
    other_voices: float = 0.35  # share of recordings that are resampled to sound like other speakers
    save_every: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        if self.frames < 2 * EDGE + 16:
            raise ValueError(f"crops need at least {2 * EDGE + 16} frames, got {self.frames}")


def recordings(folders: Sequence[Path]) -> list[Path]:
    """Find audio files to train a vocoder on, in folders and their subfolders."""
    found = [file for folder in folders for file in sorted(folder.rglob("*")) if file.suffix.lower() in SUFFIXES]
    if not found:
        raise ValueError(f"no {' or '.join(SUFFIXES)} files in {', '.join(map(str, folders))}")
    return found


def varied(waves: Iterable[Wave], rate: int, options: VocoderTraining) -> Iterator[Wave]:
    """Vary waves for vocoder training: some are resampled to sound like other speakers."""
    generator = np.random.default_rng(options.seed)
    for wave in waves:
        factor = math.exp(generator.uniform(math.log(LOWEST_FACTOR), math.log(HIGHEST_FACTOR)))
        yield resample(wave, round(rate * factor), rate) if generator.random() < options.other_voices else wave


class Crops:
    """Random crops of analysed recordings for vocoder training; longer recordings are drawn more often."""

    def __init__(self, analysed: Sequence[Analysed], ratio: float, frames: int) -> None:
        self.ratio, self.frames = ratio, frames
        self.usable = [each for each in analysed if len(each.frequency) > frames + SPARE]
        if not self.usable:
            seconds = (frames + SPARE) * HOP / RATE
            raise ValueError(f"none of {len(analysed)} recordings lasts {seconds:.1f} seconds, which a crop needs")
        lengths = np.array([len(each.frequency) for each in self.usable], float)
        self.shares = lengths / lengths.sum()

    def draw(self, count: int, generator: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Mel (B, T, n_mels), F0 (B, N) and wave (B, N · HOP) of random crops, louder or softer than recorded."""
        rows = []
        for each in (self.usable[i] for i in generator.choice(len(self.usable), count, p=self.shares)):
            mel, inner = crop(each.mel, len(each.frequency), self.frames, self.ratio, generator)
            gain = math.exp(0.3 * generator.standard_normal())
            mel = (mel + math.log(gain)).clamp(min=SILENT)
            rows.append((mel, each.frequency[inner], each.wave[inner.start * HOP : inner.stop * HOP] * gain))
        mels, frequencies, waves = zip(*rows, strict=True)
        return torch.stack(mels), torch.stack(frequencies), torch.stack(waves)


def synthesised(drawn: Tensor, frequency: Tensor, phase: Tensor) -> Tensor:
    """Wave for vocoder training, from spectra (B, N, 4 · BINS) and pulses of F0 (B, N) that start at `phase`."""
    window = torch.hann_window(FFT, device=drawn.device)
    edges = pad(frequency[:, None], (1, 1), mode="replicate")[:, 0]
    waves = [excitation(row, start)[0].flatten() for row, start in zip(edges, phase, strict=True)]
    source = spectrum_of_pulses(pad(torch.stack(waves), (2 * HOP, HOP)), window)
    return overlap_add(filled_spectra(drawn, source), window)[:, 2 * HOP : -HOP]


class VocoderRun:
    """State and steps of a vocoder's training."""

    def __init__(self, options: VocoderTraining, network: HarmonicNetwork, crops: Crops) -> None:
        torch.manual_seed(options.seed)
        self.options, self.network, self.crops = options, network.train().requires_grad_(True), crops
        self.judges = Discriminators()
        given = [*network.decoder.parameters(), *network.norm.parameters(), *network.head.parameters()]
        kept = {id(parameter) for parameter in given}
        reading = [parameter for parameter in network.parameters() if id(parameter) not in kept]
        self.rates = (options.learning_rate, options.decoder_rate)
        self.optimizer = torch.optim.AdamW([{"params": reading}, {"params": given}], betas=(0.8, 0.98))
        self.judging = torch.optim.AdamW(self.judges.parameters(), betas=(0.8, 0.98), weight_decay=0.0)
        self.places = mel_places(network.config, 0, options.frames)
        self.step = self.skipped = 0

    def advance(self) -> dict[str, float]:
        """Do one training step; returns its losses."""
        options, network = self.options, self.network
        generator = np.random.default_rng([options.seed, self.step])  # so that a resumed training draws the same crops
        torch.manual_seed(int(generator.integers(2**31)))
        mel, frequency, target = self.crops.draw(options.batch, generator)
        mel = mel + torch.randn_like(mel) * options.mel_noise * torch.rand(len(mel), 1, 1)
        with bfloat16_where_fast(mel):
            drawn = network(mel, frequency, self.places)
            classes, voicing = network.pitch(normalised_mel(mel))
        pitch = pitch_losses(classes.float(), voicing.float(), frequency, self.places)
        inner = slice(EDGE * HOP, -EDGE * HOP)
        made = synthesised(drawn, frequency, torch.rand(len(mel), dtype=torch.float64))[:, inner]
        target = target[:, inner]
        share = schedule(self.step / options.steps, self.step)
        measured = {"distance": spectral_distance(target, made), **pitch}
        loss = options.distance * measured["distance"] + sum(pitch.values(), start=torch.zeros(()))
        judging = self.step >= options.discriminator_from
        if judging:
            real, fake = self.judges.judge(target), self.judges.judge(made)
            judged = discriminator_loss(real, fake)
            # Both gradients come from one pass through the discriminators, each for its own parameters only.
            gradients(self.judging, judged, retain=True)
            say = min(1.0, (self.step - options.discriminator_from) / max(1, options.discriminator_rise))
            measured |= {"adversarial": adversarial_loss(fake), "features": feature_loss(real, fake)}
            loss = loss + say * options.adversarial * measured["adversarial"]
            loss = loss + say * options.features * measured["features"]
            measured["discriminator"] = judged
        gradients(self.optimizer, loss)
        finite = update(self.optimizer, [rate * share for rate in self.rates], options.largest_gradient)
        if judging:
            finite &= update(self.judging, [options.discriminator_rate * max(share, 0.3)], options.largest_gradient)
        self.skipped = 0 if finite else self.skipped + 1
        if self.skipped == MOST_SKIPPED:
            raise FloatingPointError(f"step {self.step}: gradients have not been finite for {MOST_SKIPPED} steps")
        self.step += 1
        return {name: value.item() for name, value in measured.items()}

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
    """Learning-rate schedule of vocoder training, as a factor: a short warm-up, then a cosine."""
    return min(1.0, (step + 1) / 100) * max(0.05, 0.5 * (1 + math.cos(math.pi * min(share, 1.0))))


def parameters_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """All parameters of an optimizer of vocoder training."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def gradients(optimizer: torch.optim.Optimizer, loss: Tensor, retain: bool = False) -> None:
    """Compute a vocoder training loss's gradients for this optimizer's parameters only."""
    optimizer.zero_grad()
    loss.backward(inputs=parameters_of(optimizer), retain_graph=retain)


def update(optimizer: torch.optim.Optimizer, rates: Sequence[float], largest: float) -> bool:
    """Do an optimizer step of vocoder training; returns False and skips it if the gradient is not finite."""
    finite = bool(torch.nn.utils.clip_grad_norm_(parameters_of(optimizer), largest).isfinite())
    if finite:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        optimizer.step()
    return finite


def write_vocoder(network: HarmonicNetwork, folder: Path) -> None:
    """Write a trained vocoder as a folder for `load_vocoder`: `config.json` and 16-bit weights."""
    write_atomically(folder / "config.json", network.config.model_dump_json(indent=1) + "\n")
    state = {name: tensor.half().contiguous() for name, tensor in network.state_dict().items()}
    write_atomically(folder / "model.safetensors", packed_weights(state))


def train_vocoder(
    files: Sequence[Path],
    out: Path,
    options: VocoderTraining,
    start: Path,
    *,
    resume: bool = False,
    max_minutes: float | None = None,
    report: Callable[[int, dict[str, float]], None] = lambda step, measured: None,
) -> Path:
    """Train a vocoder on recordings, starting from the vocoder in `start`; `out` becomes a vocoder folder.

    An interrupted training can be resumed.
    """
    if not resume and (out / CHECKPOINT).exists():
        raise ValueError(f"{out} already holds a training: resume it, or choose another folder")
    make_folder(out)
    network = load_network(start)
    analysis = Analysis(network.config)
    rate = network.config.mel.sample_rate
    analysed = [analysis(wave) for wave in varied((load_audio(file, rate) for file in files), rate, options)]
    run = VocoderRun(options, network, Crops(analysed, network.config.ratio, options.frames))
    if resume:
        run.load(out)
    began = time.monotonic()
    while run.step < options.steps and (max_minutes is None or time.monotonic() - began < 60 * max_minutes):
        measured = run.advance()
        report(run.step, measured)
        if run.step % options.save_every == 0:
            run.save(out)
    run.save(out)
    return out
