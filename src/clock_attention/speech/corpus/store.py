"""The feature store: a prepared corpus as one memory-mapped array of mel frames and a table of utterances.

    STORE/store.json         definition of the mel, the phoneme inventory, statistics, how it was made
    STORE/mel.npy            (all frames, n_mels) log-mel, un-normalised, utterance after utterance
    STORE/pitch.npy          (all frames,) natural log of F0 in Hz, 0 where unvoiced; only in aligned stores
    STORE/utterances.jsonl   one row per utterance: id, text, tokens, offset in mel.npy, split
    STORE/rejected.jsonl     what was left out, and why
    STORE/alignment.jsonl    how well text and audio fit, worst first; only in aligned stores

`store.json` is written last: a folder without it is an unfinished preparation.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clock_attention.files import locked, write_atomically
from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.corpus.speakers import ProsodyStatistics, SpeakerStatistics
from clock_attention.speech.corpus.splits import SPLITS
from clock_attention.speech.text.lexicon import Lexicon
from clock_attention.speech.text.phonemes import Phonemizer
from clock_attention.speech.text.phonemizers import phonemizer

# 2: the split is by text, and no sentence is in two splits. 1: it is by id; such stores are read and keep their split.
FORMAT = 2
READABLE = (1, 2)
# Bins that never change (band-limited recordings) have no spread: dividing by it would give NaN at the first step.
STD_FLOOR = 0.1


@dataclass(frozen=True)
class StoredUtterance:
    """An utterance of a feature store. `group` is the key of its source text: all its phrases share a split."""

    id: str
    text: str
    tokens: tuple[int, ...]
    word_index: tuple[int, ...]
    words: tuple[str, ...]
    frames: int
    offset: int
    split: str
    group: str
    speed: float
    # Frames of the silence before, of every token and of the silence after; only in aligned stores.
    durations: tuple[int, ...] | None = None
    speaker: str = ""  # only in stores that name speakers

    @property
    def mpr(self) -> float:
        """Mel frames per phoneme token."""
        return self.frames / len(self.tokens)

    @property
    def natural_frames(self) -> int:
        """Approximate frames at speed 1: what a model should consider the natural length of this text."""
        return max(1, round(self.frames * self.speed))

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> StoredUtterance:
        row = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
        return cls(**row)

    def to_row(self) -> dict[str, Any]:
        row = asdict(self)
        if not self.speaker:
            del row["speaker"]  # as in stores written before there was one
        return row


@dataclass(frozen=True)
class Rejection:
    """An utterance that was left out of the feature store."""

    id: str
    reason: str
    detail: str


class FeatureStore:
    """A feature store, opened for reading. Only the table is loaded; `mel` reads the frames asked for."""

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        self.path = path
        self.header = header
        self.mel_config = MelConfig.model_validate(header["mel"])
        self.symbols: tuple[str, ...] = tuple(header["phonemizer"]["symbols"])
        self.mean = torch.tensor(header["mean"], dtype=torch.float32)  # (n_mels,)
        self.std = torch.tensor(header["std"], dtype=torch.float32)  # (n_mels,)
        self.mpr: float = header["mpr"]
        prosody = header.get("prosody", {})
        self.timed = bool(prosody)  # whether it was aligned: its tokens have durations and its frames a pitch
        self.pitch_mean, self.pitch_std = prosody.get("pitch_mean", 0.0), prosody.get("pitch_std", 1.0)
        self.energy_mean, self.energy_std = prosody.get("energy_mean", 0.0), prosody.get("energy_std", 1.0)
        self._several = tuple(SpeakerStatistics.model_validate(row) for row in header.get("speakers", ()))

    @classmethod
    def open(cls, path: str | Path) -> FeatureStore:
        path = Path(path)
        try:
            header = json.loads((path / "store.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            state = (
                "its preparation has not finished: run the same command again"
                if (path / "shards").exists()
                else ("make one with `clock-attention corpus prepare` or `clock-attention corpus synthesize`")
            )
            raise FileNotFoundError(f"{path} is not a feature store (no store.json); {state}") from None
        except ValueError:
            raise ValueError(f"{path / 'store.json'} is damaged: prepare it again") from None
        if not isinstance(header, dict) or header.get("format") not in READABLE:
            found = header.get("format") if isinstance(header, dict) else None
            known = " and ".join(map(str, READABLE))
            raise ValueError(f"{path} has store format {found}, this version reads {known}: prepare it again")
        try:
            store = cls(path, header)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path / 'store.json'} is damaged ({type(error).__name__}): prepare it again") from None
        if not (store.mean.isfinite().all() and store.std.isfinite().all()):
            raise ValueError(
                f"{path}: the mean or spread of its mel is not finite, so it cannot be trained on: prepare it again"
            )
        return store

    @property
    def split_by(self) -> str:
        """What decides the split of an utterance: its "text", or in stores of earlier versions its "id"."""
        return "text" if self.header["format"] >= 2 else "id"

    def __len__(self) -> int:
        return len(self.utterances)

    @cached_property
    def utterances(self) -> list[StoredUtterance]:
        return [StoredUtterance.from_row(row) for row in read_rows(self.path / "utterances.jsonl")]

    @cached_property
    def speakers(self) -> tuple[SpeakerStatistics, ...]:
        """The speakers, in the order of their first utterances; one without a name in stores that name none."""
        prosody = {name: getattr(self, name) for name in ProsodyStatistics.model_fields} if self.timed else None
        whole = {"mean": self.mean.tolist(), "std": self.std.tolist(), "mpr": self.mpr, "prosody": prosody}
        return self._several or (SpeakerStatistics.model_validate({"name": self.utterances[0].speaker, **whole}),)

    @cached_property
    def _speaker_places(self) -> dict[str, int]:
        return {speaker.name: place for place, speaker in enumerate(self.speakers)}

    def speaker(self, index: int) -> int:
        """The speaker of an utterance: an index into `speakers`."""
        return self._speaker_places[self.utterances[index].speaker]

    @cached_property
    def rejected(self) -> list[Rejection]:
        return [Rejection(**row) for row in read_rows(self.path / "rejected.jsonl")]

    @cached_property
    def frames(self) -> np.ndarray[Any, Any]:
        return np.load(self.path / "mel.npy", mmap_mode="r")

    @cached_property
    def phonemizer(self) -> Phonemizer:
        """The phonemizer that made the tokens; ValueError if its inventory has changed since."""
        words = self.header.get("settings", {}).get("lexicon")
        reader = phonemizer(self.header["phonemizer"]["name"], None if words is None else Lexicon(words))
        if reader.symbols != self.symbols:
            raise ValueError(f"{self.path} was made with another inventory of {reader.name!r}: prepare it again")
        return reader

    def mel(self, index: int) -> Tensor:
        """Log-mel of an utterance, un-normalised, float32 (frames, n_mels)."""
        utterance = self.utterances[index]
        frames = self.frames[utterance.offset : utterance.offset + utterance.frames]
        return torch.from_numpy(frames.astype(np.float32))

    @cached_property
    def contour(self) -> np.ndarray[Any, Any]:
        return np.load(self.path / "pitch.npy", mmap_mode="r")

    def pitch(self, index: int) -> Tensor:
        """log F0 of every frame, 0 where unvoiced, float32 (frames,)."""
        utterance = self.utterances[index]
        frames = self.contour[utterance.offset : utterance.offset + utterance.frames]
        return torch.from_numpy(frames.astype(np.float32))

    def durations(self, index: int) -> Tensor:
        """Frames of the silence before, of every token and of the silence after, float32 (tokens + 2,)."""
        durations = self.utterances[index].durations
        if durations is None:
            raise ValueError(
                f"{self.path}: {self.utterances[index].id} was not aligned: run `clock-attention corpus align`"
            )
        return torch.tensor(durations, dtype=torch.float32)

    def tokens(self, index: int) -> Tensor:
        """Token ids, int64 (tokens,)."""
        return torch.tensor(self.utterances[index].tokens, dtype=torch.long)

    def split(self, name: str) -> list[int]:
        """Indices of the utterances of "train", "valid" or "test"; in aligned stores only if they could be aligned."""
        if name not in SPLITS:
            raise ValueError(f"unknown split {name!r}; choose one of {', '.join(SPLITS)}")
        return [
            index
            for index, utterance in enumerate(self.utterances)
            if utterance.split == name and not (self.timed and utterance.durations is None)
        ]

    @property
    def hours(self) -> float:
        return self.frames.shape[0] / self.mel_config.frames_per_second / 3600

    def __getstate__(self) -> dict[str, Any]:
        # Data-loading workers open the memory map themselves instead of receiving gigabytes.
        return {key: value for key, value in self.__dict__.items() if key not in ("frames", "contour", "phonemizer")}


def name_speaker(path: str | Path, name: str) -> FeatureStore:
    """Name the speaker of a store that names none, or rename its only speaker."""
    store = FeatureStore.open(path)
    if len(store.speakers) > 1:
        known = ", ".join(speaker.name for speaker in store.speakers)
        raise ValueError(f"{path} has several speakers ({known}); their names are in the metadata it was made from")
    with locked(store.path, "a corpus"):
        write_rows(store.path / "utterances.jsonl", [replace(row, speaker=name).to_row() for row in store.utterances])
    return FeatureStore.open(path)


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write a table of a feature store, one JSON object per line."""
    write_atomically(path, "".join(to_json(row) + "\n" for row in rows))


def to_json(row: dict[str, Any]) -> str:
    """A row of a feature store's table as JSON; halves of UTF-16 pairs, which UTF-8 cannot hold, are escaped."""
    text = json.dumps(row, ensure_ascii=False)
    return text if text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text) else json.dumps(row)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read a table of a feature store, one JSON object per line."""
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
