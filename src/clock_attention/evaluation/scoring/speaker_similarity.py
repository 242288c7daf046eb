"""Speaker similarity of recordings, from GE2E speaker embeddings (Wan et al., 2018).

Weights and definitions are those of `resemblyzer` (Apache-2.0, including the weights). The package itself is never
imported, since its dependencies need a compiler. `pip install --no-deps resemblyzer==0.1.4` installs the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from clock_attention.speech.audio.wave import Wave, resample, trim_silence
from clock_attention.speech.model.weight_files import load_torch

RATE, WINDOW, HOP, MELS = 16000, 400, 160, 40
PARTIAL, STEP = 160, 77  # frames: length of a window, and step between windows
LEVEL = -30.0  # dBFS; quieter recordings are amplified to it
INSTALL = "pip install --no-deps resemblyzer==0.1.4"

Embedding = NDArray[np.float32]


class SpeakerEncoder(nn.Module):
    """The speaker encoder (GE2E): wave → unit vector of 256 numbers that identifies the speaker."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(MELS, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)

    @classmethod
    def load(cls) -> SpeakerEncoder:
        encoder = cls()
        state = load_torch(weights_file())["model_state"]
        names = encoder.state_dict().keys()
        encoder.load_state_dict({name: tensor for name, tensor in state.items() if name in names})
        return encoder.eval().requires_grad_(False)

    def forward(self, mel: Tensor) -> Tensor:
        """mel (B, S, 40) → unit vectors (B, 256)."""
        _, (hidden, _) = self.lstm(mel)
        found = self.linear(hidden[-1]).relu()
        return found / found.norm(dim=1, keepdim=True)

    def embed(self, wave: Wave, sample_rate: int) -> Embedding:
        """Speaker embedding of one recording: the mean over windows of 1.6 s."""
        samples = trim_silence(resample(wave, sample_rate, RATE), RATE)
        power = float(np.square(samples, dtype=np.float64).mean()) if len(samples) else 0.0
        if power <= 0:
            raise ValueError("an empty or silent recording has no speaker")
        samples = samples * max(1.0, 10 ** (LEVEL / 20) / power**0.5)
        mel = torch.from_numpy(mel_power(samples))
        if len(mel) < PARTIAL:
            mel = nn.functional.pad(mel, (0, 0, 0, PARTIAL - len(mel)))
        windows = mel.unfold(0, PARTIAL, STEP).transpose(1, 2)  # (N, PARTIAL, 40)
        mean = self(windows).mean(0)
        return (mean / mean.norm()).numpy()


def mel_power(samples: Wave) -> NDArray[np.float32]:
    """Input of the speaker encoder: power (not log power) in 40 mel bands.  (S, 40)"""
    import librosa

    found = librosa.feature.melspectrogram(y=samples, sr=RATE, n_fft=WINDOW, hop_length=HOP, n_mels=MELS)
    return np.ascontiguousarray(found.T.astype(np.float32))


def similarity(ours: Sequence[Embedding], theirs: Sequence[Embedding]) -> NDArray[np.float64]:
    """Speaker similarity: cosine between each of ours and the mean of theirs; about 0.5 to 0.7 for different people."""
    mean = np.mean(np.stack(list(theirs)), axis=0, dtype=np.float64)
    return np.stack(list(ours)).astype(np.float64) @ (mean / np.linalg.norm(mean))


def weights_file() -> Path:
    """Path of the speaker encoder's weights in the package resemblyzer."""
    try:
        package = distribution("resemblyzer")
    except PackageNotFoundError:
        raise ModuleNotFoundError(f"resemblyzer is not installed: `{INSTALL}`", name="resemblyzer") from None
    return Path(str(package.locate_file("resemblyzer/pretrained.pt")))


def load_encoder() -> Any:
    """Load the speaker encoder; None if its weights are not installed."""
    try:
        return SpeakerEncoder.load()
    except ModuleNotFoundError:
        return None
