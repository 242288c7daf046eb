"""How one's own voice is fine-tuned and exported: a schedule for any number of steps, energies as recorded."""

import pytest
import torch
from safetensors.torch import load_file

from clock_attention.own_voice.fine_tuning import (
    ADVERSARY_SHARE,
    FEWEST_STEPS,
    MOST_STEPS,
    export_own_voice,
    fine_tuning_config,
    steps_within,
    worthwhile_steps,
)
from clock_attention.own_voice.measure import held_out
from clock_attention.own_voice.spread import energy_spread
from clock_attention.speech.training.config import load_preset
from clock_attention.speech.training.loop import train
from clock_attention.speech.voice.from_run import start_from
from clock_attention.speech.voice.voice import Voice
from tests.speech.corpora import tiny_store
from tests.speech.training.runs import tiny

SMALL = [
    *("width=16", "heads=2", "encoder_layers=1", "feed_forward=24", "prosody_width=12", "prosody_layers=1"),
    *("decoder_width=16", "decoder_layers=1", "steps=2", "adversarial_weight=0", "pictures=0", "warmup_steps=1"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tiny_store(tmp_path_factory.mktemp("timed") / "store", timed=True)


def first_run(config, store, folder):
    """A voice to start from."""
    train(config, store, folder / "first", quiet=True)
    return start_from(folder / "first")


def test_steps_fit_into_the_minutes_and_end_where_more_do_not_help():
    assert steps_within(minutes=20, seconds_per_step=1.5, worthwhile=1000) == 800
    assert steps_within(minutes=60, seconds_per_step=0.5, worthwhile=1000) == 1000
    assert steps_within(minutes=1, seconds_per_step=5, worthwhile=1000) == FEWEST_STEPS


def test_more_recordings_are_worth_more_steps():
    assert [worthwhile_steps(minutes) for minutes in (3, 15, 80)] == [MOST_STEPS[0], 1000, MOST_STEPS[1]]


@pytest.mark.parametrize("steps", [1, 7, 100, 6000])
def test_every_number_of_steps_has_a_warm_up_a_discriminator_and_a_validation(steps, base):
    start = start_from(str(base))
    config = fine_tuning_config(start, steps, seed=3)
    training = config.training
    assert config.model == start.model
    assert (training.steps, training.seed) == (steps, 3)
    assert 1 <= training.warmup_steps <= max(1, steps // 10)
    assert training.adversarial_from == round(ADVERSARY_SHARE * steps) < steps
    assert 1 <= training.validate_every <= steps


def test_energies_of_the_exported_voice_vary_like_those_held_out(store, tmp_path, monkeypatch):
    monkeypatch.setattr("clock_attention.own_voice.spread.MOST_SPREAD", 1e6)
    start = first_run(load_preset("small").changed(SMALL), store, tmp_path)
    config = fine_tuning_config(start, 2).changed(["pictures=0", "adversarial_weight=0"])
    train(config, store, tmp_path / "run", start=start, quiet=True)
    options = {"licence": "CC0", "consent": "A synthetic voice"}
    card, spread = export_own_voice(tmp_path / "run", tmp_path / "voice", store, start, **options)
    assert (card.provenance.licence, card.provenance.consent) == ("CC0", "A synthetic voice")
    assert spread > 1  # random weights are not lively after a few steps
    model = Voice.load(tmp_path / "voice").model
    assert energy_spread(model, store, held_out(store)) == pytest.approx(1, abs=0.02)
    assert load_file(tmp_path / "voice" / "model.safetensors")["output.weight"].dtype == torch.float16


def test_a_voice_without_energies_is_exported_as_it_is(store, tmp_path):
    start = first_run(tiny("steps=2", "warmup_steps=1"), store, tmp_path)
    _, spread = export_own_voice(tmp_path / "first", tmp_path / "voice", store, start, licence="CC0")
    assert spread == 1
