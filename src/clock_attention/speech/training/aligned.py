"""Training batches and losses of the aligned model, which learns along an alignment."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from clock_attention.speech.corpus.protocols import TimedFeatures
from clock_attention.speech.corpus.speakers import ProsodyStatistics, SpeakerStatistics
from clock_attention.speech.model.aligned import MOST_FRAMES, SHORTEST_SILENCE, AlignedPrediction
from clock_attention.speech.model.transformer_model import past_end
from clock_attention.speech.training.batching import Plan, stretch

CEPSTRA = 24  # as many as in the evaluation (evaluation/scoring/cepstra.py)


class AlignedBatch(NamedTuple):
    """A padded batch for the aligned model on one process; the silences before and after count as tokens."""

    tokens: Tensor  # without the silences (B, T)
    token_lengths: Tensor  # (B,)
    mel: Tensor  # standardised (B, S, M)
    frames: Tensor  # (B,)
    pace: Tensor  # relative to natural pace; 2 is twice as fast (B,)
    durations: Tensor  # frames (B, T + 2)
    energy: Tensor  # standardised mean log-mel of each token (B, T + 2)
    pitch: Tensor  # standardised log F0, 0 where unvoiced (B, S)
    voiced: Tensor  # 1 or 0 (B, S)
    speakers: Tensor  # (B,)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Inputs of the model, except the speakers."""
        return (self.tokens, self.token_lengths, self.durations, self.energy, self.pitch, self.voiced)

    def to(self, device: torch.device) -> AlignedBatch:
        return AlignedBatch(*(tensor.to(device, non_blocking=True) for tensor in self))


class AlignedLosses(NamedTuple):
    """Losses of the aligned model: means over one process's share, scaled so that shares sum to the batch's loss."""

    mel: Tensor
    duration: Tensor
    energy: Tensor
    pitch: Tensor
    voicing: Tensor


def collate_aligned(store: TimedFeatures, plan: Plan) -> AlignedBatch:
    """Load a batch for the aligned model: standardise per speaker, stretch and pad the utterances of a plan."""
    numbers = [store.speaker(item) for item in plan.items]
    of = [store.speakers[number] for number in numbers]
    prosodies = [prosody_of(speaker) for speaker in of]
    mels, pitches, durations, energies, paces = [], [], [], [], []
    for item, frames, own in zip(plan.items, plan.frames, prosodies, strict=True):
        mel, pitch, duration = store.mel(item), store.pitch(item), store.durations(item)
        natural = store.utterances[item].natural_frames
        if len(mel) != frames:
            duration = stretched_durations(duration, frames)
            nearest = ((torch.arange(frames) + 0.5) * len(mel) / frames).long()
            mel, pitch = stretch(mel, frames), pitch[nearest]
        mels.append(mel)
        pitches.append(pitch)
        durations.append(duration)
        energies.append((token_means(mel.mean(1), duration, own.energy_mean) - own.energy_mean) / own.energy_std)
        paces.append(natural / frames)
    sources = [store.tokens(item) for item in plan.items]
    pad = torch.nn.utils.rnn.pad_sequence
    mel, pitch, frames_of = pad(mels, batch_first=True), pad(pitches, batch_first=True), torch.tensor(plan.frames)
    voiced = (pitch > 0).float()
    present = ~past_end(frames_of, mel.shape[1])
    mean, std = (torch.tensor([getattr(speaker, name) for speaker in of])[:, None] for name in ("mean", "std"))
    pitch_mean, pitch_std = (
        torch.tensor([getattr(own, name) for own in prosodies])[:, None] for name in ("pitch_mean", "pitch_std")
    )
    return AlignedBatch(
        tokens=pad(sources, batch_first=True),
        token_lengths=torch.tensor([len(source) for source in sources]),
        mel=((mel - mean) / std) * present[..., None],
        frames=frames_of,
        pace=torch.tensor(paces),
        durations=pad(durations, batch_first=True),
        energy=pad(energies, batch_first=True),
        pitch=(pitch - pitch_mean) / pitch_std * voiced,
        voiced=voiced,
        speakers=torch.tensor(numbers),
    )


def prosody_of(speaker: SpeakerStatistics) -> ProsodyStatistics:
    """Pitch and energy statistics of a speaker, for batches of the aligned model; the speaker must be aligned."""
    if speaker.prosody is None:
        raise ValueError(f"the speaker {speaker.name!r} was not aligned: run `clock-attention corpus align`")
    return speaker.prosody


