"""From a training run to a voice."""

import pytest
import torch

from clock_attention.speech.training import checkpoints as checkpoint
from clock_attention.speech.training.config import load_preset
from clock_attention.speech.training.loop import train
from clock_attention.speech.voice.from_run import export
from clock_attention.speech.voice.voice import Voice
from tests.speech.corpora import spoken_by, tiny_store
from tests.speech.voices import tiny_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny_run(tmp_path_factory.mktemp("voice"))


@pytest.fixture
def voice(run, tmp_path):
    export(run, tmp_path / "voice", licence="CC0")
    return tmp_path / "voice"


def test_a_voice_speaks_with_the_averaged_weights_of_the_best_checkpoint(run, voice):
    loaded = Voice.load(voice)
    state = checkpoint.read(run / "checkpoints" / "best.pt")
    own = dict(loaded.model.named_parameters())
    assert own.keys() == state["average"].keys()
    assert all(torch.equal(own[name], tensor) for name, tensor in state["average"].items())
    assert any(not torch.equal(own[name], state["model"][name]) for name in own)
    assert not loaded.model.training
    speech = loaded.model.synthesise(torch.tensor([[1, 2, 3]]), torch.tensor([3]), frames=torch.tensor([11]))
    assert speech.mel.shape == (1, 11, 8)


def test_a_voice_carries_the_metadata_of_its_corpus(run, voice):
    card = Voice.load(voice).card
    store = tiny_store(voice / "again")
    assert card.language.symbols == store.symbols
    assert card.language.mel == store.mel_config
    assert card.language.mpr == store.mpr
    assert card.provenance.licence == "CC0"
    assert card.provenance.corpus == "random strings"
    assert card.model.symbols == 10
    mel = torch.randn(7, 8)
    loaded = Voice.load(voice)
    torch.testing.assert_close(loaded.standardised(mel), (mel - store.mean) / store.std)
    torch.testing.assert_close(loaded.log_mel(loaded.standardised(mel)), mel)


def test_half_precision_halves_the_file_and_speaks_alike(run, voice, tmp_path):
    export(run, tmp_path / "half", licence="CC0", half=True)
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (tmp_path / "half", voice)]
    assert sizes[0] < 0.65 * sizes[1]
    asked = (torch.tensor([[1, 2, 3]]), torch.tensor([3]))
    half, whole = (
        Voice.load(folder).model.synthesise(*asked, frames=torch.tensor([11])).mel
        for folder in (tmp_path / "half", voice)
    )
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, whole, rtol=0, atol=0.02)


def test_the_last_checkpoint_can_be_exported_too(run, tmp_path):
    assert export(run, tmp_path / "last", licence="", which="last").provenance.steps == 6


def test_a_run_of_several_speakers_becomes_a_voice_of_all_or_of_one(tmp_path):
    corpus = spoken_by(tiny_store(tmp_path / "store", timed=True), ["ann", "bob"])
    sizes = ["width=16", "heads=2", "encoder_layers=1", "feed_forward=24", "prosody_width=12", "prosody_layers=1"]
    sizes += ["decoder_width=16", "decoder_layers=1", "steps=4", "adversarial_weight=0", "pictures=0", "warmup_steps=1"]
    train(load_preset("small").changed(sizes), corpus, tmp_path / "run", quiet=True)
    card = export(tmp_path / "run", tmp_path / "all", licence="CC0")
    assert [speaker.name for speaker in card.language.speakers] == ["ann", "bob"]
    card = export(tmp_path / "run", tmp_path / "bob", licence="CC0", speaker="bob")
    assert (card.model.speakers, card.language.speakers) == (1, ())
    every, bob = Voice.load(tmp_path / "all").with_speaker("bob"), Voice.load(tmp_path / "bob")
    assert bob.speakers == ()
    assert bob.language == every.language
    for name, tensor in bob.model.state_dict().items():
        assert torch.equal(tensor, every.model.state_dict()[name]), name
    with pytest.raises(ValueError, match=r"no speaker 'cleo'; choose one of ann, bob"):
        export(tmp_path / "run", tmp_path / "cleo", licence="CC0", speaker="cleo")
    assert not (tmp_path / "cleo").exists()
