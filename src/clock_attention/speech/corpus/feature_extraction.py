"""Feature extraction, in shards: from an item (a recording, or a text for the teacher) to its row and mel frames."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import soundfile

from clock_attention.files import replacing, write_atomically
from clock_attention.speech.audio.mel import MelConfig, MelSpectrogram
from clock_attention.speech.audio.wave import resample, trim_silence
from clock_attention.speech.corpus.metadata import id_fault
from clock_attention.speech.corpus.recording_checks import (
    CheckBounds,
    Recording,
    Rejected,
    check_finite,
    check_frames,
    check_wave,
    load_recording,
)
from clock_attention.speech.corpus.shards import Progress
from clock_attention.speech.corpus.store import Rejection, to_json
from clock_attention.speech.corpus.teacher import TEACHER_RATE, Teacher, TeacherPhrase
from clock_attention.speech.text.lexicon import Lexicon
from clock_attention.speech.text.phonemes import Phonemizer, UnreadableTextError, token_ids
from clock_attention.speech.text.phonemizers import phonemizer

Item = Recording | TeacherPhrase


@dataclass(frozen=True)
class Settings:
    """Settings of feature extraction: everything, apart from the items, that determines what the store contains."""

    mel: MelConfig
    phonemizer: str = "hibari"
    dtype: str = "float16"
    silence: float = 0.05
    silence_db: float = 45.0
    valid: float = 0.02
    test: float = 0.02
    limits: CheckBounds = field(default_factory=CheckBounds)
    hours: float | None = None
    keep_audio: bool = False
    lexicon: dict[str, str] | None = None  # readings of words, as in a lexicon file

    def to_json(self) -> dict[str, Any]:
        table = {**asdict(self), "mel": self.mel.model_dump()}
        if self.lexicon is None:
            del table["lexicon"]  # as in stores written before there was one
        return table

    def reader(self) -> Phonemizer:
        return phonemizer(self.phonemizer, None if self.lexicon is None else Lexicon(self.lexicon))


class Worker:
    """Extracts the features of shards of items into files. One per process; models are loaded once."""

    def __init__(self, out: Path, settings: Settings) -> None:
        self.out = out
        self.settings = settings
        self.mel = MelSpectrogram(settings.mel)
        self.reader = settings.reader()
        self.teacher = Teacher()

    def shard(self, number: int, items: Sequence[Item]) -> Progress:
        frames, rows, rejected = [], [], []
        for item in items:
            try:
                row, mel = self.utterance(item)
            except Rejected as rejection:
                rejected.append(asdict(Rejection(item.id, rejection.reason, rejection.detail)))
                continue
            frames.append(mel)
            rows.append(row)
        n_mels = self.settings.mel.n_mels
        joined = np.concatenate(frames) if frames else np.zeros((0, n_mels), self.settings.dtype)
        save_atomically(shard_path(self.out, number, "npy"), joined)
        seconds = len(joined) / self.settings.mel.frames_per_second
        done = {"utterances": rows, "rejected": rejected, "seconds": seconds}
        write_atomically(shard_path(self.out, number, "json"), to_json(done))
        return Progress(len(items), len(rejected), seconds, resumed=False)

    def utterance(self, item: Item) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
        settings, rate = self.settings, self.settings.mel.sample_rate
        if fault := id_fault(item.id):
            raise Rejected("bad id", fault)
        if not item.text.isprintable() and has_surrogates(item.text):
            raise Rejected("bad text", "half of a UTF-16 pair: the text was not decoded properly")
        try:
            phonemes = self.reader(item.text)
        except UnreadableTextError as error:
            raise Rejected("no phonemes", str(error)) from None
        if isinstance(item, TeacherPhrase):
            wave = resample(self.teacher(item), TEACHER_RATE, rate)
        else:
            wave = load_recording(item, rate)
        check_wave(wave, settings.limits)
        wave = trim_silence(wave, rate, settings.silence, settings.silence_db)
        check_frames(len(wave) / rate, settings.mel.frames(len(wave)), len(phonemes), settings.limits)
        with np.errstate(over="ignore"):  # in half precision; detected below
            mel = self.mel(wave).numpy().astype(settings.dtype)
        check_finite(mel)
        if settings.keep_audio:
            path = self.out / "wavs" / f"{item.id}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, wave, rate, subtype="PCM_16")
        row = {
            "id": item.id,
            "text": item.text,
            "tokens": token_ids(phonemes.tokens, self.reader.symbols),
            "word_index": phonemes.word_index,
            "words": phonemes.words,
            "frames": len(mel),
            "group": item.group,
            "speed": item.speed if isinstance(item, TeacherPhrase) else 1.0,
        }
        return row | ({"speaker": item.speaker} if item.speaker else {}), mel


def has_surrogates(text: str) -> bool:
    """Whether a text contains halves of UTF-16 pairs, which a feature store cannot write."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def shard_path(out: Path, number: int, suffix: str) -> Path:
    """The file of one shard of extracted features."""
    return out / "shards" / f"{number:06d}.{suffix}"


def read_shard(out: Path, number: int) -> dict[str, Any]:
    """The table of one shard of extracted features."""
    table: dict[str, Any] = json.loads(shard_path(out, number, "json").read_text(encoding="utf-8"))
    return table


def save_atomically(path: Path, array: np.ndarray[Any, Any]) -> None:
    """Write extracted features as .npy, complete or not at all."""
    with written_atomically(path) as file:
        np.save(file, array)


@contextmanager
def written_atomically(path: Path) -> Iterator[IO[bytes]]:
    """A file of features, open for writing; an error, such as a full disk, leaves nothing behind and names the file."""
    try:
        with replacing(path) as temporary, open(temporary, "wb") as file:
            yield file
    except OSError as error:  # numpy's own says how many bytes, but not of which file
        raise OSError(f"{path}: cannot be written ({error}); is the disk full?") from error