def stretched_durations(durations: Tensor, frames: int) -> Tensor:
    """Stretch durations in whole frames to sum to `frames`, for batches of the aligned model."""
    ends = (durations.double().cumsum(0) * frames / durations.sum()).round()
    return torch.diff(ends, prepend=torch.zeros(1, dtype=torch.float64)).float()


def token_means(values: Tensor, durations: Tensor, empty: float) -> Tensor:
    """Mean of values (S,) over each token's frames (T,), to train the aligned model; `empty` if it has no frames."""
    ends = durations.long().cumsum(0)
    sums = F.pad(values.double().cumsum(0), (1, 0))
    means = (sums[ends] - sums[ends - durations.long()]) / durations.clamp(min=1)
    return torch.where(durations > 0, means, empty).float()


def aligned_losses(
    prediction: AlignedPrediction, batch: AlignedBatch, *, boundaries: int, all_frames: int, all_tokens: int
) -> AlignedLosses:
    """Losses of the aligned model for one process's share of a batch.

    Durations are learned at natural pace, individually and in total: medians of durations sum to less than the
    durations, and a voice that learned only them would speak too fast. The silence before an utterance depends on where
    the recording was cut, not on how it was spoken, so it is not learned. Energy is only learned for tokens with
    frames.

    Args:
        boundaries: number of leading symbols that are pauses and word boundaries, which may take no frames.
        all_frames, all_tokens: of the whole batch over all processes, so that every frame and token has the same
            weight.
    """
    present = ~past_end(batch.frames, batch.mel.shape[1])
    tokens = ~past_end(batch.token_lengths + 2, batch.durations.shape[1])
    tokens[:, 0] = False
    natural = torch.log1p(batch.durations * batch.pace[:, None])
    voiced = batch.voiced * present
    voicing = F.binary_cross_entropy_with_logits(prediction.voiced.float(), batch.voiced, reduction="none")

    def mean(values: Tensor, where: Tensor, count: int) -> Tensor:
        return (values * where).sum() / count

    return AlignedLosses(
        mel=mean((prediction.mel.float() - batch.mel).abs().mean(-1), present, all_frames),
        duration=mean((prediction.log_duration.float() - natural).abs(), tokens, all_tokens)
        + mean(pace_errors(prediction, batch, natural, boundaries)[:, None], tokens, all_tokens),
        energy=mean((prediction.energy.float() - batch.energy).abs(), tokens & (batch.durations > 0), all_tokens),
        pitch=mean((prediction.pitch.float() - batch.pitch).abs(), voiced, all_frames),
        voicing=mean(voicing, present, all_frames),
    )


def pace_errors(prediction: AlignedPrediction, batch: AlignedBatch, natural: Tensor, boundaries: int) -> Tensor:
    """Pace errors for training the aligned model: how much faster or slower an item would be spoken, in logs.  (B,)

    The model leaves out silences that it expects to be short. Phonemes take up their time, so that a voice needs as
    much time for its words as the speaker. The silences before and after an utterance do not count.

    Args:
        natural: log(1 + frames) at natural pace (B, T + 2).
    """
    inside = F.pad(~past_end(batch.token_lengths, batch.tokens.shape[1]), (1, 1))
    optional = F.pad(batch.tokens < boundaries, (1, 1))
    longest = math.log1p(MOST_FRAMES)
    ours, theirs = (logs.clamp(0, longest).expm1() * inside for logs in (prediction.log_duration.float(), natural))
    ours = torch.where(optional & (ours < SHORTEST_SILENCE), 0.0, ours)
    return (ours.sum(1).clamp(min=1).log() - theirs.sum(1).clamp(min=1).log()).abs()


def cepstral_errors(mel: Tensor, target: Tensor) -> Tensor:
    """Distances of the cepstra 1 … 24 of standardised mels, to train the aligned model.  (B, S, M) → (B, S)

    L1 treats each bin independently. Here errors of neighbouring bins count together, so the shape of the spectrum
    (formants, tilt) is learned sooner than its texture.
    """
    basis = cosine_basis(mel.shape[-1]).to(mel.device)
    cepstra = (mel - target) @ basis
    return (cepstra.square().sum(-1) + 1e-4).sqrt()  # avoids an infinite slope at 0


@lru_cache(maxsize=4)
def cosine_basis(bins: int) -> Tensor:
    """Cosine basis of the cepstral loss: columns 1 … 24 of the orthonormal DCT-II.  (M, C)"""
    place, order = torch.arange(bins)[:, None] + 0.5, torch.arange(1, min(CEPSTRA + 1, bins))
    return (2 / bins) ** 0.5 * torch.cos(math.pi / bins * place * order)
