"""Starting from a voice: its weights, new symbols, frozen parts, bitwise resume, and refusals."""

import json

import pytest
import torch

from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.training import checkpoints as checkpoint
from clock_attention.speech.training.config import load_preset
from clock_attention.speech.training.loop import train
from clock_attention.speech.training.run import RunDescription
from clock_attention.speech.training.transfer import symbol_rows
from clock_attention.speech.voice.from_run import export, start_from
from clock_attention.speech.voice.voice import Voice
from tests.speech.corpora import spoken_by, tiny_store
from tests.speech.training.runs import require_same_run

TINY = [
    *("width=16", "heads=2", "encoder_layers=1", "feed_forward=24", "prosody_width=12", "prosody_layers=1"),
    *("decoder_width=16", "decoder_layers=2", "steps=12", "batch_size=8", "batch_frames=0", "adversarial_from=4"),
    *("validate_every=6", "log_every=4", "pictures=0", "validation_utterances=4", "warmup_steps=2"),
]


def tiny(*changes, preset="finetune"):
    return load_preset(preset).changed([*TINY, *changes])


@pytest.fixture(autouse=True)
def short_patches(monkeypatch):
    monkeypatch.setattr("clock_attention.speech.training.adversarial.WINDOW", 12)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tiny_store(tmp_path_factory.mktemp("timed") / "store", seed=1, timed=True)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A run on another speaker."""
    folder = tmp_path_factory.mktemp("first")
    train(tiny("adversarial_weight=0"), tiny_store(folder / "store", timed=True), folder / "run", quiet=True)
    return folder / "run"


def weights(run):
    return checkpoint.read(checkpoint.latest(run))["model"]


def test_a_run_begins_with_the_weights_of_another(store, first, tmp_path):
    start = start_from(first)
    train(tiny("learning_rate=1e-9", "ema=0"), store, tmp_path / "run", start=start, quiet=True, max_steps=1)
    for name, tensor in weights(tmp_path / "run").items():
        torch.testing.assert_close(tensor, start.weights[name], atol=1e-6, rtol=0)
    assert RunDescription.read(tmp_path / "run").start == "run"


def test_a_flow_decoder_can_be_added_to_a_voice_without_one(store, first, tmp_path):
    start = start_from(first)
    config = tiny("flow_layers=1", "flow_width=8", "freeze=encoder", "adversarial_weight=0")
    train(config, store, tmp_path / "run", start=start, quiet=True, max_steps=2)
    learned = weights(tmp_path / "run")
    frozen = [name for name in start.weights if name.startswith("encoder.")]
    assert all(torch.equal(learned[name], start.weights[name]) for name in frozen)
    assert learned["flow.output.weight"].abs().sum() > 0
    with pytest.raises(ValueError, match="flow_layers=1"):
        start_from(tmp_path / "run").require_compatible(tiny().model, start.language)


def test_it_resumes_bit_for_bit(store, first, tmp_path):
    start = start_from(first)
    train(tiny(), store, tmp_path / "straight", start=start, quiet=True)
    for _ in range(3):
        train(tiny(), store, tmp_path / "stopped", start=start, resume=True, max_steps=5, quiet=True)
    require_same_run(tmp_path / "straight", tmp_path / "stopped")
    assert RunDescription.read(tmp_path / "stopped").start == "run"


@pytest.mark.parametrize("parts", ["encoder", "encoder, timing"])
def test_frozen_parts_stay_as_they_were(parts, store, first, tmp_path):
    start = start_from(first)
    train(tiny(f'freeze="{parts}"'), store, tmp_path / "run", start=start, quiet=True)
    names = tuple(part.strip() for part in parts.split(","))
    changed = {
        name for name, tensor in weights(tmp_path / "run").items() if not torch.equal(tensor, start.weights[name])
    }
    assert changed
    assert not [name for name in changed if name.startswith(names)]
    assert any(name.startswith("embedding") for name in changed)
    with pytest.raises(ValueError, match="started with freeze"):
        train(tiny("steps=14"), store, tmp_path / "run", resume=True, quiet=True)


def test_a_part_that_is_not_there_is_named(store, tmp_path):
    with pytest.raises(ValueError, match=r"no part 'postnet'; its parts are embedding, encoder"):
        train(tiny("freeze=postnet"), store, tmp_path / "run", quiet=True)


def test_new_symbols_get_rows_and_known_ones_keep_theirs(store, first, tmp_path):
    folder = tmp_path / "more"
    tiny_store(folder, timed=True)
    header = json.loads((folder / "store.json").read_text())
    header["phonemizer"]["symbols"] = ["ˈb", "z", *"acdefghij"]
    (folder / "store.json").write_text(json.dumps(header))
    start = start_from(first)
    train(tiny("learning_rate=1e-9"), FeatureStore.open(folder), tmp_path / "run", start=start, max_steps=1, quiet=True)
    old, new = start.weights["embedding.weight"], weights(tmp_path / "run")["embedding.weight"]
    assert len(new) == len(old) + 1
    torch.testing.assert_close(new[0], old[1], atol=1e-6, rtol=0)  # ˈb like b
    torch.testing.assert_close(new[2], old[0], atol=1e-6, rtol=0)  # a
    torch.testing.assert_close(new[-2:], old[-2:], atol=1e-6, rtol=0)  # the silences


def test_rows_are_found_by_symbol_then_by_phoneme():
    rows, new = symbol_rows(["a", "ˈo", "ˌ"], ["ˌo", "ˈo", "x", "a", "ˌ"])
    assert rows == [1, 1, None, 0, 2]
    assert new == ["ˌo", "x"]


def test_another_shape_another_kind_and_another_mel_are_refused(store, first, tmp_path):
    start = start_from(first)
    with pytest.raises(ValueError, match="has decoder_width=16; a training that starts from it cannot change that"):
        train(tiny("decoder_width=20"), store, tmp_path / "run", start=start, quiet=True)
    with pytest.raises(ValueError, match="of the kind 'aligned'"):
        train(load_preset("small-l1"), store, tmp_path / "run", start=start, quiet=True)
    header = json.loads((store.path / "store.json").read_text())
    header["mel"]["f_max"] = 7000.0
    other = FeatureStore(store.path, header)
    with pytest.raises(ValueError, match="another kind of mel"):
        train(tiny(), other, tmp_path / "run", start=start, quiet=True)


def test_a_voice_between_the_first_weights_and_the_learned_ones(store, first, tmp_path):
    start = start_from(first)
    train(tiny("ema=0"), store, tmp_path / "run", start=start, quiet=True, max_steps=3)
    learned = weights(tmp_path / "run")
    for share in (0.0, 0.25, 1.0):
        export(tmp_path / "run", tmp_path / "voice", licence="CC0", which="last", start=start, blend=share)
        voice = Voice.load(tmp_path / "voice")
        assert voice.card.provenance.blend == share
        for name, tensor in voice.model.state_dict().items():
            torch.testing.assert_close(tensor, share * learned[name] + (1 - share) * start.weights[name])
    with pytest.raises(ValueError, match="expected a share between 0 and 1"):
        export(tmp_path / "run", tmp_path / "voice", licence="CC0", blend=0.5)


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """A run on two speakers, whose vectors differ."""
    folder = tmp_path_factory.mktemp("several")
    corpus = spoken_by(tiny_store(folder / "store", timed=True), ["ann", "bob"])
    train(tiny("adversarial_weight=0", "ema=0"), corpus, folder / "run", quiet=True)
    return folder / "run"


def weights_at_start(tmp_path, corpus, start):
    """The weights of a run that has hardly learned anything."""
    train(tiny("learning_rate=1e-9", "ema=0"), corpus, tmp_path / "run", start=start, quiet=True, max_steps=1)
    return weights(tmp_path / "run")


def test_one_new_speaker_begins_as_the_mean_of_several(store, several, tmp_path):
    start, found = start_from(several), weights_at_start(tmp_path, store, start_from(several))
    assert "speaker_embedding.weight" not in found
    table = start.weights["speaker_embedding.weight"]
    expected = start.weights["encoder_norm.bias"] + table.mean(0)
    torch.testing.assert_close(found["encoder_norm.bias"], expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(found["output.weight"], start.weights["output.weight"], atol=1e-6, rtol=0)


def test_one_new_speaker_can_begin_as_one_of_several(store, several, tmp_path):
    whole, start = start_from(several), start_from(several, speaker="bob")
    expected = whole.weights["encoder_norm.bias"] + whole.weights["speaker_embedding.weight"][1]
    found = weights_at_start(tmp_path, store, start)
    torch.testing.assert_close(found["encoder_norm.bias"], expected, atol=1e-6, rtol=0)
    with pytest.raises(ValueError, match=r"no speaker 'cleo'.*ann, bob"):
        start_from(several, speaker="cleo")


def test_several_speakers_begin_as_the_one_there_was(first, tmp_path):
    corpus = spoken_by(tiny_store(tmp_path / "store", seed=1, timed=True), ["cleo", "dan"])
    start = start_from(first)
    found = weights_at_start(tmp_path, corpus, start)
    assert found["speaker_embedding.weight"].abs().max() < 1e-6
    torch.testing.assert_close(found["encoder_norm.bias"], start.weights["encoder_norm.bias"], atol=1e-6, rtol=0)


def test_known_speakers_go_on_and_new_ones_begin_as_the_mean(several, tmp_path):
    corpus = spoken_by(tiny_store(tmp_path / "store", seed=1, timed=True), ["cleo", "bob", "ann"])
    start = start_from(several)
    ann, bob = start.weights["speaker_embedding.weight"]
    found = weights_at_start(tmp_path, corpus, start)["speaker_embedding.weight"]
    torch.testing.assert_close(found, torch.stack([(ann + bob) / 2, bob, ann]), atol=1e-6, rtol=0)
