"""Initial weights of the harmonic vocoder: the decoder of hibari-tts, and layers that predict its input from a mel.

hibari's network turns text and pitch into features, and these into spectra. Its decoder and head (Apache-2.0,
dequantised from 8 bits) are copied. The other layers learn to map the mel of its speech and the pitch to
the features at the decoder's input: first with a loss on the features, then also with one on the decoder's output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, pad

from clock_attention.speech.audio.mel import MelSpectrogram
from clock_attention.speech.audio.wave import resample
from clock_attention.speech.bfloat16 import bfloat16_where_fast
from clock_attention.speech.vocoder.harmonic import (
    PITCH_CLASSES,
    RATE,
    SPECTRUM_BINS,
    HarmonicConfig,
    HarmonicNetwork,
    between,
    mel_places,
    normalised_mel,
    pitch_classes,
)
from clock_attention.speech.vocoder.harmonic_synthesis import LEAST_HERTZ

FEATURES = "/dec_in/Conv_output_0"  # the decoder's input in hibari's graph
HIGHEST_SPEED, LOWEST_SPEED = 1.4, 0.75  # speeds of the teacher's speech
FAINTEST = -4.0  # log magnitude below which spectra are not compared
# Spectra that a recording must have beyond a crop, and how many positions are tried for its start.
SPARE, STARTS = 64, 40
SILENT = math.log(1e-5)


@dataclass(frozen=True)
class Distillation:
    """Options of a distillation: lengths and rates; the first `feature_steps` steps compare only features."""

    steps: int = 1200
    feature_steps: int = 300
    batch: int = 16
    frames: int = 112  # spectra per crop
    learning_rate: float = 2e-3
    mel_noise: float = 0.1  # maximum standard deviation; added because mels of an acoustic model are not exact
    seed: int = 0


class Example(NamedTuple):
    """An example for distillation: mel, the teacher's features and F0."""

    mel: Tensor  # (T, n_mels)
    features: Tensor  # (N, width)
    frequency: Tensor  # (N,), 0 where unvoiced


class TeacherDecoder:
    """Teacher of the distillation: hibari's graph, with the decoder's input as an extra output, and its weights."""

    def __init__(self) -> None:
        import onnx
        import onnxruntime
        from hibari import Hibari

        self.hibari = Hibari(threads=1)
        model = onnx.load(self.hibari.model_path)
        self.weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        model.graph.output.append(onnx.helper.make_tensor_value_info(FEATURES, onnx.TensorProto.FLOAT, None))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        providers = ["CPUExecutionProvider"]
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)

    def decoder_state(self) -> dict[str, Tensor]:
        """The decoder's weights under this package's names."""
        state: dict[str, Any] = {}
        names = {"dw": "depthwise", "norm": "norm", "gamma": "scale"}
        for block in range(8):
            for theirs, ours in names.items():
                for part in ("",) if theirs == "gamma" else (".weight", ".bias"):
                    state[f"decoder.{block}.{ours}{part}"] = self.weights[f"m.dec.{block}.{theirs}{part}"]
            for theirs, ours in (("pw1", "inner"), ("pw2", "outer")):
                state[f"decoder.{block}.{ours}.weight"] = self.dequantised(f"/dec.{block}/{theirs}/Transpose_output_0")
                state[f"decoder.{block}.{ours}.bias"] = self.weights[f"m.dec.{block}.{theirs}.bias"]
        for part in ("weight", "bias"):
            state[f"norm.{part}"] = self.weights[f"m.dec_norm.{part}"]
        # The third of the five spectra is left out: it is white noise 50 dB below the voice.
        kept = np.r_[0 : 2 * SPECTRUM_BINS, 3 * SPECTRUM_BINS : 5 * SPECTRUM_BINS]
        state["head.weight"] = self.dequantised("/head/Transpose_output_0")[kept]
        state["head.bias"] = self.weights["m.head.bias"][kept]
        return {name: torch.from_numpy(np.array(value)) for name, value in state.items()}

    def dequantised(self, name: str) -> np.ndarray[Any, Any]:
        """A dequantised weight matrix (outputs, inputs)."""
        values = self.weights[f"{name}_quantized"].astype(np.float32) - np.float32(self.weights[f"{name}_zero_point"])
        return (values * self.weights[f"{name}_scale"]).T

    def examples(self, texts: Sequence[str], config: HarmonicConfig, seed: int) -> Iterator[Example]:
        """Examples of the texts, spoken at random speeds."""
        from hibari import dsp

        generator, spectrogram = np.random.default_rng(seed), MelSpectrogram(config.mel)
        for text in texts:
            speed = math.exp(generator.uniform(math.log(LOWEST_SPEED), math.log(HIGHEST_SPEED)))
            for phonemes in self.hibari.phonemize(text):
                given = {
                    "ids": np.array([self.hibari.ids(phonemes)], np.int64),
                    "speed": np.array([speed], np.float32),
                }
                *spectra, frequency, features = (output[0] for output in self.session.run(None, given))
                wave = resample(dsp.synth(*spectra, frequency, generator), RATE, config.mel.sample_rate)
                frequency = torch.from_numpy(np.where(frequency > LEAST_HERTZ, frequency, 0))
                yield Example(spectrogram(wave), torch.from_numpy(features.T.copy()), frequency)


