"""Join several feature stores into one: of one speaker (different paces, old and new recordings) or of several."""

from __future__ import annotations

import logging
import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clock_attention.speech.corpus.protocols import Corpus, made_of_recordings
from clock_attention.speech.corpus.speakers import ProsodyStatistics, SpeakerStatistics
from clock_attention.speech.corpus.splits import text_key
from clock_attention.speech.corpus.store import FeatureStore, StoredUtterance

logger = logging.getLogger(__name__)


class JoinedStore:
    """Several stores as one: their utterances in order, statistics pooled by frames.

    Stores that name the same speaker, or none, belong to one speaker; each speaker has separate statistics.
    """

    def __init__(self, stores: Sequence[FeatureStore]) -> None:
        first = stores[0]
        for other in stores[1:]:
            for what, mine, theirs in (
                ("mel definition", first.mel_config, other.mel_config),
                ("phonemizer", first.header["phonemizer"], other.header["phonemizer"]),
            ):
                if mine != theirs:
                    raise ValueError(
                        f"{first.path} and {other.path} differ in their {what}: prepare both with the same one"
                    )
        self.stores = list(stores)
        self.symbols, self.mel_config = first.symbols, first.mel_config
        self.header: dict[str, Any] = {
            "phonemizer": first.header["phonemizer"],
            "source": " + ".join(str(store.header.get("source", "unknown")) for store in stores),
            "recordings": any(made_of_recordings(store.header) for store in stores),
        }
        self.utterances: list[StoredUtterance] = [row for store in stores for row in store.utterances]
        self.firsts = [0, *accumulate(len(store) for store in stores)]
        frames = torch.tensor([float(store.frames.shape[0]) for store in stores])
        weight = (frames / frames.sum())[:, None]
        means, stds = (torch.stack([getattr(store, name) for store in stores]) for name in ("mean", "std"))
        self.mean = (weight * means).sum(0)  # (n_mels,)
        self.std = (weight * (stds.square() + (means - self.mean).square())).sum(0).sqrt()  # (n_mels,)
        self.mpr = float(frames.sum()) / sum(len(row.tokens) for row in self.utterances)
        self.timed = all(store.timed for store in stores)
        share = (frames / frames.sum()).tolist()
        self.pitch_mean, self.pitch_std = pooled(share, [(store.pitch_mean, store.pitch_std) for store in stores])
        self.energy_mean, self.energy_std = pooled(share, [(store.energy_mean, store.energy_std) for store in stores])
        if self.timed:
            names = ("pitch_mean", "pitch_std", "energy_mean", "energy_std")
            self.header["prosody"] = {name: getattr(self, name) for name in names}
        self.speakers = self._join_speakers()
        self._speaker_places = {speaker.name: place for place, speaker in enumerate(self.speakers)}

    def _join_speakers(self) -> tuple[SpeakerStatistics, ...]:
        """The speakers in the order of the stores."""
        nameless = [store for store in self.stores if not store.speakers[0].name]
        if nameless and len(nameless) < len(self.stores):
            raise ValueError(
                f"{nameless[0].path} does not say who speaks, and another corpus does: name the speaker "
                f"(clock-attention corpus speaker {nameless[0].path} NAME)"
            )
        parts: dict[str, list[tuple[float, int, SpeakerStatistics]]] = {}
        for store in self.stores:
            for place, speaker in enumerate(store.speakers):
                own = [row for index, row in enumerate(store.utterances) if store.speaker(index) == place]
                counts = float(sum(row.frames for row in own)), sum(len(row.tokens) for row in own)
                parts.setdefault(speaker.name, []).append((*counts, speaker))
        if len(parts) == 1:  # the pooled statistics
            whole = {"mean": self.mean.tolist(), "std": self.std.tolist(), "mpr": self.mpr}
            whole |= {"name": next(iter(parts)), "prosody": self.header.get("prosody")}
            return (SpeakerStatistics.model_validate(whole),)
        return tuple(joined_speaker(of_one) for of_one in parts.values())

    def speaker(self, index: int) -> int:
        """The speaker of an utterance: an index into `speakers`."""
        return self._speaker_places[self.utterances[index].speaker]

    def mel(self, index: int) -> Tensor:
        store, place = self._place(index)
        return store.mel(place)

    def tokens(self, index: int) -> Tensor:
        store, place = self._place(index)
        return store.tokens(place)

    def pitch(self, index: int) -> Tensor:
        store, place = self._place(index)
        return store.pitch(place)

    def durations(self, index: int) -> Tensor:
        store, place = self._place(index)
        return store.durations(place)

    def _place(self, index: int) -> tuple[FeatureStore, int]:
        number = bisect_right(self.firsts, index) - 1
        return self.stores[number], index - self.firsts[number]

    def split(self, name: str) -> list[int]:
        """Indices of a split. Held-out sentences that another store uses for training are left out."""
        found = [
            first + index for first, store in zip(self.firsts, self.stores, strict=False) for index in store.split(name)
        ]
        if name == "train":
            return found
        kept = [index for index in found if text_key(self.utterances[index].text) not in self._trained]
        if len(kept) < len(found):
            logger.warning(
                "%d of %d %s utterances are not used: another corpus has the same sentences for training",
                len(found) - len(kept),
                len(found),
                name,
            )
        return kept

    @cached_property
    def _trained(self) -> set[str]:
        return {text_key(self.utterances[index].text) for index in self.split("train")}


def pooled(shares: Sequence[float], statistics: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Pooled mean and deviation of several stores, each weighted by its share of the frames."""
    mean = sum(share * group for share, (group, _) in zip(shares, statistics, strict=True))
    parts = ((share, group, std) for share, (group, std) in zip(shares, statistics, strict=True))
    return mean, math.sqrt(sum(share * (std**2 + (group - mean) ** 2) for share, group, std in parts))


def joined_speaker(parts: Sequence[tuple[float, int, SpeakerStatistics]]) -> SpeakerStatistics:
    """Join the statistics of one speaker from several stores, given frames, tokens and statistics for each."""
    frames, first = sum(part[0] for part in parts), parts[0][2]
    if len(parts) == 1:
        return first
    shares, of = [part[0] / frames for part in parts], [part[2] for part in parts]
    bins = [pooled(shares, bin) for bin in zip(*(zip(one.mean, one.std, strict=True) for one in of), strict=True)]
    prosody = [one.prosody for one in of if one.prosody is not None]
    found = None
    if len(prosody) == len(of):
        pitch = pooled(shares, [(part.pitch_mean, part.pitch_std) for part in prosody])
        energy = pooled(shares, [(part.energy_mean, part.energy_std) for part in prosody])
        found = ProsodyStatistics(pitch_mean=pitch[0], pitch_std=pitch[1], energy_mean=energy[0], energy_std=energy[1])
    mpr = frames / sum(part[1] for part in parts)
    mean, std = (tuple(column) for column in zip(*bins, strict=True))
    return SpeakerStatistics(name=first.name, mean=mean, std=std, mpr=mpr, prosody=found)


def open_corpora(paths: Sequence[Path]) -> Corpus:
    """Open one feature store, or several joined into one."""
    stores = [FeatureStore.open(path) for path in paths]
    return stores[0] if len(stores) == 1 else JoinedStore(stores)
