"""Batching for training: the utterances of batch n and their tensors, as pure functions of seed and step.

A run resumed after step n and one that never stopped see the same batches from n + 1 on, whatever the number of
processes: a batch is planned for all of them together, and each takes its share.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from clock_attention.speech.corpus.protocols import Features
from clock_attention.speech.training.config import TrainingConfig

POOL_BATCHES = 32  # batches that are sorted by length together: enough for little padding, few enough to stay random


@dataclass(frozen=True)
class Plan:
    """Plan of a batch, made before it is loaded; the same on every process."""

    items: tuple[int, ...]  # indices into the store
    frames: tuple[int, ...]  # target frames of each, after time-stretch

    def share(self, rank: int, world: int) -> Plan:
        """The items of one process; as items are sorted by length, taking every n-th balances the load."""
        return Plan(self.items[rank::world], self.frames[rank::world])


class Batch(NamedTuple):
    """One batch on one process, as tensors; padding starts after the lengths."""

    tokens: Tensor  # (B, T)
    token_lengths: Tensor  # (B,)
    mel: Tensor  # standardised (B, S, M)
    frames: Tensor  # (B,)
    natural_frames: Tensor  # at the speaker's natural pace, before time-stretch (B,)

    def to(self, device: torch.device) -> Batch:
        return Batch(*(tensor.to(device, non_blocking=True) for tensor in self))


class Batches:
    """The endless, deterministic sequence of training batches: `batches.plan(step)`, `batches.load(plan)`."""

    def __init__(
        self,
        store: Features,
        items: Sequence[int],
        config: TrainingConfig,
        world: int = 1,
        load: Callable[[Plan], Any] | None = None,
    ) -> None:
        if not items:
            raise ValueError("the corpus has no utterances to train on: its train split is empty")
        self.store = store
        self.items = np.asarray(items)
        self.config = config
        self.world = world
        self.lengths = np.asarray([store.utterances[item].frames for item in items])
        self.by_length = np.argsort(self.lengths, kind="stable")
        self.load: Callable[[Plan], Any] = load or partial(collate, store)
        self._first_steps = [0]  # first step of each epoch planned so far
        self._epoch = lru_cache(maxsize=2)(self._plan_epoch)

    def plan(self, step: int) -> Plan:
        """The global batch of a step, counted from 0."""
        epoch = self._epoch_with(step)
        return self._epoch(epoch)[step - self._first_steps[epoch]]

    def epoch_of(self, step: int) -> float:
        """Epochs completed before this step, with the fraction of the current one."""
        epoch = self._epoch_with(step)
        first, end = self._first_steps[epoch : epoch + 2]
        return epoch + (step - first) / (end - first)

    def _epoch_with(self, step: int) -> int:
        while self._first_steps[-1] <= step:
            self._first_steps.append(self._first_steps[-1] + len(self._epoch(len(self._first_steps) - 1)))
        return bisect_right(self._first_steps, step) - 1

    def _plan_epoch(self, epoch: int) -> list[Plan]:
        draw = np.random.default_rng((self.config.seed, epoch))
        chosen = self.by_length[
            : max(self.config.batch_size, round(len(self.items) * self._share(self._first_steps[epoch])))
        ]
        order = draw.permutation(chosen)
        frames = self._stretched(draw)
        pools = max(1, round(len(order) / (POOL_BATCHES * self.config.batch_size)))
        batches: list[list[int]] = []
        for pool in np.array_split(order, pools):
            batches.extend(self._cut(pool[np.argsort(frames[pool], kind="stable")[::-1]].tolist(), frames))
        smallest = min(map(len, batches))
        if smallest < self.world:
            raise ValueError(
                f"{self.world} processes cannot share a batch of {smallest} utterances: every one needs at least one; "
                "use fewer processes or raise batch_size or batch_frames"
            )
        return [
            Plan(tuple(self.items[batches[b]].tolist()), tuple(frames[batches[b]].tolist()))
            for b in draw.permutation(len(batches))
        ]

    def _share(self, step: int) -> float:
        """Share of the corpus, shortest utterances first, used in an epoch that begins at this step."""
        config = self.config
        return min(1.0, config.short_share + (1 - config.short_share) * step / max(1, config.short_steps))

    def _cut(self, members: list[int], frames: np.ndarray) -> list[list[int]]:
        """Cut a pool into batches, longest first; they do not depend on the number of processes."""
        batches: list[list[int]] = []
        while members:
            size = self.config.batch_size
            if self.config.batch_frames:
                size = max(1, min(size, self.config.batch_frames // int(frames[members[0]])))
            if batches and len(members) < len(batches[-1]) / 2:  # a small remainder goes into the last batch
                batches[-1].extend(members)
                break
            batches.append(members[:size])
            members = members[size:]
        return batches

    def _stretched(self, draw: np.random.Generator) -> np.ndarray:
        """Target lengths of this epoch: natural, or for a share of them stretched by a log-uniform factor."""
        config = self.config
        chosen = draw.random(len(self.items)) < config.stretch_share
        low, high = np.log(config.stretch_shortest), np.log(config.stretch_longest)
        factor = np.exp(draw.uniform(low, high, len(self.items)))
        return np.where(chosen, np.maximum(1, np.round(self.lengths * factor)), self.lengths).astype(np.int64)


def in_order(store: Features, items: Sequence[int], size: int) -> list[Plan]:
    """Plans of batches of similar length without any randomness, for validation."""
    by_length = sorted(items, key=lambda item: (store.utterances[item].frames, item))
    groups = [by_length[start : start + size] for start in range(0, len(by_length), size)]
    return [Plan(tuple(group), tuple(store.utterances[item].frames for item in group)) for group in groups]


def collate(store: Features, plan: Plan) -> Batch:
    """Load a batch: standardise, stretch and pad the utterances of a plan."""
    sources = [store.tokens(item) for item in plan.items]
    mels = [stretch(store.mel(item), frames) for item, frames in zip(plan.items, plan.frames, strict=True)]
    tokens = torch.nn.utils.rnn.pad_sequence(sources, batch_first=True)
    mel = torch.nn.utils.rnn.pad_sequence(mels, batch_first=True)
    frames = torch.tensor(plan.frames)
    # One pass over the padded batch is cheaper than one per utterance; the padding is then reset to zero.
    mel = ((mel - store.mean) / store.std) * (torch.arange(mel.shape[1]) < frames[:, None])[..., None]
    return Batch(
        tokens=tokens,
        token_lengths=torch.tensor([len(source) for source in sources]),
        mel=mel,
        frames=frames,
        natural_frames=torch.tensor([store.utterances[item].natural_frames for item in plan.items]),
    )


def stretch(mel: Tensor, frames: int) -> Tensor:
    """Time-stretch an utterance of a batch: interpolate its mel (S, M) linearly to another length."""
    if len(mel) == frames:
        return mel
    return F.interpolate(mel.T[None], size=frames, mode="linear")[0].T
