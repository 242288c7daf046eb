"""Presets and `--set`: what may be asked for, and what is said when it may not."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.training.config import RunConfig, TrainingConfig, load_preset, preset_names


def test_presets_load_and_the_paper_s_says_what_the_paper_says():
    assert preset_names() == ["finetune", "paper", "small", "small-l1"]
    model, training = load_preset("paper").model, load_preset("paper").training
    assert (model.encoder_layers, model.decoder_layers, model.width, model.heads) == (6, 4, 256, 4)
    assert (model.feed_forward, model.dropout, model.positions, model.norm_first) == (1024, 0.1, "absolute", False)
    assert (model.out_proj, model.logit_scale, model.logit_scale_start) == (False, "constant", 1.0)
    assert (training.learning_rate, training.batch_size, training.schedule) == (1e-4, 48, "constant")
    # None of the additions: they are for comparisons at their best, not for the paper's own.
    assert (model.feed_forward_kernel, model.frames_per_step, model.postnet_layers) == (1, 1, 0)
    assert (training.stretch_share, training.ema) == (0.0, 0.0)


def test_changes_reach_their_section_by_bare_or_full_name():
    config = load_preset("small-l1").changed(
        ["width=128", "training.steps=5", "decoding=autoregressive", 'positions="rotary"', "betas=[0.8, 0.9]"]
    )
    assert (config.model.width, config.training.steps) == (128, 5)
    assert (config.model.decoding, config.model.positions) == ("autoregressive", "rotary")
    assert config.training.betas == (0.8, 0.9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("widht=128", "no option 'widht'"),
        ("training.width=128", "no option 'training.width'"),
        ("width", "expected key=value"),
        ("width=-3", "width: Input should be greater than or equal to 1"),
        ("width=50", "width of a head must be an even"),
        ("decoding=sideways", "'parallel' or 'autoregressive'"),
        ("stretch_shortest=3", "exceeds stretch_longest"),
    ],
)
def test_a_change_that_cannot_be_is_explained(change, message):
    with pytest.raises(ValueError, match=message):
        load_preset("small-l1").changed([change])


def test_a_preset_can_be_a_file_of_one_s_own(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[model]\nwidth = 64\n[training]\nschedule = "cosine"\n')
    assert load_preset(str(path)) == RunConfig().changed(["width=64", "schedule=cosine"])
    path.write_text("[model]\nwidth = \n")
    with pytest.raises(ValueError, match="not a TOML file"):
        load_preset(str(path))
    path.write_text("[modell]\nwidth = 3\n")
    with pytest.raises(ValueError, match="modell: Extra inputs"):
        load_preset(str(path))
    with pytest.raises(ValueError, match="one of finetune, paper, small, small-l1"):
        load_preset("huge")
    with pytest.raises(ValueError, match="cannot read"):
        load_preset(str(tmp_path / "none.toml"))


@given(st.text(max_size=40))
def test_any_text_after_set_gives_a_configuration_or_a_sentence(text):
    with contextlib.suppress(ValueError):
        assert isinstance(load_preset("small-l1").changed([text]), RunConfig)


def test_former_names_of_options_are_accepted():
    config = load_preset("small-l1")
    for change in ("own_frames=0.5", "training.own_frames=0.5"):
        assert config.changed([change]).training.scheduled_sampling == 0.5
    assert TrainingConfig.model_validate({"timing_play": 3}).timing_slack == 3
    assert TrainingConfig.model_validate_json('{"own_frames": 1.0, "timing_play": 3}').scheduled_sampling == 1.0
