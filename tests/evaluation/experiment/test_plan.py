"""The tables of the experiment."""

from __future__ import annotations

import pytest

from clock_attention.evaluation.experiment.plan import COMPARISONS, PLANS
from clock_attention.speech.training.config import load_preset


@pytest.mark.parametrize("name", PLANS)
def test_every_contestant_is_a_valid_change_of_its_preset(name: str) -> None:
    preset = PLANS[name]
    configs = {one.name: load_preset(preset.training).changed(one.changes) for one in preset.contestants}
    assert len(configs) == len(preset.contestants)
    assert {name for one in preset.contestants for name in one.corpora} == set(preset.corpora)
    if name == "rivals":
        assert len({config.model.cross_attention for config in configs.values()}) == len(configs) == 4
        assert len({config.training.model_dump_json() for config in configs.values()}) == 1
        return
    assert {one.comparison for one in preset.contestants} == set(COMPARISONS) - {"rivals"}
    for first, second in (("parallel-clock", "parallel-dot"), ("paper-clock", "paper-dot")):
        clock, dot = configs[first], configs[second]
        assert clock.training == dot.training
        assert clock.model.model_copy(update={"cross_attention": "dot"}) == dot.model
    paper = configs["paper-clock"]
    assert (paper.model.positions, paper.training.stretch_share) == ("absolute", 0.0)
    assert {configs[one].model.target_clocks for one in ("causal-clock", "printed-clock")} == {"causal", "unnormalized"}
