"""A tiny corpus in memory, whose mel frames follow its tokens: enough to learn from, nothing to install."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clock_attention.speech.audio import MelConfig

SYMBOLS = tuple("abcdefghij")
MELS = 8


@dataclass(frozen=True)
class Row:
    id: str
    tokens: tuple[int, ...]
    frames: int


class TinyCorpus:
    """Every symbol has its own mel frame and its own duration; utterances are random strings of symbols."""

    def __init__(self, size: int = 40, seed: int = 0, shortest: int = 4, longest: int = 9) -> None:
        draw = np.random.default_rng(seed)
        self.symbols = SYMBOLS
        self.mel_config = MelConfig(n_mels=MELS)
        self.header = {"phonemizer": {"name": "letters"}, "source": "random strings"}
        self.looks = torch.from_numpy(draw.normal(size=(len(SYMBOLS), MELS)).astype(np.float32))
        self.durations = draw.integers(2, 5, len(SYMBOLS))
        self.mean, self.std = torch.full((MELS,), 0.1), torch.full((MELS,), 1.1)
        self.utterances = []
        for number in range(size):
            tokens = tuple(draw.integers(0, len(SYMBOLS), draw.integers(shortest, longest + 1)).tolist())
            self.utterances.append(Row(f"u{number:03d}", tokens, int(self.durations[list(tokens)].sum())))
        self.mpr = sum(u.frames for u in self.utterances) / sum(len(u.tokens) for u in self.utterances)

    def __len__(self) -> int:
        return len(self.utterances)

    def mel(self, index: int) -> Tensor:
        tokens = torch.tensor(self.utterances[index].tokens)
        return self.looks[tokens].repeat_interleave(torch.from_numpy(self.durations)[tokens], 0)

    def tokens(self, index: int) -> Tensor:
        return torch.tensor(self.utterances[index].tokens)

    def split(self, name: str) -> list[int]:
        valid = len(self.utterances) // 5
        return list(range(valid)) if name == "valid" else list(range(valid, len(self.utterances)))
