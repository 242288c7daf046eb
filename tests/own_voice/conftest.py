"""A creation of seconds: a tiny base voice, an aligner that divides time evenly, a vocoder that costs nothing."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile
import torch

from clock_attention.own_voice import checks, create, measure
from clock_attention.speech.aligner import AlignedInterval, TokenTimes
from clock_attention.speech.corpus.grammar import generate_sentences
from clock_attention.speech.corpus.teacher import TEACHER_RATE, Teacher, TeacherPhrase
from clock_attention.speech.voice.voice import Voice
from tests.speech.voices import tiny_aligned_voice


class EvenAligner:
    """Every token takes the same time."""

    @classmethod
    def load(cls, path=None, device="cpu"):
        return cls()

    def align_phonemes(self, wave, sample_rate, phonemes):
        edges = np.linspace(0, len(wave) / sample_rate, len(phonemes.tokens) + 1)
        count = len(phonemes.tokens)
        return TokenTimes(edges[:-1], edges[1:], np.ones(count), 0.0, 0.0, -1.0, True)

    def align(self, wave, text, *, sample_rate, posterior=True):
        words = text.split()
        edges = np.linspace(0, len(wave) / sample_rate, len(words) + 1)
        spoken = [
            AlignedInterval(start, end - 0.25 * (end - start), word.strip(",."), 1.0)
            for start, end, word in zip(edges[:-1], edges[1:], words, strict=True)
        ]

        class Recording:
            words = tuple(spoken)

        return Recording()


@pytest.fixture(scope="session")
def recordings(tmp_path_factory):
    """Eight sentences by one speaker, each with its text."""
    folder = tmp_path_factory.mktemp("recordings") / "mine"
    folder.mkdir()
    teacher = Teacher()
    for name, text in generate_sentences(8, seed=3):
        soundfile.write(folder / f"{name}.wav", teacher(TeacherPhrase(name, "", text, 1.0, 0)), TEACHER_RATE)
        (folder / f"{name}.txt").write_text(text)
    return folder


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    return tiny_aligned_voice(tmp_path_factory.mktemp("base") / "base")


@pytest.fixture(scope="module")
def quick(base):
    """Settings of a creation that takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(create, "Aligner", EvenAligner)
        patch.setattr(create, "SHIPPED", base)  # any files: their digest is the aligner's name
        patch.setattr(checks, "FEWEST_SECONDS", 10.0)
        patch.setattr(create, "load_encoder", lambda: None)
        patch.setattr(measure, "load_encoder", lambda: None)
        patch.setattr(measure, "opinions", lambda *_: {})
        patch.setattr(measure, "word_errors", lambda *_: {"wer": [0.5, 0.4, 0.6], "recognizer": "deaf", "heard": []})
        patch.setattr(Voice, "vocoder", lambda self, name="auto": QuickVocoder(self.language.mel))
        yield {"base": str(base), "steps": 6, "count": 2, "workers": 1, "threads": 1}


class QuickVocoder:
    """Noise of the right length."""

    name = "noise"

    def __init__(self, mel):
        self.mel = mel

    def __call__(self, mel, seed=0):
        noise = torch.randn(len(mel) * self.mel.hop_length, generator=torch.Generator().manual_seed(seed))
        return (0.05 * noise).numpy()
