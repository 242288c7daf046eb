"""Discriminating mel patches: windows stay inside their utterance, and the losses pull where they should."""

import torch

from clock_attention.speech.training.adversarial import PATCHES, WINDOW, MelDiscriminator, cut_windows, patches


def test_windows_lie_inside_the_utterances_that_are_long_enough():
    frames = torch.tensor([WINDOW - 1, WINDOW, 400])
    places = patches(frames, seed=3)
    assert len(places) == PATCHES
    assert {item for item, _ in places} <= {1, 2}
    assert all(0 <= start <= int(frames[item]) - WINDOW for item, start in places)
    assert places == patches(frames, seed=3)
    assert places != patches(frames, seed=4)
    assert patches(torch.tensor([WINDOW - 1]), seed=0) == []
    mel = torch.arange(3 * 400 * 2.0).view(3, 400, 2)
    item, start = places[0]
    assert torch.equal(cut_windows(mel, places)[0], mel[item, start : start + WINDOW])


def test_a_discriminator_learns_to_distinguish_sharp_from_smooth_and_then_prefers_sharp():
    torch.manual_seed(0)
    judge = MelDiscriminator()
    optimizer = torch.optim.AdamW(judge.parameters(), lr=1e-3, betas=(0.5, 0.9))
    sharp = torch.randn(2, WINDOW, 16)
    smooth = torch.nn.functional.avg_pool1d(sharp.transpose(1, 2), 3, 1, 1).transpose(1, 2)
    before = judge.discriminator_loss(sharp, smooth).item()
    for _ in range(12):
        optimizer.zero_grad()
        judge.discriminator_loss(sharp, smooth).backward()
        optimizer.step()
    assert judge.discriminator_loss(sharp, smooth).item() < 0.7 * before
    adversarial, features = judge.generator_losses(sharp, smooth)
    passed, same = judge.generator_losses(sharp, sharp)
    assert passed.item() < adversarial.item()
    assert same.item() == 0 < features.item()


def test_the_model_gets_a_gradient_and_the_recording_none():
    judge = MelDiscriminator()
    real, fake = torch.randn(1, WINDOW, 16), torch.randn(1, WINDOW, 16, requires_grad=True)
    judge.discriminator_loss(real, fake).backward()
    assert fake.grad is None, "judging must not train what is judged"
    sum(judge.generator_losses(real, fake)).backward()
    assert fake.grad is not None
    assert float(fake.grad.abs().sum()) > 0


def test_asking_the_discriminator_leaves_its_weights_without_gradients_and_able_to_learn():
    judge = MelDiscriminator()
    real, fake = torch.randn(1, WINDOW, 16), torch.randn(1, WINDOW, 16, requires_grad=True)
    sum(judge.generator_losses(real, fake)).backward()
    assert all(parameter.grad is None and parameter.requires_grad for parameter in judge.parameters())
