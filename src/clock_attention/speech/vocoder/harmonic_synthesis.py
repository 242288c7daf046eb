"""The harmonic vocoder at work: excitation, filtering, overlap-add, block by block.

Blocks lie on a fixed grid of frames, whatever pieces the mel arrives in. So a stream is the whole, bit by bit, and
memory does not grow with length.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.vocoder.harmonic import NOISE_FFT, TONE_FFT, HarmonicNetwork, load_network

HIGHEST_HARMONIC = 10500.0  # Hz
# Frames in a block: short ones first, so that sound begins soon; long ones later, so that little is computed twice.
FIRST_BLOCKS, BLOCK = (24, 40, 64), 128
MARGIN = 2  # frames of excitation to each side of a block that overlapping windows reach


def pulses(phase: Tensor, frequency: Tensor) -> Tensor:
    """Σ cos(2π h · phase) over harmonics below `HIGHEST_HARMONIC`, in closed form. Phase in cycles."""
    angle = 2 * math.pi * phase
    harmonics = torch.floor(HIGHEST_HARMONIC / frequency) + 0.5
    below = 2 * torch.sin(angle / 2)
    peak = below.abs() < 2e-3
    return torch.where(peak, harmonics, torch.sin(harmonics * angle) / below.masked_fill(peak, 1.0)) - 0.5


def short_time(wave: Tensor, window: Tensor) -> Tensor:
    """(B, samples) → (B, samples / hop, bins), four windows overlapping, each in the middle of its hop.

    Scaled so that white noise of unit variance has unit variance.
    """
    size, hop = len(window), len(window) // 4
    padded = pad(wave, ((size - hop) // 2, (size - hop) // 2))
    return torch.fft.rfft(padded.unfold(-1, size, hop) * window) / window.square().sum().sqrt()


def overlap_add(spectrum: Tensor, window: Tensor) -> Tensor:
    """(B, frames, bins) → (B, frames · hop): undoes `short_time`, but for the outermost windows."""
    size, hop = len(window), len(window) // 4
    pieces = torch.fft.irfft(spectrum, size) * (window * window.square().sum().sqrt() / 1.5)  # Σ hann² = 1.5
    quarters = pieces.unflatten(-1, (4, hop))  # (B, frames, 4, hop)
    wave = sum((pad(quarters[:, :, k], (0, 0, k, 3 - k)) for k in range(1, 4)), pad(quarters[:, :, 0], (0, 0, 0, 3)))
    begin = (size - hop) // 2
    return wave.flatten(1)[:, begin : begin + spectrum.shape[1] * hop]


def block_edges() -> Iterator[int]:
    """Ends of blocks on the grid of frames."""
    end = 0
    for size in FIRST_BLOCKS:
        yield (end := end + size)
    while True:
        yield (end := end + BLOCK)


class HarmonicVocoder:
    """log-mel (frames, n_mels) → wave, whole or as a stream; the noise is drawn from `seed`."""

    def __init__(
        self, folder: Path, *, name: str = "harmonic", seed: int = 0, device: torch.device | str = "cpu"
    ) -> None:
        self.name, self.folder, self.seed = name, folder, seed
        self.device = torch.device(device)
        self.network: HarmonicNetwork = load_network(folder).to(self.device)
        self.tone_window = torch.hann_window(TONE_FFT, device=self.device)
        self.noise_window = torch.hann_window(NOISE_FFT, device=self.device)

    @cached_property
    def fingerprint(self) -> str:
        files = (self.folder / "model.safetensors", self.folder / "config.json")
        return hashlib.sha256(b"\0".join([*(file.read_bytes() for file in files), b"%d" % self.seed])).hexdigest()[:16]

    @property
    def mel(self) -> MelConfig:
        return self.network.config.mel

    def __call__(self, mel: Tensor) -> Wave:
        if mel.ndim != 2 or not len(mel):
            raise ValueError(f"expected log-mel frames of shape (frames >= 1, n_mels), got {tuple(mel.shape)}")
        return np.concatenate(list(self.stream([mel])))

    def stream(self, pieces: Iterable[Tensor]) -> Iterator[Wave]:
        """Waves as soon as the frames that they depend on are there. Joined, they are the wave of the joined mel."""
        synthesis = Synthesis(self)
        for mel in pieces:
            if mel.ndim != 2 or mel.shape[1] != self.mel.n_mels:
                raise ValueError(
                    f"expected log-mel frames of shape (frames, {self.mel.n_mels}), got {tuple(mel.shape)}"
                )
            yield from synthesis.push(mel)
        yield from synthesis.finish()


class Synthesis:
    """One utterance in the making: frames not yet needed for the last time, the phase, and the noise drawn so far."""

    def __init__(self, vocoder: HarmonicVocoder) -> None:
        self.vocoder, self.network = vocoder, vocoder.network
        # What a sample depends on: windows reach MARGIN frames, the pitch between frames one more, then the network.
        self.context = self.network.config.context + MARGIN + 2
        self.hop = vocoder.mel.hop_length
        self.frames = torch.zeros(0, vocoder.mel.n_mels, device=vocoder.device)
        self.first = 0  # index of the first frame kept
        self.done = 0  # frames spoken
        self.edges = block_edges()
        self.edge = next(self.edges)
        self.phase = 0.0  # cycles at the first sample of frame `done - MARGIN`
        self.generator = np.random.default_rng(vocoder.seed)
        self.noise = np.zeros(0, np.float32)  # from frame max(0, done - MARGIN) on

    def push(self, mel: Tensor) -> Iterator[Wave]:
        self.frames = torch.cat([self.frames, mel.detach().to(self.frames)])
        while self.first + len(self.frames) >= self.edge + self.context:
            yield self._block(self.edge)
            self.edge = next(self.edges)

    def finish(self) -> Iterator[Wave]:
        end = self.first + len(self.frames)
        while self.done < end:
            yield self._block(min(self.edge, end))
            self.edge = next(self.edges)

    @torch.inference_mode()
    def _block(self, end: int) -> Wave:
        """The wave of frames `done` … `end`."""
        network, hop, start = self.network, self.hop, self.done
        total = self.first + len(self.frames)
        begin, stop = max(0, start - self.context), min(total, end + self.context)
        mel = self.frames[None, begin - self.first : stop - self.first]
        tone, log_noise = network(mel)
        frequency = network.frequency(mel)[:, None]  # (1, 1, frames)
        # Excitation of the block and of what its outermost windows reach.
        left, right = max(0, start - MARGIN), min(total, end + MARGIN)
        inner = slice((left - begin) * hop, (right - begin) * hop)
        hertz = interpolate(frequency, scale_factor=hop, mode="linear")[0, :, inner]  # (1, samples)
        phase = self.phase + torch.cumsum(hertz.double() / self.vocoder.mel.sample_rate, -1)
        source = pulses(phase.remainder(1).float(), hertz)
        noise = self._draw((right - left) * hop).to(source)[None]
        tone = tone[:, (left - begin) * network.tones : (right - begin) * network.tones]
        log_noise = log_noise[:, (left - begin) * network.noises : (right - begin) * network.noises]
        vocoder = self.vocoder
        voiced = overlap_add(tone * short_time(source, vocoder.tone_window), vocoder.tone_window)
        hiss = overlap_add(log_noise.exp() * short_time(noise, vocoder.noise_window), vocoder.noise_window)
        wave = (voiced + hiss)[0, (start - left) * hop : (end - left) * hop].clamp(-1, 1)
        # Keep what the next block needs.
        self.done, following = end, max(0, end - MARGIN)
        if following > left:
            self.phase = phase[0, (following - left) * hop - 1].item()
            self.noise = self.noise[(following - left) * hop :]
        keep = max(0, end - self.context)
        self.frames, self.first = self.frames[keep - self.first :].clone(), keep
        return wave.cpu().numpy()

    def _draw(self, samples: int) -> Tensor:
        """Noise from where the last block's was kept; what was drawn before is used again."""
        missing = samples - len(self.noise)
        if missing > 0:
            fresh = self.generator.standard_normal(missing, dtype=np.float32)
            self.noise = np.concatenate([self.noise, fresh])
        return torch.from_numpy(self.noise[:samples])