def distil(
    texts: Sequence[str],
    options: Distillation,
    config: HarmonicConfig,
    report: Callable[[int, dict[str, float]], None] = lambda step, measured: None,
) -> HarmonicNetwork:
    """Distil the harmonic vocoder: synthesise the texts with the teacher and train on its speech."""
    torch.manual_seed(options.seed)
    teacher, network = TeacherDecoder(), HarmonicNetwork(config)
    decoder = teacher.decoder_state()
    network.load_state_dict(decoder, strict=False)
    examples = [e for e in teacher.examples(texts, config, options.seed) if len(e.features) > options.frames + SPARE]
    if not examples:
        raise ValueError(f"none of {len(texts)} texts is long enough: give sentences of about ten words or more")
    every = torch.cat([example.features for example in examples])
    mean, std = every.mean(0), every.std(0)
    with torch.no_grad():
        network.bridge.weight.mul_(std[:, None])
        network.bridge.bias.mul_(std).add_(mean)
    learned = [value for name, value in network.named_parameters() if name not in decoder]
    for name, value in network.named_parameters():
        value.requires_grad_(name not in decoder)
    optimizer = torch.optim.AdamW(learned, options.learning_rate, betas=(0.9, 0.98))
    generator = np.random.default_rng(options.seed)
    for step in range(options.steps):
        share = 0.5 * (1 + math.cos(math.pi * step / options.steps))
        for group in optimizer.param_groups:
            group["lr"] = options.learning_rate * min(1.0, (step + 1) / 100) * max(0.02, share)
        losses = distillation_losses(network, *crops(examples, options, config, generator), std, options, step)
        optimizer.zero_grad()
        torch.stack(list(losses.values())).sum().backward()
        torch.nn.utils.clip_grad_norm_(learned, 5.0)
        optimizer.step()
        report(step + 1, {name: value.item() for name, value in losses.items()})
    return network.requires_grad_(True)


def crops(
    examples: Sequence[Example], options: Distillation, config: HarmonicConfig, generator: np.random.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Random crops of distillation examples: mel (B, T, n_mels), features (B, N, width) and F0 (B, N)."""
    rows = []
    for example in (examples[i] for i in generator.integers(len(examples), size=options.batch)):
        mel, inner = crop(example.mel, len(example.features), options.frames, config.ratio, generator)
        rows.append((mel, example.features[inner], example.frequency[inner]))
    mels, features, frequencies = zip(*rows, strict=True)
    return torch.stack(mels), torch.stack(features), torch.stack(frequencies)


def crop(
    mel: Tensor, available: int, frames: int, ratio: float, generator: np.random.Generator
) -> tuple[Tensor, slice]:
    """Random crop of a distillation example, where both grids coincide: mel (T, n_mels) and its range of spectra."""
    first = int(generator.integers(0, available - frames - SPARE + 1))
    offsets = np.arange(first, first + STARTS) * ratio
    first += int(np.abs(offsets - offsets.round()).argmin())
    begin, length = round(first * ratio), math.ceil(frames * ratio) + 1
    cut = mel[begin : begin + length]
    return pad(cut, (0, 0, 0, length - len(cut)), value=SILENT), slice(first, first + frames)


def distillation_losses(
    network: HarmonicNetwork,
    mel: Tensor,
    features: Tensor,
    frequency: Tensor,
    std: Tensor,
    options: Distillation,
    step: int,
) -> dict[str, Tensor]:
    """Losses of a distillation step: features, pitch and, later, spectra."""
    places = mel_places(network.config, 0, options.frames)
    mel = mel + torch.randn_like(mel) * options.mel_noise * torch.rand(len(mel), 1, 1)
    inner = slice(4, -4)  # spectra whose context the crop's mel covers
    with bfloat16_where_fast(mel):
        read = network.features(mel, frequency, places)
        classes, voicing = network.pitch(normalised_mel(mel))
    losses = {"features": ((read.float() - features) / std)[:, inner].square().mean()}
    losses |= pitch_losses(classes.float(), voicing.float(), frequency, places)
    if step >= options.feature_steps:
        with bfloat16_where_fast(mel):
            made = network.spectra(read).float()[:, inner]
            with torch.no_grad():
                true = network.spectra(features).float()[:, inner]
        losses["spectra"] = 2 * spectra_distance(made, true)
    return losses


def pitch_losses(classes: Tensor, voicing: Tensor, frequency: Tensor, places: Tensor) -> dict[str, Tensor]:
    """Distillation losses of pitch and voicing; the pitch target is a Gaussian one class wide around the true class."""
    voiced = (frequency > 0).float()
    wanted = -(torch.arange(PITCH_CLASSES) - pitch_classes(frequency)[..., None]).square() / 2
    surprise = -(wanted.softmax(-1) * between(classes, places).log_softmax(-1)).sum(-1)
    predicted_voicing = between(voicing[..., None], places)[..., 0]
    return {
        "pitch": (surprise * voiced).sum() / voiced.sum().clamp(min=1),
        "voicing": binary_cross_entropy_with_logits(predicted_voicing, voiced),
    }


def spectra_distance(made: Tensor, true: Tensor) -> Tensor:
    """Distillation loss of spectra (B, N, 4 · BINS): log magnitudes and, where loud, phases."""
    loudness, turn, rest, phase = made.split(SPECTRUM_BINS, -1)
    true_loudness, true_turn, true_rest, true_phase = true.split(SPECTRUM_BINS, -1)
    total = made.new_zeros(())
    for ours, theirs in ((loudness, true_loudness), (rest, true_rest)):
        total = total + (ours.clamp(min=FAINTEST) - theirs.clamp(min=FAINTEST)).abs().mean()
    angles = (
        (math.pi * (turn.tanh() - true_turn.tanh()), true_loudness),
        (phase - true_phase, true_rest),
    )
    for angle, magnitude in angles:
        weight = (magnitude.clamp(FAINTEST, -FAINTEST) - FAINTEST) / (-2 * FAINTEST)
        total = total + 0.3 * ((1 - angle.cos()) * weight).mean()
    return total
