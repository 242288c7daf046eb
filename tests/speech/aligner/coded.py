"""Speech that a fake aligner hears exactly: every 5 ms frame of the samples says which sound it is, by its level.

The search, the cutting of long recordings and everything around them are those of the package; only the network is
replaced, so tests need no trained model and know all boundaries.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from clock_attention.speech.aligner.aligner import Aligner
from clock_attention.speech.aligner.emissions import Emissions
from clock_attention.speech.aligner.features import HOP
from clock_attention.speech.aligner.phone_classes import STATES, sounds
from clock_attention.speech.text.phonemizers import phonemizer

LEVELS = 256  # of the code; silence is 1, so that no frame is without signal


class CodedAligner(Aligner):
    """Hears coded speech with some noise, the same for the same samples."""

    def __init__(self, noise: float = 1.0, threshold: float = -2.0) -> None:
        config = SimpleNamespace(threshold=threshold, log_prior=(0.0,) * STATES)
        self.model = SimpleNamespace(config=config)
        self.reader = phonemizer()
        self.noise = noise

    @classmethod
    def load(cls, path=None, device="cpu"):
        return cls()

    def emissions(self, wave):
        frames = -(-len(wave) // HOP)
        padded = np.pad(wave, (0, frames * HOP - len(wave))).reshape(frames, HOP)
        output = np.clip(np.rint(np.abs(padded).mean(1) * LEVELS).astype(int) - 1, 0, STATES - 1)
        draw = np.random.default_rng(int(output.sum()))
        logits = self.noise * draw.standard_normal((frames, STATES)).astype(np.float32)
        logits[np.arange(frames), output] += 6.0
        change = np.where(np.diff(output, prepend=0) != 0, 2.0, -3.0).astype(np.float32)
        return Emissions(logits - np.log(np.exp(logits).sum(1, keepdims=True)), change, np.zeros(STATES))


@dataclass(frozen=True)
class Coded:
    text: str
    wave: np.ndarray  # float32, 16 kHz
    words: list[tuple[float, float, str]]  # spoken: start, end, label


def coded_speech(text: str, seed: int = 0, pause: float = 0.3) -> Coded:
    """A text spoken in code: halves of sounds of 10 … 60 ms, pauses at some of the boundaries."""
    draw = np.random.default_rng(seed)
    phonemes = phonemizer()(text)
    states = [0] * 40
    spans: dict[int, tuple[int, int]] = {}
    listened = sounds(phonemes.tokens, phonemes.word_index)
    for token, sound, word in zip(phonemes.tokens, listened, phonemes.word_index, strict=True):
        if sound is None:
            if token in ",.!?" or (word < 0 and draw.random() < 0.1):
                states += [0] * int(200 * pause * draw.uniform(0.5, 2))
            continue
        start = len(states)
        for state in sound.states:
            states += [state] * int(draw.integers(3, 13))
        spans[word] = (spans.get(word, (start,))[0], len(states))
    states += [0] * 40
    wave = np.repeat((np.array(states) + 1) / LEVELS, HOP)
    wave[1::2] *= -1
    words = [(start * 0.005, end * 0.005, phonemes.words[word]) for word, (start, end) in spans.items()]
    return Coded(text, wave.astype(np.float32), words)
