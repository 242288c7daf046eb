"""Scale factor of predicted energies, which vary less than those of recordings."""

from __future__ import annotations

import torch

from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.model.aligned import AlignedModel
from clock_attention.speech.training.aligned import collate_aligned
from clock_attention.speech.training.batching import Plan

MOST_SPREAD = 1.5


@torch.no_grad()
def energy_spread(model: AlignedModel, store: FeatureStore, items: list[int]) -> float:
    """Ratio of the standard deviations of phoneme energies: these recordings to predictions, 1 … MOST_SPREAD.

    A prediction that minimises its error is drawn to the mean. After scaling, loud and soft phonemes differ as much as
    they do in the recordings, though not always at the same phonemes.
    """
    true, predicted = [], []
    for item in items:
        batch = collate_aligned(store, Plan((item,), (store.utterances[item].frames,)))
        encoding = model.encode(batch.tokens, batch.token_lengths)
        spoken = ~encoding.optional & ~encoding.padding & (batch.durations > 0)
        true.append(batch.energy[spoken])
        predicted.append(encoding.energy[spoken])
    ratio = float(torch.cat(true).std() / torch.cat(predicted).std().clamp(min=1e-6))
    return min(MOST_SPREAD, max(1.0, ratio))
