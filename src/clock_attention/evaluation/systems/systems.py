"""Systems under evaluation: a voice at some length, and reference speech (corpus recordings, teacher)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from itertools import islice
from typing import Any, Protocol

import numpy as np
import torch

from clock_attention.evaluation.digest import digest
from clock_attention.evaluation.prompts import Prompt
from clock_attention.evaluation.scoring.skips_and_repeats import measure_alignment, pooled_measures, words_under_a_step
from clock_attention.speech.audio.mel import MelConfig, MelSpectrogram
from clock_attention.speech.audio.wave import Wave, resample, trim_silence
from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.corpus.teacher import TEACHER_RATE, Teacher, TeacherPhrase
from clock_attention.speech.text.phonemes import Phonemes
from clock_attention.speech.text.phonemizers import phonemizer
from clock_attention.speech.voice import synthesis
from clock_attention.speech.voice.pacing import Pacing
from clock_attention.speech.voice.phrases import Phrase, cut_phrases
from clock_attention.speech.voice.utterance import Utterance, alignment_matrix
from clock_attention.speech.voice.voice import Voice
from clock_attention.speech.voice.voice_folder import WEIGHTS

ENDLESS = 1_000_000  # phonemes; longer than any sentence


@dataclass(frozen=True)
class Length:
    """How long a system's utterances are: `mpr` frames per phoneme, `pace` times as fast as natural, or natural."""

    mpr: float | None = None
    pace: float | None = None

    def __post_init__(self) -> None:
        if self.mpr is not None and self.pace is not None:
            raise ValueError(f"give mpr or pace, not both; got mpr {self.mpr} and pace {self.pace}")
        for name, value in (("mpr", self.mpr), ("pace", self.pace)):
            if value is not None and not 0 < value < 1000:
                raise ValueError(f"{name}: expected a positive number, got {value}")

    def __str__(self) -> str:
        if self.mpr is not None:
            return f"MPR {self.mpr:g}"
        return "natural" if self.pace is None else f"pace {self.pace:g}"


@dataclass(frozen=True)
class SystemOutput:
    """One utterance of a system before recognition: a log-mel for the vocoder, or a waveform that needs none."""

    frames: int
    mel: np.ndarray[Any, Any] | None = None  # (frames, M)
    wave: Wave | None = None
    sample_rate: int = 0
    measures: dict[str, float] = field(default_factory=dict)  # of the alignment


class System(Protocol):
    """A system under evaluation. `fingerprint` and `identity` change whenever the same prompt could sound different."""

    name: str
    fingerprint: str
    length: Length
    vocoded: bool

    @property
    def mel(self) -> MelConfig: ...
    def identity(self, prompt: Prompt) -> dict[str, Any]: ...
    def size(self, prompt: Prompt) -> int: ...
    def say(self, prompts: Sequence[Prompt]) -> list[SystemOutput]: ...


