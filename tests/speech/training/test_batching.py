"""Batches: complete, deterministic, independent of when a run stops and of how many processes share it."""

from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.training.batching import Batches, collate, in_order, stretch
from clock_attention.speech.training.config import TrainingConfig
from tests.speech.corpora import tiny_store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tiny_store(tmp_path_factory.mktemp("tiny") / "store")


def lengths_only(lengths):
    """A store of which only the lengths are known."""
    return SimpleNamespace(
        utterances=[SimpleNamespace(frames=n, tokens=(0,), id=str(i)) for i, n in enumerate(lengths)]
    )


def epoch(batches, number):
    """The plans of a whole epoch."""
    step, plans = 0, []
    while batches.epoch_of(step) < number + 1:
        if batches.epoch_of(step) >= number:
            plans.append(batches.plan(step))
        step += 1
    return plans


@given(
    lengths=st.lists(st.integers(1, 900), min_size=1, max_size=300),
    batch_size=st.integers(1, 17),
    batch_frames=st.sampled_from([0, 1, 1000, 5000]),
    seed=st.integers(0, 5),
)
def test_every_utterance_comes_once_an_epoch_in_batches_within_the_limits(lengths, batch_size, batch_frames, seed):
    config = TrainingConfig(batch_size=batch_size, batch_frames=batch_frames, seed=seed)
    plans = epoch(Batches(lengths_only(lengths), range(len(lengths)), config), 1)
    assert Counter(item for plan in plans for item in plan.items) == Counter(range(len(lengths)))
    for plan in plans:
        assert plan.frames == tuple(lengths[item] for item in plan.items)
        assert len(plan.items) < 1.5 * batch_size + 1  # a small rest joins its neighbour
        if batch_frames:
            assert len(plan.items) == 1 or len(plan.items) * max(plan.frames) < 1.5 * batch_frames + max(plan.frames)


def test_steps_can_be_asked_for_in_any_order_and_by_anyone():
    config = TrainingConfig(batch_size=4, stretch_share=0.5)
    store = lengths_only(range(10, 200))
    straight = Batches(store, range(190), config)
    expected = [straight.plan(step) for step in range(150)]
    late = Batches(store, range(190), config)
    assert late.plan(149) == expected[149]
    assert late.plan(3) == expected[3]
    assert expected[:48] != expected[48:96]  # the next epoch has another order
    assert Batches(store, range(190), config.model_copy(update={"seed": 1})).plan(0) != expected[0]


@given(world=st.integers(1, 4), step=st.integers(0, 60))
def test_processes_share_a_batch_without_loss_or_overlap(world, step):
    store = lengths_only([17 * n % 301 + 5 for n in range(100)])
    plan = Batches(store, range(100), TrainingConfig(batch_size=8), world).plan(step)
    assert plan == Batches(store, range(100), TrainingConfig(batch_size=8)).plan(step)
    shares = [plan.share(rank, world) for rank in range(world)]
    assert sorted(item for share in shares for item in share.items) == sorted(plan.items)
    assert min(len(share.items) for share in shares) >= 1


def test_more_processes_than_utterances_is_refused_at_once():
    with pytest.raises(ValueError, match="4 processes cannot share a batch of 3"):
        Batches(lengths_only([5, 6, 7]), range(3), TrainingConfig(batch_size=8), world=4).plan(0)
    with pytest.raises(ValueError, match="no utterances"):
        Batches(lengths_only([5]), [], TrainingConfig())


def test_bucketing_keeps_padding_small():
    lengths = torch.randint(50, 900, (2000,), generator=torch.Generator().manual_seed(0)).tolist()
    plans = epoch(Batches(lengths_only(lengths), range(2000), TrainingConfig(batch_size=16)), 0)
    padded = sum(max(plan.frames) * len(plan.frames) for plan in plans)
    assert padded < 1.05 * sum(lengths)


def test_a_batch_holds_standardised_frames_and_zeros(store):
    plan = in_order(store, store.split("valid"), 3)[0]
    batch = collate(store, plan)
    for place, item in enumerate(plan.items):
        frames, tokens = store.utterances[item].frames, store.utterances[item].tokens
        torch.testing.assert_close(batch.mel[place, :frames], (store.mel(item) - store.mean) / store.std)
        assert not batch.mel[place, frames:].any()
        assert tuple(batch.tokens[place, : len(tokens)].tolist()) == tokens
        assert (batch.frames[place], batch.token_lengths[place]) == (frames, len(tokens))


def test_time_stretch_changes_a_share_of_the_lengths_and_the_mels_with_them(store):
    config = TrainingConfig(batch_size=8, stretch_share=0.5, stretch_shortest=0.5, stretch_longest=1.7)
    batches = Batches(store, store.split("train"), config)
    plans = [plan for number in range(8) for plan in epoch(batches, number)]
    ratios = [
        frames / store.utterances[item].frames
        for plan in plans
        for item, frames in zip(plan.items, plan.frames, strict=True)
    ]
    changed = [ratio for ratio in ratios if ratio != 1]
    assert 0.35 < len(changed) / len(ratios) < 0.6
    assert min(ratios) > 0.4
    assert max(ratios) < 1.8
    batch = batches.load(plans[0])
    assert batch.frames.tolist() == list(plans[0].frames)
    assert batch.natural_frames.tolist() == [store.utterances[item].natural_frames for item in plans[0].items]
    assert batch.mel.shape[1] == max(plans[0].frames)


@given(frames=st.integers(2, 50), wanted=st.integers(1, 120))
def test_stretching_keeps_values_within_the_original_s_range(frames, wanted):
    mel = torch.randn(frames, 3)
    longer = stretch(mel, wanted)
    assert longer.shape == (wanted, 3)
    assert (longer.amax(0) <= mel.amax(0) + 1e-5).all()
    assert (longer.amin(0) >= mel.amin(0) - 1e-5).all()


def test_training_can_begin_with_the_short_utterances_and_grow_to_all():
    lengths = [37 * n % 401 + 5 for n in range(400)]
    config = TrainingConfig(batch_size=4, short_share=0.1, short_steps=120)
    batches = Batches(lengths_only(lengths), range(400), config)
    longest = [max(plan.frames) for plan in map(batches.plan, range(300))]
    assert max(longest[:10]) == sorted(lengths)[39]
    assert max(longest[10:30]) < max(longest[30:120])
    last = epoch(batches, int(batches.epoch_of(250)))
    assert Counter(item for plan in last for item in plan.items) == Counter(range(400))
    assert Batches(lengths_only(lengths), range(400), config).plan(200) == batches.plan(200)
