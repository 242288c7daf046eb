"""Utterances: the acoustic model's output for one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from clock_attention.alignment import attention_matrices
from clock_attention.arrays import FloatArray, IntArray
from clock_attention.speech.audio.shaping import frames_with_silence
from clock_attention.speech.model.transformer_model import Clocks
from clock_attention.speech.text.phonemes import Phonemes
from clock_attention.timestamps import Alignment


@dataclass(frozen=True)
class Utterance:
    """An utterance: the acoustic model's output for one text."""

    text: str
    phonemes: Phonemes
    mel: Tensor  # log-mel (S, M)
    alignment: Alignment  # of the phonemes, in mel frames
    weights: list[Tensor]  # per decoder layer (H, steps, T); autoregressive models have an additional end token
    clocks: list[Clocks]  # per decoder layer, target (H, steps, D) and source (H, T, D); empty without clocks
    frames_per_step: int
    natural_frames: int  # predicted by the length model
    stopped_by_itself: bool | None  # None: parallel decoding, where the length is decided beforehand
    silent: tuple[int, ...] = ()  # frames of inserted digital silence

    @property
    def hit_ceiling(self) -> bool:
        """Whether decoding was cut off: the speech is incomplete or does not end."""
        return self.stopped_by_itself is False


def alignment_matrix(weights: Sequence[Tensor]) -> FloatArray:
    """The attention of an utterance from which its alignment is derived: mean over heads and layers.  (steps, T)"""
    return attention_matrices(torch.cat(list(weights))[None], heads="mean")[0]


def with_longer_silences(utterance: Utterance, durations: IntArray, silence: float) -> Utterance:
    """An utterance with silence inserted in the middle of tokens that must last longer than the model made them."""
    source = frames_with_silence(utterance.alignment.durations, durations)
    nearest = torch.from_numpy(np.maximum.accumulate(np.maximum(source, 0)))
    mel = utterance.mel[nearest].clone()
    mel[torch.from_numpy(source < 0)] = silence
    whole = max(int(durations.sum()), 1)
    ends = durations.cumsum()
    time = torch.from_numpy((np.arange(whole) + 0.5) / whole).float()[None, :, None]
    centre = torch.from_numpy((ends - durations / 2) / whole).float()[None, :, None]
    return replace(
        utterance,
        mel=mel,
        alignment=Alignment(utterance.alignment.labels, durations, utterance.alignment.frame_seconds),
        weights=[layer[:, nearest] for layer in utterance.weights],
        clocks=[Clocks(time, centre) for _ in utterance.clocks],
        silent=tuple(np.flatnonzero(source < 0).tolist()),
    )