class VoiceSystem:
    """A voice under evaluation. The length is exact for parallel voices, the pace for causal clocks, else a cap.

    Sentences longer than the voice's training utterances are spoken in phrases, as usual; with `whole`, in one piece.
    """

    vocoded = True

    def __init__(self, voice: Voice, length: Length | None = None, name: str = "", *, whole: bool = False) -> None:
        self.voice = voice
        self.length = length or Length()
        self.name = (name or voice.path.name) + " (whole)" * whole
        self.longest = ENDLESS if whole else voice.longest_phrase
        weights = hashlib.sha256((voice.path / WEIGHTS).read_bytes()).hexdigest()
        model, language = voice.card.model, voice.language
        self.fingerprint = digest(weights, model.model_dump(mode="json"), language.model_dump(mode="json"))
        self.phonemes = lru_cache(maxsize=4096)(voice.phonemizer.__call__)

    def at(self, length: Length) -> VoiceSystem:
        """The same voice at another length."""
        other = object.__new__(VoiceSystem)
        other.__dict__ = {**self.__dict__, "length": length}
        return other

    @property
    def mel(self) -> MelConfig:
        return self.voice.language.mel

    def identity(self, prompt: Prompt) -> dict[str, Any]:
        phonemes = self.phonemes(prompt.text)
        phrases = [len(phrase.phonemes) for phrase in cut_phrases(phonemes, 0.0, self.longest)]
        length = {"mpr": self.length.mpr, "pace": self.length.pace}
        return {"text": prompt.text, "tokens": phonemes.tokens, "phrases": phrases, **length}

    def size(self, prompt: Prompt) -> int:
        return len(self.phonemes(prompt.text))

    def say(self, prompts: Sequence[Prompt]) -> list[SystemOutput]:
        """Speak all phrases of all prompts as one batch."""
        cut = [cut_phrases(self.phonemes(prompt.text), 0.0, self.longest) for prompt in prompts]
        utterances = iter(self.render([phrase.phonemes for phrases in cut for phrase in phrases]))
        return [self.joined(phrases, list(islice(utterances, len(phrases)))) for phrases in cut]

    def utter(self, text: str) -> Utterance:
        """Speak a text in one piece, for figures."""
        return self.render([self.phonemes(text)])[0]

    def render(self, readings: Sequence[Phonemes]) -> list[Utterance]:
        texts = [" ".join(reading.words) for reading in readings]
        return synthesis.render(self.voice, texts, readings, self.pacing, None)

    def joined(self, phrases: Sequence[Phrase], utterances: Sequence[Utterance]) -> SystemOutput:
        """Join the phrases of one sentence with the pauses between them; measures are pooled."""
        rate = self.voice.frames_per_second / self.pacing.speed(self.voice.language.mpr)
        silence = math.log(self.mel.log_floor)
        mels = []
        for phrase, utterance in zip(phrases, utterances, strict=True):
            pause = np.full((round(phrase.pause * rate), self.mel.n_mels), silence, np.float32)
            mels += [utterance.mel.float().numpy(), pause]
        mel = np.concatenate(mels)
        measures = pooled_measures([measures_of(one) for one in utterances])
        cut = float(any(one.hit_ceiling for one in utterances))  # one per sentence, however many of its phrases
        return SystemOutput(len(mel), mel=mel, measures=measures | {"hit_ceiling": cut})

    @property
    def pacing(self) -> Pacing:
        return Pacing.of(self.length.pace, self.length.mpr, None)


def measures_of(utterance: Utterance) -> dict[str, float]:
    """Alignment measures of an utterance of a voice under evaluation, from its attention."""
    heads = torch.cat(utterance.weights)  # (layers · H, steps, T)
    measures = measure_alignment(alignment_matrix([heads]), utterance.phonemes, heads.numpy())
    short = words_under_a_step(utterance.phonemes, utterance.alignment.durations, utterance.frames_per_step)
    return measures | {"words_under_a_step": short, "hit_ceiling": int(utterance.hit_ceiling)}


class CopySynthesis:
    """A corpus's recordings through the vocoder as a system: the floor for the others. Prompts are its utterances."""

    vocoded = True
    length = Length()

    def __init__(self, store: FeatureStore, name: str = "copy-synthesis") -> None:
        self.store = store
        self.name = name
        self.fingerprint = digest("copy-synthesis")  # the content is in each utterance's identity
        self.places = {utterance.id: place for place, utterance in enumerate(store.utterances)}

    @property
    def mel(self) -> MelConfig:
        return self.store.mel_config

    def place(self, prompt: Prompt) -> int:
        try:
            return self.places[prompt.id]
        except KeyError:
            raise ValueError(
                f"{self.store.path} has no utterance {prompt.id!r}: copy-synthesis takes the corpus's own utterances "
                f"as prompts, for example valid:{self.store.path}; `teacher` reads any text"
            ) from None

    def identity(self, prompt: Prompt) -> dict[str, Any]:
        frames = self.store.mel(self.place(prompt)).numpy().tobytes()
        return {"text": prompt.text, "mel": hashlib.sha256(frames).hexdigest()}

    def size(self, prompt: Prompt) -> int:
        return self.store.utterances[self.place(prompt)].frames

    def say(self, prompts: Sequence[Prompt]) -> list[SystemOutput]:
        mels = [self.store.mel(self.place(prompt)).numpy() for prompt in prompts]
        return [SystemOutput(len(mel), mel=mel) for mel in mels]


