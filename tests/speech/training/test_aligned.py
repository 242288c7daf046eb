"""Batches and losses along an alignment, against their definitions written out."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.evaluation.scoring.cepstra import cepstra
from clock_attention.speech.corpus.speakers import ProsodyStatistics, SpeakerStatistics
from clock_attention.speech.model.aligned import SHORTEST_SILENCE, AlignedPrediction
from clock_attention.speech.training.aligned import (
    AlignedBatch,
    aligned_losses,
    cepstral_errors,
    collate_aligned,
    stretched_durations,
    token_means,
)
from clock_attention.speech.training.batching import Plan


def prosody(pitch):
    return ProsodyStatistics(pitch_mean=pitch, pitch_std=0.5, energy_mean=1.0, energy_std=2.0)


class Store:
    """Three utterances with known timing."""

    mean, std = torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0])
    speakers = (SpeakerStatistics(name="", mean=(1.0, 2.0), std=(2.0, 4.0), mpr=6.0, prosody=prosody(5.0)),)

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(0)
        self.timing = [torch.tensor(row).float() for row in ([1, 3, 0, 4, 2], [2, 2, 1], [1, 5, 5, 1])]
        lengths = [int(row.sum()) for row in self.timing]
        self.mels = [torch.randn(length, 2, generator=draw) for length in lengths]
        self.pitches = [torch.where(torch.rand(n, generator=draw) < 0.5, 5.2, 0.0) for n in lengths]
        self.utterances = [SimpleNamespace(natural_frames=2 * n, frames=n) for n in lengths]

    def speaker(self, index):
        return 0

    def mel(self, index):
        return self.mels[index]

    def pitch(self, index):
        return self.pitches[index]

    def durations(self, index):
        return self.timing[index]

    def tokens(self, index):
        return torch.arange(len(self.timing[index]) - 2)


def test_a_batch_holds_each_utterance_and_nothing_else():
    store = Store()
    batch = collate_aligned(store, Plan((0, 1), (10, 5)))
    assert batch.durations.tolist() == [[1, 3, 0, 4, 2], [2, 2, 1, 0, 0]]
    assert batch.token_lengths.tolist() == [3, 1]
    assert batch.pace.tolist() == [2, 2]
    torch.testing.assert_close(batch.mel[1, :5], (store.mels[1] - store.mean) / store.std)
    assert (batch.mel[1, 5:] == 0).all()
    assert (batch.voiced[1, 5:] == 0).all()
    voiced = store.pitches[0] > 0
    torch.testing.assert_close(batch.pitch[0][voiced], torch.full((int(voiced.sum()),), (5.2 - 5.0) / 0.5))
    expected = (store.mels[0][1:4].mean() - 1.0) / 2.0  # the second token has frames 1, 2 and 3
    torch.testing.assert_close(batch.energy[0, 1], expected)
    assert batch.energy[0, 2] == 0, "a token without frames has the mean energy"


def test_stretching_keeps_the_proportions_and_the_sum():
    durations = torch.tensor([1.0, 3, 0, 4, 2])
    for frames in (5, 10, 17, 30):
        found = stretched_durations(durations, frames)
        assert int(found.sum()) == frames
        assert (found - durations * frames / 10).abs().max() <= 1
    batch = collate_aligned(Store(), Plan((0,), (15,)))
    assert int(batch.durations.sum()) == 15 == batch.mel.shape[1] == batch.pitch.shape[1]
    assert float(batch.pace) == pytest.approx(20 / 15)


def test_token_means_are_means():
    found = token_means(torch.tensor([1.0, 2, 3, 10]), torch.tensor([1.0, 0, 2, 1]), empty=-7.0)
    assert found.tolist() == [1, -7, 2.5, 10]


def test_shares_of_a_batch_add_up_to_its_losses():
    store, draw = Store(), torch.Generator().manual_seed(1)
    plans = [Plan((0, 1, 2), (10, 5, 12)), Plan((0,), (10,)), Plan((1,), (5,)), Plan((2,), (12,))]
    outputs = {}

    def prediction(items):
        rows = []
        for item in items:
            if item not in outputs:
                n, t = len(store.mels[item]), len(store.timing[item])
                sizes = ((n, 2), (t,), (t,), (n,), (n,))
                outputs[item] = [torch.randn(*size, generator=draw) for size in sizes]
            rows.append(outputs[item])
        pad = torch.nn.utils.rnn.pad_sequence
        return AlignedPrediction(*(pad([row[k] for row in rows], batch_first=True) for k in range(5)))

    totals = {"boundaries": 1, "all_frames": 27, "all_tokens": 9}
    whole, *shares = (aligned_losses(prediction(plan.items), collate_aligned(store, plan), **totals) for plan in plans)
    for name in whole._fields:
        torch.testing.assert_close(getattr(whole, name), sum(getattr(share, name) for share in shares))
    mel = sum((outputs[i][0] - (store.mels[i] - store.mean) / store.std).abs().sum() for i in range(3)) / (27 * 2)
    torch.testing.assert_close(whole.mel, mel)
    natural = [torch.log1p(2 * store.timing[i]) for i in range(3)]
    single = sum((outputs[i][1] - natural[i])[1:].abs().sum() for i in range(3))
    frames = [outputs[i][1].clamp(min=0).expm1() for i in range(3)]
    ours = [frames[i][2:-1].sum() for i in range(3)]  # the first token of each is a word boundary
    assert all(float(frames[i][1]) < SHORTEST_SILENCE for i in range(3)), "so it will not be spoken"
    theirs = [natural[i][1:-1].expm1().sum() for i in range(3)]
    totals_of = [[max(1.0, float(total)) for total in those] for those in (ours, theirs)]
    faster = [abs(math.log(ours / theirs)) for ours, theirs in zip(*totals_of, strict=True)]
    pace = sum((len(store.timing[i]) - 1) * faster[i] for i in range(3))
    torch.testing.assert_close(whole.duration, (single + pace) / 9)
    pieces = []
    for item in range(3):
        true = (token_means(store.mels[item].mean(1), store.timing[item], 1.0) - 1.0) / 2.0
        learned = store.timing[item] > 0
        learned[0] = False
        pieces.append((outputs[item][2] - true)[learned].abs().sum())
    torch.testing.assert_close(whole.energy, sum(pieces) / 9, msg="a token without frames has no energy to learn")


@given(bins=st.integers(2, 90), frames=st.integers(1, 9), seed=st.integers(0, 99))
def test_the_cepstral_loss_is_the_distance_that_the_evaluation_reports(bins, frames, seed):
    ours, theirs = np.random.default_rng(seed).normal(size=(2, frames, bins))
    expected = np.linalg.norm(cepstra(ours) - cepstra(theirs), axis=1)
    found = cepstral_errors(torch.tensor(ours).float()[None], torch.tensor(theirs).float()[None])
    torch.testing.assert_close(found[0], torch.tensor(expected).float(), atol=0.01, rtol=1e-4)


def test_the_cepstral_loss_has_a_slope_where_nothing_is_wrong():
    mel = torch.zeros(1, 3, 80, requires_grad=True)
    cepstral_errors(mel, torch.zeros(1, 3, 80)).sum().backward()
    assert torch.equal(mel.grad, torch.zeros_like(mel))


def learned_level(durations: list[float], tokens: list[int]) -> float:
    """Frames of every token of an utterance if one and the same number is learned for all; word boundaries are 0."""
    frames, count = int(sum(durations)), len(tokens)
    silent, zeros = torch.zeros(1, frames), torch.zeros(1, count + 2)
    batch = AlignedBatch(
        torch.tensor([tokens]), torch.tensor([count]), torch.zeros(1, frames, 2), torch.tensor([frames]),
        torch.ones(1), torch.tensor([durations]), zeros, silent, silent, torch.zeros(1, dtype=torch.long),
    )  # fmt: skip
    level = torch.tensor(1.5, requires_grad=True)
    optimizer = torch.optim.Adam([level], lr=0.02)
    for _ in range(300):
        guess = AlignedPrediction(batch.mel, level.expand(1, count + 2), zeros, silent, silent)
        loss = aligned_losses(guess, batch, boundaries=1, all_frames=frames, all_tokens=count + 1).duration
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(level.detach().expm1())


def test_phonemes_learn_to_last_as_long_as_they_do_in_total():
    """Where nothing tells phonemes of 2 frames from the fewer of 11, the median alone would speak all of them in 2."""
    level = learned_level([4.0, 2, 11, 2, 11, 2, 11, 2, 2, 4], [3] * 8)
    assert 8 * level == pytest.approx(43, rel=0.06)


def test_phonemes_take_the_place_of_silences_that_are_too_short_to_be_spoken():
    """The speaker needs 36 frames, 6 of them for a silence that the model will leave out."""
    level = learned_level([4.0, 5, 5, 5, 6, 5, 5, 5, 4], [3, 3, 3, 0, 3, 3, 3])
    assert level < SHORTEST_SILENCE
    assert 6 * level == pytest.approx(36, rel=0.03)


class TwoSpeakers(Store):
    """The last utterance is another's."""

    bob = SpeakerStatistics(name="bob", mean=(3.0, 0.0), std=(1.0, 0.5), mpr=6.0, prosody=prosody(4.7))
    speakers = (Store.speakers[0].model_copy(update={"name": "ann"}), bob)

    def speaker(self, index):
        return int(index == 2)


def test_every_utterance_is_standardised_with_the_statistics_of_its_speaker():
    store = TwoSpeakers()
    batch = collate_aligned(store, Plan((0, 2), (10, 12)))
    assert batch.speakers.tolist() == [0, 1]
    torch.testing.assert_close(batch.mel[0, :10], (store.mels[0] - store.mean) / store.std)
    torch.testing.assert_close(batch.mel[1], (store.mels[2] - torch.tensor([3.0, 0.0])) / torch.tensor([1.0, 0.5]))
    for item, place, mean in ((0, 0, 5.0), (2, 1, 4.7)):
        voiced = store.pitches[item] > 0
        expected = torch.full((int(voiced.sum()),), (5.2 - mean) / 0.5)
        torch.testing.assert_close(batch.pitch[place, : len(voiced)][voiced], expected)


def test_a_speaker_who_was_not_aligned_is_named():
    store = TwoSpeakers()
    store.speakers = (store.speakers[0].model_copy(update={"prosody": None}),)
    with pytest.raises(ValueError, match="'ann' was not aligned"):
        collate_aligned(store, Plan((0,), (10,)))
