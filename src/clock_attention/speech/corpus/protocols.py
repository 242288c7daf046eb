"""Protocols for corpora that can be trained on, such as `FeatureStore` and `JoinedStore`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.corpus.speakers import SpeakerStatistics


class UtteranceRow(Protocol):
    """Protocol for an utterance, as batching needs it."""

    @property
    def id(self) -> str: ...
    @property
    def frames(self) -> int: ...
    @property
    def natural_frames(self) -> int: ...
    @property
    def tokens(self) -> Sequence[int]: ...


class Features(Protocol):
    """Protocol for a corpus of mels, as training needs it; `FeatureStore` implements it."""

    mean: Tensor
    std: Tensor

    @property
    def utterances(self) -> Sequence[UtteranceRow]: ...
    @property
    def speakers(self) -> Sequence[SpeakerStatistics]: ...
    def speaker(self, index: int) -> int:
        """The speaker of an utterance: an index into `speakers`."""

    def mel(self, index: int) -> Tensor: ...
    def tokens(self, index: int) -> Tensor: ...


class TimedFeatures(Features, Protocol):
    """Protocol for an aligned corpus: the duration of each token, and the pitch of each frame."""

    def durations(self, index: int) -> Tensor: ...
    def pitch(self, index: int) -> Tensor: ...


class Corpus(Features, Protocol):
    """Protocol for a whole corpus, as a training run needs it; `FeatureStore` implements it."""

    symbols: tuple[str, ...]
    mel_config: MelConfig
    mpr: float
    header: dict[str, Any]

    def split(self, name: str) -> Sequence[int]: ...


def made_of_recordings(header: Mapping[str, Any]) -> bool:
    """Whether people speak in a corpus: its header names their folder, where a synthetic one has a seed."""
    return bool(header.get("recordings", "folder" in header))
