"""The flow decoder draws one of the likely mels; the wide clock guides it."""

import torch

from clock_attention.speech.model.aligned import AlignedModel, meeting_weights
from clock_attention.speech.model.config import AlignedConfig
from clock_attention.speech.model.flow import Condition, FlowDecoder
from tests.speech.model.test_aligned import SMALL, batch


def condition(items: int, frames: int = 6) -> Condition:
    return Condition(torch.zeros(items, frames, 3), torch.zeros(items, frames, 2), torch.ones(items, frames, 1))


def test_where_two_mels_are_likely_it_draws_one_of_them_and_not_their_mean():
    torch.manual_seed(0)
    decoder = FlowDecoder(3, 2, width=24, layers=2, expansion=2, noise=0.5)
    optimizer = torch.optim.Adam(decoder.parameters(), 5e-3)
    known = condition(64)
    for _ in range(150):
        target = torch.randint(0, 2, (64, 1, 1)) * 2.0 - 1.0
        optimizer.zero_grad()
        decoder.errors(known, known.text, target.expand_as(known.mean)).mean().backward()
        optimizer.step()
    decoder.steps = 12
    with torch.no_grad():
        drawn = decoder.sample(known, known.text).mean((1, 2))
    assert (drawn.abs() > 0.6).float().mean() > 0.8
    assert 0.2 < (drawn > 0).float().mean() < 0.8


def test_only_the_items_of_the_wide_clock_learn_without_the_mean(monkeypatch):
    decoder = FlowDecoder(3, 2, width=8, layers=1, expansion=2, noise=0.5)
    seen = []
    monkeypatch.setattr(decoder, "velocity", lambda given, x, time: seen.append(given) or torch.zeros_like(x))
    torch.manual_seed(0)
    known = condition(200)._replace(text=torch.ones(200, 6, 3), mean=torch.full((200, 6, 2), 7.0))
    decoder.errors(known, torch.zeros_like(known.text), torch.zeros_like(known.mean))
    sharp = seen[0].text[:, 0, 0] == 1
    assert 0.75 < sharp.float().mean() < 0.95
    assert torch.equal(seen[0].mean[:, 0, 0], 7.0 * sharp)


def test_guidance_takes_what_the_sharp_clock_adds_more_than_once(monkeypatch):
    decoder = FlowDecoder(1, 1, width=4, layers=1, expansion=1, noise=1e-6)
    decoder.steps, decoder.guidance = 2, 0.5
    monkeypatch.setattr(decoder, "velocity", lambda given, x, time: given.text)
    known = Condition(torch.full((1, 3, 1), 2.0), torch.zeros(1, 3, 1), torch.ones(1, 3, 1))
    drawn = decoder.sample(known, torch.full((1, 3, 1), 1.0))
    torch.testing.assert_close(drawn, torch.full((1, 3, 1), 2.5), atol=1e-4, rtol=0)


def test_a_model_with_it_speaks_by_the_seed_and_keeps_its_lengths():
    torch.manual_seed(0)
    model = AlignedModel(AlignedConfig(**SMALL, flow_layers=1, flow_width=8)).eval()
    torch.nn.init.normal_(model.flow.output.weight)
    tokens, lengths = batch([[3, 4, 5, 6], [7, 8]])
    spoken = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        spoken.append(model.synthesise(tokens, lengths, frames=torch.tensor([30, 12])))
    assert spoken[0].frames.tolist() == [30, 12]
    assert torch.equal(spoken[0].mel, spoken[1].mel)
    assert not torch.equal(spoken[0].mel, spoken[2].mel)


def test_a_wide_clock_reads_more_phonemes_at_once():
    durations, padding = torch.full((1, 6), 5.0), torch.zeros(1, 6, dtype=torch.bool)
    sharp, wide = (meeting_weights(durations, padding, 30, wider) for wider in (1.0, 6.0))
    entropy = [-(weights * weights.clamp(min=1e-9).log()).sum(-1).mean() for weights in (sharp, wide)]
    assert entropy[1] > 3 * entropy[0]
