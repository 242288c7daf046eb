"""Recordings of any length, block by block."""

import numpy as np
import pytest

from clock_attention.speech.aligner.emissions import Emissions
from clock_attention.speech.aligner.features import HOP, RATE
from clock_attention.speech.aligner.long_emissions import (
    BLOCK,
    CONTEXT,
    POOL,
    Waiting,
    block_emissions,
    part,
    pooled,
    windows,
)
from clock_attention.speech.aligner.phone_classes import STATES
from clock_attention.speech.aligner.results import AlignmentError


def listen(wave):
    """Emissions that say how loud each frame is."""
    frames = -(-len(wave) // HOP)
    level = np.pad(np.abs(wave), (0, frames * HOP - len(wave))).reshape(frames, HOP).mean(1)
    scores = np.repeat(np.log(level + 1e-6)[:, None], STATES, 1).astype(np.float32)
    return Emissions(scores, np.zeros(frames, np.float32), np.zeros(STATES))


@pytest.mark.parametrize("size", [1000, 7 * RATE, 60 * RATE])
def test_blocks_cover_every_sample_once_whatever_the_pieces(size):
    wave = np.random.default_rng(0).normal(size=50 * RATE).astype(np.float32)
    pieces = [wave[start : start + size] for start in range(0, len(wave), size)]
    found = list(windows(pieces))
    assert np.array_equal(np.concatenate([window[start : start + length] for window, start, length in found]), wave)
    assert all(start in (0, CONTEXT) for _, start, _ in found)
    assert max(len(window) for window, _, _ in found) <= BLOCK + 2 * CONTEXT


def test_blocks_say_what_the_whole_says():
    wave = np.random.default_rng(0).normal(size=45 * RATE).astype(np.float32)
    whole = listen(wave).log_probabilities
    found = np.concatenate([block.log_probabilities for block in block_emissions(listen, [wave])])
    np.testing.assert_allclose(found[: len(whole)], whole, rtol=1e-5)


def test_a_silent_block_is_silence_and_no_number_is_an_error():
    wave = np.concatenate([np.ones(BLOCK, np.float32), np.full(BLOCK, 1e-4, np.float32)])
    first, second = list(block_emissions(listen, [wave]))[:2]
    assert not (first.log_probabilities[:, 0] == 0).all()
    tail = second.log_probabilities[-100:]
    assert (tail[:, 0] == 0).all()
    assert (tail[:, 1:] < -5).all()
    with pytest.raises(AlignmentError, match="not numbers"):
        list(block_emissions(listen, [np.array([np.nan], np.float32)]))


def test_what_waits_is_taken_from_the_front_across_blocks():
    emissions = listen(np.random.default_rng(0).normal(size=100 * HOP).astype(np.float32))
    waiting = Waiting()
    waiting.append(part(emissions, 0, 60))
    waiting.append(part(emissions, 60, 100))
    first, second = waiting.take(70), waiting.take(30)
    assert np.array_equal(first.log_probabilities, emissions.log_probabilities[:70])
    assert np.array_equal(second.log_probabilities, emissions.log_probabilities[70:])
    assert len(pooled(first)) == 70 // POOL
