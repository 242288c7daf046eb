"""The average of the weights, step by step and across an interruption."""

import torch
from torch import nn

from clock_attention.speech.training.averaging import average_of, load_average, moving_average


def test_the_average_is_the_recurrence_written_out():
    model = nn.Linear(3, 2)
    average = moving_average(model, 0.6)
    expected = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for step in range(1, 12):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter))
        average.update_parameters(model)
        decay = min(0.6, (1 + step) / (10 + step))
        for name, parameter in model.named_parameters():
            expected[name].lerp_(parameter.detach(), 1 - decay)
    found = average_of(average)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert not any(parameter.requires_grad for parameter in average.parameters())


def test_a_loaded_average_continues_where_it_was():
    model = nn.Linear(3, 2)
    whole = moving_average(model, 0.9)
    parts = moving_average(model, 0.9)
    for step in range(1, 7):
        with torch.no_grad():
            model.weight.add_(1.0)
        whole.update_parameters(model)
        parts.update_parameters(model)
        saved = {name: tensor.clone() for name, tensor in average_of(parts).items()}
        parts = moving_average(nn.Linear(3, 2), 0.9)
        load_average(parts, saved, step)
    assert torch.equal(whole.module.weight, parts.module.weight)
