"""What the acoustic model makes of one text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from clock_attention.alignment import FloatArray, attention_matrices
from clock_attention.speech.model.model import Clocks
from clock_attention.speech.text.phonemes import Phonemes
from clock_attention.timestamps import Alignment


@dataclass(frozen=True)
class Utterance:
    """What the acoustic model makes of one text."""

    text: str
    phonemes: Phonemes
    mel: Tensor  # log-mel (S, M)
    alignment: Alignment  # of the phonemes, in mel frames
    weights: list[Tensor]  # per decoder layer (H, steps, T); autoregressive models see one end token more
    clocks: list[Clocks]  # per decoder layer, target (H, steps, D) and source (H, T, D); empty without clocks
    frames_per_step: int
    natural_frames: int  # predicted by the length model
    stopped_by_itself: bool | None  # None: parallel decoding, whose length is decided beforehand
    silent: tuple[int, ...] = ()  # frames of digital silence that was put in

    @property
    def hit_ceiling(self) -> bool:
        """True where decoding was cut off: the speech is incomplete or does not end."""
        return self.stopped_by_itself is False


def alignment_matrix(weights: Sequence[Tensor]) -> FloatArray:
    """The attention that alignments follow: the mean over heads and layers, which measured closest.  (steps, T)"""
    return attention_matrices(torch.cat(list(weights))[None], heads="mean")[0]