class TeacherSystem:
    """hibari's reading of the prompts as a system, at its own length or time-stretched to a voice's.

    With `vocoded`, it passes through mel and vocoder like all other systems. Time stretching uses librosa's phase
    vocoder; with `paced`, the teacher itself first reads at that speed, as far as it can (0.5 to 2 times its natural
    one).
    """

    def __init__(
        self,
        mel: MelConfig,
        length: Length | None = None,
        *,
        vocoded: bool = True,
        paced: bool = False,
        reader: str = "hibari",
        name: str = "",
    ) -> None:
        self.mel = mel
        self.length = length or Length()
        self.vocoded = vocoded
        self.paced = paced
        self.name = name or "teacher" + ("-paced" if paced else "") + ("" if vocoded else "-audio")
        self.reader = phonemizer(reader)  # counts the phonemes that `mpr` refers to
        self.spectrogram = MelSpectrogram(mel)
        self.teacher = Teacher()
        settings = {"vocoded": vocoded, "paced": paced, "hibari": version("hibari-tts"), "librosa": version("librosa")}
        self.fingerprint = digest("teacher", settings, mel.model_dump(mode="json"))

    def at(self, length: Length) -> TeacherSystem:
        options: dict[str, Any] = {"vocoded": self.vocoded, "paced": self.paced, "reader": self.reader.name}
        return TeacherSystem(self.mel, length, **options, name=self.name)

    def identity(self, prompt: Prompt) -> dict[str, Any]:
        length = {"mpr": self.length.mpr, "pace": self.length.pace}
        return {"text": prompt.text, "phonemes": len(self.reader(prompt.text)), **length}

    def size(self, prompt: Prompt) -> int:
        return len(prompt.text)

    def say(self, prompts: Sequence[Prompt]) -> list[SystemOutput]:
        return [self.read(prompt) for prompt in prompts]

    def read(self, prompt: Prompt) -> SystemOutput:
        wave = self.reading(prompt, 1.0)
        if self.length != Length():
            natural = len(wave) / self.mel.sample_rate
            frames = self.wanted_frames(prompt, len(wave))
            samples = samples_of(frames, self.mel)
            if self.paced:
                speed = min(2.0, max(0.5, natural * self.mel.sample_rate / samples))
                wave = self.reading(prompt, round(speed, 3))
            wave = stretched(wave, samples)
        frames = self.mel.frames(len(wave))
        if not self.vocoded:
            return SystemOutput(frames, wave=wave, sample_rate=self.mel.sample_rate)
        return SystemOutput(frames, mel=self.spectrogram(wave).numpy())

    def reading(self, prompt: Prompt, speed: float) -> Wave:
        """The teacher's reading of a prompt, trimmed like a corpus's recordings."""
        wave = self.teacher(TeacherPhrase(prompt.id, prompt.id, prompt.text, speed=speed, seed=0))
        return trim_silence(resample(wave, TEACHER_RATE, self.mel.sample_rate), self.mel.sample_rate)

    def wanted_frames(self, prompt: Prompt, samples: int) -> int:
        if self.length.mpr is not None:
            return max(1, round(self.length.mpr * len(self.reader(prompt.text))))
        assert self.length.pace is not None
        return max(1, round(self.mel.frames(samples) / self.length.pace))


def samples_of(frames: int, mel: MelConfig) -> int:
    """The smallest number of samples of the teacher's speech that give this number of frames."""
    return (frames - 1) * mel.hop_length + mel.n_fft - 2 * mel.pad


def stretched(wave: Wave, samples: int) -> Wave:
    """The teacher's speech time-stretched to `samples` samples, at its original pitch."""
    import librosa

    # A short window keeps consonants distinct: the phase vocoder smears over the window's length.
    changed = librosa.effects.time_stretch(wave, rate=len(wave) / samples, n_fft=512, hop_length=64)
    return np.asarray(librosa.util.fix_length(changed, size=samples), dtype=np.float32)
