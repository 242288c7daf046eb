"""The aligner's network and its folder."""

import json

import pytest
import torch

from clock_attention.speech.aligner.features import BINS
from clock_attention.speech.aligner.network import (
    SHIPPED,
    AlignerConfig,
    AlignerNet,
    load_model,
    model_name,
    save_model,
)
from clock_attention.speech.aligner.phone_classes import STATES

TINY = AlignerConfig(width=8, hidden=16, dilations=(1, 2), threshold=-3.0)


@pytest.mark.parametrize("frames", [1, 4, 7, 50])
def test_every_frame_gets_probabilities(frames):
    states, change = AlignerNet(TINY)(torch.randn(2, frames, BINS))
    assert states.shape == (2, frames, STATES)
    assert change.shape == (2, frames)
    torch.testing.assert_close(states.exp().sum(-1), torch.ones(2, frames))


def test_a_folder_gives_the_same_network_in_half_precision(tmp_path):
    torch.manual_seed(0)
    net = AlignerNet(TINY).eval()
    save_model(tmp_path, net)
    again = load_model(tmp_path)
    assert again.config == TINY
    x = torch.randn(1, 40, BINS)
    torch.testing.assert_close(again(x)[0], net(x)[0], rtol=2e-2, atol=2e-2)


def test_folders_that_hold_something_else_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no aligner model can be read there"):
        load_model(tmp_path)
    save_model(tmp_path, AlignerNet(TINY))
    config = json.loads((tmp_path / "config.json").read_text("utf-8"))
    (tmp_path / "config.json").write_text(json.dumps({**config, "width": 16}))
    with pytest.raises(ValueError, match="has shape"):
        load_model(tmp_path)
    for damage in (
        json.dumps({**config, "dilations": [1, 10**9]}),
        json.dumps({**config, "dilations": [1, 0]}),
        "[" * 10**5,
    ):
        (tmp_path / "config.json").write_text(damage)
        with pytest.raises(ValueError, match="no aligner model can be read there"):
            load_model(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**config, "classes": ["a"]}))
    with pytest.raises(ValueError, match="an aligner model of other sounds"):
        load_model(tmp_path)


def test_a_model_has_another_name_when_its_weights_or_its_numbers_change(tmp_path):
    names = []
    for seed, config in [(0, TINY), (0, TINY), (1, TINY), (1, TINY.model_copy(update={"threshold": -2.5}))]:
        torch.manual_seed(seed)
        save_model(tmp_path / str(len(names)), AlignerNet(config))
        names.append(model_name(tmp_path / str(len(names))))
    assert names[0] == names[1]
    assert len(set(names)) == 3


def test_the_model_in_the_package_is_whole():
    assert load_model(SHIPPED).config.log_prior != (0.0,) * STATES
