"""Training along an alignment: it learns, resumes bit for bit, becomes a voice, and wants an aligned corpus."""

import csv

import pytest
import torch

from clock_attention.speech.model.aligned import AlignedModel
from clock_attention.speech.training import checkpoints as checkpoint
from clock_attention.speech.training.config import load_preset
from clock_attention.speech.training.loop import train
from clock_attention.speech.voice.from_run import export
from clock_attention.speech.voice.voice import Voice
from tests.speech.corpora import spoken_by, tiny_store
from tests.speech.training.runs import require_same_run

TINY = [
    *("width=16", "heads=2", "encoder_layers=1", "feed_forward=24", "prosody_width=12", "prosody_layers=1"),
    *("decoder_width=16", "decoder_layers=2", "dropout=0.1", "steps=24", "batch_size=8", "batch_frames=0"),
    *("warmup_steps=4", "learning_rate=5e-3", "ema=0.9", "validate_every=8", "log_every=4", "pictures=0"),
    *("validation_utterances=4", "stretch_share=0.5", "adversarial_from=6"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tiny_store(tmp_path_factory.mktemp("timed") / "store", timed=True)


@pytest.fixture(autouse=True)
def short_patches(monkeypatch):
    # The tiny utterances are shorter than the patches of real ones.
    monkeypatch.setattr("clock_attention.speech.training.adversarial.WINDOW", 12)


def tiny(*changes):
    return load_preset("small").changed([*TINY, *changes])


@pytest.mark.parametrize(
    "changes",
    [[], ["adversarial_weight=0", "predicted_energy=0.5", "cepstral_weight=0.4"], ["flow_layers=1", "flow_width=8"]],
    ids=" ".join,
)
def test_a_resumed_run_is_bitwise_the_run_that_never_stopped(changes, store, tmp_path):
    train(tiny(*changes), store, tmp_path / "straight", quiet=True)
    for _ in range(3):
        train(tiny(*changes), store, tmp_path / "stopped", quiet=True, resume=True, max_steps=8)
    require_same_run(tmp_path / "straight", tmp_path / "stopped")


def test_every_loss_falls(store, tmp_path):
    train(tiny("steps=120", "adversarial_weight=0"), store, tmp_path / "run", quiet=True)
    with open(tmp_path / "run" / "log.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["train_l1"]]
    for name in ("train_l1", "duration_loss", "pitch_loss", "voicing_loss"):
        assert float(rows[-1][name]) < 0.8 * float(rows[0][name]), name


def test_a_flow_decoder_learns(store, tmp_path):
    changes = ["steps=120", "adversarial_weight=0", "flow_layers=2", "flow_width=16"]
    train(tiny(*changes), store, tmp_path / "run", quiet=True)
    with open(tmp_path / "run" / "log.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["flow"]]
    assert float(rows[-1]["flow"]) < 0.8 * float(rows[0]["flow"])


def test_the_cepstral_loss_is_learned_and_logged(store, tmp_path):
    train(tiny("steps=120", "adversarial_weight=0", "cepstral_weight=0.4"), store, tmp_path / "run", quiet=True)
    with open(tmp_path / "run" / "log.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["cepstra"]]
    assert float(rows[-1]["cepstra"]) < 0.8 * float(rows[0]["cepstra"])


def test_the_discriminator_joins_when_it_should(store, tmp_path):
    train(tiny(), store, tmp_path / "run", quiet=True)
    with open(tmp_path / "run" / "log.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["adversarial"]) > 0 for row in rows] == [int(row["step"]) > 6 for row in rows]
    state = checkpoint.read(checkpoint.latest(tmp_path / "run"))
    assert state["discriminator"].keys()


def test_a_run_becomes_a_voice_that_loads(store, tmp_path):
    train(tiny(), store, tmp_path / "run", quiet=True)
    export(tmp_path / "run", tmp_path / "voice", licence="CC0-1.0")
    voice = Voice.load(tmp_path / "voice")
    assert isinstance(voice.model, AlignedModel)
    assert voice.card.model.boundaries == 0
    spoken = voice.model.synthesise(torch.tensor([[1, 2, 3]]), torch.tensor([3]), frames=torch.tensor([20]))
    assert spoken.mel.shape == (1, 20, 8)


def test_pictures_are_drawn(store, tmp_path):
    train(tiny("pictures=1", "steps=8"), store, tmp_path / "run", quiet=True)
    assert list((tmp_path / "run" / "pictures").glob("*-00000008.png"))


def test_a_corpus_without_alignment_is_refused(tmp_path):
    with pytest.raises(ValueError, match="corpus align"):
        train(tiny(), tiny_store(tmp_path / "store"), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_several_speakers_learn_in_one_model_and_resume_bit_for_bit(tmp_path):
    corpus = spoken_by(tiny_store(tmp_path / "store", timed=True), ["ann", "bob"])
    train(tiny(), corpus, tmp_path / "straight", quiet=True)
    for _ in range(3):
        train(tiny(), corpus, tmp_path / "stopped", quiet=True, resume=True, max_steps=8)
    require_same_run(tmp_path / "straight", tmp_path / "stopped")
    table = checkpoint.read(checkpoint.latest(tmp_path / "straight"))["model"]["speaker_embedding.weight"]
    assert table.shape == (2, 16)
    assert not torch.equal(table[0], table[1])
    train(tiny("steps=1", "validate_every=1", "pictures=1"), corpus, tmp_path / "drawn", quiet=True)
    assert len(list((tmp_path / "drawn" / "pictures").glob("*.png"))) == 1


def test_a_speaker_with_nothing_to_learn_from_is_named(tmp_path):
    corpus = spoken_by(tiny_store(tmp_path / "store", timed=True), ["ann", "bob"])
    for row in corpus.utterances:
        object.__setattr__(row, "split", "valid" if row.speaker == "bob" else "train")
    with pytest.raises(ValueError, match="speaker bob is left for training"):
        train(tiny(), corpus, tmp_path / "run", quiet=True)


def test_the_papers_model_refuses_several_speakers(tmp_path):
    corpus = spoken_by(tiny_store(tmp_path / "store"), ["ann", "bob"])
    with pytest.raises(ValueError, match=r"several speakers \(ann, bob\).*preset small"):
        train(load_preset("small-l1"), corpus, tmp_path / "run", quiet=True)
