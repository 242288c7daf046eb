"""Segments found by content, for clocks of two scales."""

import pytest
import torch

from clock_attention import ClockAttention, clock_attention
from clock_attention.losses import monotone_posterior
from clock_attention.segments import find_segments


def warped_copy(keys: int, seed: int, noise: float = 0.1) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features (1, 1, S, 8) and (1, 1, T, 8), and the key at which each query is (S,)."""
    g = torch.Generator().manual_seed(seed)
    source = torch.nn.functional.normalize(torch.randn(keys, 8, generator=g), dim=-1)
    tempo = torch.randint(1, 6, (keys // 20 + 1,), generator=g).repeat_interleave(20)[:keys]
    warp = torch.repeat_interleave(torch.arange(keys), torch.randint(1, 3, (keys,), generator=g) * tempo)
    target = source[warp] + noise * torch.randn(len(warp), 8, generator=g)
    return 8.0 * target[None, None], source[None, None], warp


def starts(numbers: torch.Tensor) -> list[int]:
    """The steps at which a new segment starts."""
    return (numbers.diff() > 0).nonzero().flatten().add(1).tolist()


def without_content(scores: torch.Tensor) -> torch.Tensor:
    """The posterior of monotone paths alone (S, T)."""
    every = torch.ones(1, scores.shape[1], dtype=torch.bool)
    return monotone_posterior(torch.zeros_like(scores)[None], optional=every)[0]


def standard_deviations(posterior: torch.Tensor) -> list[float]:
    keys = torch.arange(posterior.shape[1], dtype=torch.float64)
    return [max(0.0, float(row @ keys.square()) - float(row @ keys) ** 2) ** 0.5 for row in posterior]


def literally(scores: torch.Tensor, every: int, certain: float) -> tuple[list[int], list[int]]:
    """What the docstring says, one key after the other, for one item (S, T)."""
    posterior = monotone_posterior(scores[None], optional=torch.ones(1, scores.shape[1], dtype=torch.bool))[0]
    keys, chosen = torch.arange(scores.shape[1], dtype=torch.float64), []
    mean = [float(row @ keys) for row in posterior]
    spread = standard_deviations(posterior)
    nothing = standard_deviations(without_content(scores))
    furthest = [max(mean[: s + 1]) for s in range(len(mean))]
    for first in range(0, len(keys), every):
        candidates = []
        for t in range(max(first, 1), min(first + every, len(keys))):
            s = next((s for s, m in enumerate(furthest) if m >= t), None)
            if s and spread[s] <= min(certain, nothing[s] / 2):
                candidates.append((spread[s] + furthest[s] - t, t, s))
        if candidates and (not chosen or min(candidates)[2] > chosen[-1][0]):
            chosen.append((min(candidates)[2], min(candidates)[1]))
    return [s for s, _ in chosen], [t for _, t in chosen]


def test_a_warped_copy_is_cut_where_it_meets_its_source():
    query, key, warp = warped_copy(100, 0)
    of_query, of_key = find_segments((query, key), every=10)
    assert of_query.dtype == of_key.dtype == torch.long
    places = list(zip(starts(of_query[0]), starts(of_key[0]), strict=True))
    assert len(places) >= 8
    for s, t in places:
        assert abs(int(warp[s]) - t) <= 1
    place = torch.arange(100.0)
    errors = []
    for segments in (None, (of_query, of_key)):
        _, weights = clock_attention(torch.zeros(1, 1, len(warp), 4), torch.zeros(1, 1, 100, 4), key, segments=segments)
        errors.append(float((weights[0, 0] @ place - warp).abs().mean()))
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize("seed", range(6))
def test_equals_the_definition(seed):
    g = torch.Generator().manual_seed(seed)
    shape = (1, 1, int(torch.randint(1, 40, (), generator=g)), int(torch.randint(1, 40, (), generator=g)))
    scores = torch.randn(shape, generator=g, dtype=torch.float64) * 4
    found = find_segments(scores, every=5, certain=2.0)
    assert [starts(numbers[0]) for numbers in found] == list(literally(scores[0, 0], 5, 2.0))


def test_content_that_says_nothing_leaves_the_papers_clock():
    segments = find_segments(torch.zeros(2, 3, 30, 20))
    assert all(not numbers.any() for numbers in segments)
    query, key = torch.randn(2, 3, 30, 4), torch.randn(2, 3, 20, 4)
    expected = clock_attention(query, key, key)[0]
    torch.testing.assert_close(clock_attention(query, key, key, segments=segments)[0], expected)


def test_a_batch_with_padding_gives_what_its_items_give():
    items = [warped_copy(keys, seed) for keys, seed in ((60, 1), (37, 2))]
    longest = [max(item[side].shape[2] for item in items) for side in (0, 1)]
    batch = [torch.full((2, 1, n, 8), torch.nan) for n in longest]
    padding = [torch.ones(2, n, dtype=torch.bool) for n in longest]
    for i, item in enumerate(items):
        for side in (0, 1):
            batch[side][i, :, : item[side].shape[2]] = item[side]
            padding[side][i, : item[side].shape[2]] = False
    together = find_segments((batch[0], batch[1]), *padding)
    for i, item in enumerate(items):
        alone = find_segments(item[:2])
        assert alone[0].max() > 2
        for side in (0, 1):
            assert torch.equal(together[side][i, : item[side].shape[2]], alone[side][0])


def test_the_module_takes_what_its_content_finds():
    torch.manual_seed(0)
    attention = ClockAttention(16, 2, content_dim=4)
    frames, text = torch.randn(2, 30, 16), torch.randn(2, 12, 16)
    features = attention.content(frames, text)
    assert features is not None
    segments = find_segments((20 * features[0], features[1]), every=4)
    assert segments[1].max() > 0
    attention(frames, text, text, segments=segments)[0].sum().backward()
    assert attention.q_proj.weight.grad.abs().sum() > 0


def test_mistakes_are_named():
    scores = torch.zeros(1, 1, 4, 3)
    with pytest.raises(ValueError, match=r"content: got \(1, 4, 3\), expected features"):
        find_segments(scores[0])
    with pytest.raises(ValueError, match=r"every, certain: got 0 and 1\.0"):
        find_segments(scores, every=0)
    with pytest.raises(ValueError, match="key_padding_mask: got padding before or between"):
        find_segments(scores, key_padding_mask=torch.tensor([[True, False, False]]))
    with pytest.raises(ValueError, match=r"query_padding_mask: got torch.bool \(1, 3\), expected bool \(1, 4\)"):
        find_segments(scores, query_padding_mask=torch.zeros(1, 3, dtype=torch.bool))
