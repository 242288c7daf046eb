"""Synthesis with the harmonic vocoder, block by block: pulses, spectra, overlap-add, resampling.

Blocks lie on a fixed grid of frames, however the mel is split into chunks. So streaming gives the same
samples as offline synthesis, bit for bit, and memory use does not grow with length.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.vocoder.harmonic import (
    FFT,
    HOP,
    LOUDEST,
    RATE,
    SPECTRUM_BINS,
    HarmonicNetwork,
    load_network,
    mel_places,
)

LEAST_HERTZ, HIGHEST_HARMONIC = 40.0, 11000.0  # F0 below the first counts as unvoiced
# Spectra per block: few at first, so that sound starts early; many later, because each block recomputes its context.
FIRST_BLOCKS, BLOCK = (32,), 256
# Hop m depends on spectra m − 1 … m + 2, spectrum k on hops k − 2 … k + 1, pulses on the pitch of adjacent hops.
OVERLAP, SOURCE = 3, 4  # hops and pitch frames on each side of a block that it depends on
INPUT, OUTPUT, TAPS = 160, 147, 32  # resampling: INPUT samples at 24,000 Hz give OUTPUT at 22,050 Hz; taps per side


def pulses(phase: Tensor, frequency: Tensor) -> Tensor:
    """Pulses of the harmonic synthesis: Σ cos(2π h · phase) below `HIGHEST_HARMONIC`, in closed form. Phase in cycles.

    The next harmonic is faded in, so that the sum does not jump when a gliding pitch makes room for it.
    """
    angle = 2 * math.pi * phase
    count = torch.floor(HIGHEST_HARMONIC / frequency)
    below = 2 * torch.sin(angle / 2)
    peak = below.abs() < 2e-3
    whole = torch.where(peak, count + 0.5, torch.sin((count + 0.5) * angle) / below.masked_fill(peak, 1.0)) - 0.5
    return whole + (HIGHEST_HARMONIC / frequency - count) * torch.cos((count + 1) * angle)


def excitation(frequency: Tensor, phase: Tensor) -> tuple[Tensor, Tensor]:
    """Excitation of the harmonic synthesis: pulses over the inner hops of F0 (N + 2,), from `phase`; 0 if unvoiced.

    Returns the wave and the phase after every sample, in cycles: (N, HOP) twice. A frame's pitch applies to the middle
    of its hop and is interpolated linearly in between.
    """
    double = frequency.double()
    share = (torch.arange(HOP, device=frequency.device) + 0.5) / HOP - 0.5  # from the middle of a hop, in hops
    near, before, after = double[1:-1, None], double[:-2, None], double[2:, None]
    hertz = near + share.abs() * (torch.where(share < 0, before, after) - near)  # (N, HOP)
    voiced = hertz > LEAST_HERTZ
    hertz = hertz.clamp(min=LEAST_HERTZ)
    cycles = phase + (hertz.flatten().cumsum(0) / RATE).view_as(hertz)
    # Phase is centred on 0, where the pulses are, so that rounding errors are relative to the distance from them.
    return pulses(((cycles + 0.5) % 1.0 - 0.5).float(), hertz.float()) * voiced, cycles


def spectrum_of_pulses(wave: Tensor, window: Tensor) -> Tensor:
    """Short-time spectra of pulses for harmonic synthesis: (..., samples) → (..., samples / HOP − 3, BINS)."""
    return torch.fft.rfft(wave.unfold(-1, FFT, HOP) * (window / (FFT / 4)))


def filled_spectra(drawn: Tensor, source: Tensor) -> Tensor:
    """Spectra of the wave in harmonic synthesis, from network outputs (..., N, 4 · BINS) and pulses (..., N, BINS)."""
    loudness, turn, rest, phase = drawn.float().split(SPECTRUM_BINS, -1)
    voice = torch.polar(loudness.clamp(max=LOUDEST).exp(), math.pi * torch.tanh(turn)) * source
    return voice + torch.polar(rest.clamp(max=LOUDEST).exp(), phase)


def overlap_add(spectra: Tensor, window: Tensor) -> Tensor:
    """Overlap-add of harmonic synthesis: (..., N, BINS) → (..., (N + 3) · HOP), windowed; Σ hann² = 1.5."""
    quarters = (torch.fft.irfft(spectra, FFT) * (window / 1.5)).unflatten(-1, (FFT // HOP, HOP))  # (..., N, 4, HOP)
    parts = [pad(quarters[..., k, :], (0, 0, k, 3 - k)) for k in range(4)]
    return (parts[0] + parts[1] + parts[2] + parts[3]).flatten(-2)


@cache
def resampling() -> Tensor:
    """Resampling matrix of harmonic synthesis (INPUT + 2 TAPS, OUTPUT), 24,000 to 22,050 Hz, by a windowed sinc."""
    place = np.arange(OUTPUT)[None] * INPUT / OUTPUT + TAPS
    distance = np.arange(INPUT + 2 * TAPS)[:, None] - place  # in samples at the higher rate
    cut = 0.97 * OUTPUT / INPUT
    window = np.where(np.abs(distance) < TAPS, np.i0(8.0 * np.sqrt(np.maximum(0, 1 - (distance / TAPS) ** 2))), 0)
    taps = np.sinc(cut * distance) * window
    return torch.from_numpy((taps / taps.sum(0)).astype(np.float32))


def block_edges() -> Iterator[int]:
    """Block ends on the grid of spectra, for harmonic synthesis."""
    end = 0
    for size in FIRST_BLOCKS:
        yield (end := end + size)
    while True:
        yield (end := end + BLOCK)


class HarmonicVocoder:
    """The harmonic vocoder: log-mel (frames, n_mels) → wave, whole or as a stream."""

    def __init__(self, folder: Path, *, name: str = "harmonic", device: torch.device | str = "cpu") -> None:
        self.name, self.folder = name, folder
        self.device = torch.device(device)
        self.network: HarmonicNetwork = load_network(folder).to(self.device)
        self.window = torch.hann_window(FFT, device=self.device)

    @cached_property
    def fingerprint(self) -> str:
        files = (self.folder / "model.safetensors", self.folder / "config.json")
        return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]

    @property
    def mel(self) -> MelConfig:
        return self.network.config.mel

    def __call__(self, mel: Tensor) -> Wave:
        if mel.ndim != 2 or not len(mel):
            raise ValueError(f"expected log-mel frames of shape (frames >= 1, n_mels), got {tuple(mel.shape)}")
        return np.concatenate(list(self.stream([mel])))

    def stream(self, pieces: Iterable[Tensor]) -> Iterator[Wave]:
        """Yield audio as soon as the frames it depends on have arrived; joined, it is the wave of the joined mel."""
        synthesis = HarmonicStream(self)
        for mel in pieces:
            if mel.ndim != 2 or mel.shape[1] != self.mel.n_mels:
                raise ValueError(
                    f"expected log-mel frames of shape (frames, {self.mel.n_mels}), got {tuple(mel.shape)}"
                )
            yield from synthesis.push(mel)
        yield from synthesis.finish()


class HarmonicStream:
    """Harmonic synthesis of one utterance as a stream; keeps only the mel, phase and samples that are still needed."""

    def __init__(self, vocoder: HarmonicVocoder) -> None:
        self.vocoder, self.network = vocoder, vocoder.network
        self.config = self.network.config
        self.reach = self.config.context + SOURCE  # spectra on each side that a block depends on
        self.mel = torch.zeros(0, vocoder.mel.n_mels, device=vocoder.device)
        self.first = 0  # index of the first mel frame kept
        self.done = 0  # hops synthesised
        self.edges = block_edges()
        self.edge = next(self.edges)
        self.phase = torch.zeros((), dtype=torch.float64, device=vocoder.device)  # before hop max(0, done − OVERLAP)
        self.samples = torch.zeros(TAPS, device=vocoder.device)  # at 24,000 Hz, starting TAPS before the next output
        self.spoken = 0  # samples returned at 22,050 Hz

    def push(self, mel: Tensor) -> Iterator[Wave]:
        self.mel = torch.cat([self.mel, mel.detach().to(self.mel)])
        while self.first + len(self.mel) >= self.mel_needed(self.edge + self.reach):
            yield from self._block(self.edge, self.edge + self.reach)
            self.edge = next(self.edges)

    def finish(self) -> Iterator[Wave]:
        total = (self.first + len(self.mel)) * self.vocoder.mel.hop_length
        if not total:
            return
        last = math.ceil((math.ceil(total / OUTPUT) * INPUT + 2 * TAPS) / HOP) + 1
        while self.spoken < total:
            end = min(self.edge, last)
            for wave in self._block(end, min(end + self.reach, last)):
                yield wave[: len(wave) - max(0, self.spoken - total)]
            self.edge = next(self.edges)

    def mel_needed(self, stop: int) -> int:
        """Number of mel frames that spectra up to this one depend on."""
        return math.ceil(stop * self.config.ratio) + self.config.mel_context + 1

    @torch.inference_mode()
    def _block(self, end: int, stop: int) -> Iterator[Wave]:
        """Synthesise hops `done` … `end` from spectra up to `stop`."""
        start, self.done = self.done, end
        begin = max(0, start - self.reach)
        places = mel_places(self.config, begin, stop - begin) - self.first
        mel = self.mel[None, : self.mel_needed(stop) - self.first]  # the same, however much has arrived
        frequency = self.network.frequency(mel, places)
        drawn = self.network(mel, frequency, places)[0]  # (stop − begin, 4 · BINS)
        self._forget(max(0, end - self.reach))
        source = self._source(frequency[0], begin, start, end)
        left, right = max(0, start - 1), min(end + 2, stop)
        spectra = filled_spectra(drawn[left - begin : right - begin], source[left - start + 1 :][: right - left])
        wave = overlap_add(spectra, self.vocoder.window)  # starts at hop left − 2
        wave = wave[(start - left + 2) * HOP :][: (end - start) * HOP]
        self.samples = torch.cat([self.samples, wave])
        yield from self._resampled()

    def _source(self, frequency: Tensor, begin: int, start: int, end: int) -> Tensor:
        """Spectra `start − 1` … `end + 2` of the pulses; F0 is known from `begin` on.  (end − start + 3, BINS)"""
        left = max(0, start - OVERLAP)  # the first hop that has pulses
        known = frequency[max(left - 1, 0) - begin : end + SOURCE - begin]
        missing = end + SOURCE - max(left - 1, 0) - len(known)
        known = pad(known[None, None], (int(left == 0), missing), mode="replicate")[0, 0]
        wave, cycles = excitation(known, self.phase)  # hops left … end + OVERLAP
        following = max(0, end - OVERLAP)
        if following > left:
            self.phase = cycles[following - left - 1, -1] % 1.0
        wave = pad(wave.flatten(), ((left - start + OVERLAP) * HOP, 0))  # silence before the utterance
        return spectrum_of_pulses(wave, self.vocoder.window)

    def _resampled(self) -> Iterator[Wave]:
        """Resample as many whole blocks of INPUT samples as are available."""
        pieces = (len(self.samples) - 2 * TAPS) // INPUT
        if pieces < 1:
            return
        wave = self.samples.unfold(0, INPUT + 2 * TAPS, INPUT)[:pieces] @ resampling().to(self.samples.device)
        self.samples = self.samples[pieces * INPUT :]
        self.spoken += wave.numel()
        yield wave.flatten().clamp(-1.0, 1.0).cpu().numpy()

    def _forget(self, begin: int) -> None:
        """Drop mel frames that no spectrum from `begin` on depends on."""
        first = max(0, math.floor(begin * self.config.ratio) - self.config.mel_context - 2)
        self.mel = self.mel[max(0, first - self.first) :]
        self.first = max(first, self.first)
