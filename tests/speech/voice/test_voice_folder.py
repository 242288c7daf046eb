"""Voice folders: damaged, foreign and hostile ones are refused."""

import json
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file

from clock_attention.speech.voice.from_run import export
from clock_attention.speech.voice.voice import Voice
from clock_attention.speech.voice.voice_folder import VoiceError
from tests.speech.voices import tiny_aligned_voice, tiny_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny_run(tmp_path_factory.mktemp("voice"))


@pytest.fixture
def voice(run, tmp_path):
    export(run, tmp_path / "voice", licence="CC0")
    return tmp_path / "voice"


def edit(voice, change):
    card = json.loads((voice / "voice.json").read_text())
    change(card)
    (voice / "voice.json").write_text(json.dumps(card))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda card: card.update(format=99), "voice format 99, this version reads 1"),
        (lambda card: card["model"].update(width=32), r"shape \(10, 16\), the model asks for \(10, 32\)"),
        (lambda card: card["model"].update(decoder_layers=2), "missing decoder.1"),
        (lambda card: card["model"].update(colour="red"), "model.colour: Extra inputs"),
        (lambda card: card["model"].pop("width"), "shape"),
        (lambda card: card["language"]["symbols"].pop(), "10 symbols and 8 mel bins, but an inventory of 9"),
        (lambda card: card["language"]["std"].__setitem__(0, 0.0), "std must be positive"),
        (lambda card: card.pop("provenance"), "provenance: Field required"),
    ],
)
def test_a_card_that_does_not_fit_is_refused_with_a_message(voice, change, message):
    edit(voice, change)
    with pytest.raises(VoiceError, match=message):
        Voice.load(voice)


def test_damaged_and_missing_files_are_named(voice, tmp_path):
    with pytest.raises(VoiceError, match="not a voice"):
        Voice.load(tmp_path / "nowhere")
    weights = load_file(voice / "model.safetensors")
    name = next(iter(weights))
    save_file({**weights, name: torch.full_like(weights[name], torch.nan)}, voice / "model.safetensors")
    with pytest.raises(VoiceError, match=f"{name} holds values that are not finite"):
        Voice.load(voice)
    (voice / "model.safetensors").write_bytes(b"\x00" * 40)
    with pytest.raises(VoiceError, match="damaged"):
        Voice.load(voice)
    (voice / "model.safetensors").unlink()
    with pytest.raises(VoiceError, match="missing"):
        Voice.load(voice)
    (voice / "voice.json").write_text("{")
    with pytest.raises(VoiceError, match="Invalid JSON"):
        Voice.load(voice)


class Bomb:
    def __reduce__(self):
        return (print, ("exploded",))


def test_nothing_in_a_voice_or_a_checkpoint_is_ever_run(run, voice, tmp_path, capsys):
    (voice / "model.safetensors").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(VoiceError):
        Voice.load(voice)
    path = tmp_path / "step-00000001.pt"
    torch.save({"format": 1, "bomb": Bomb()}, path)
    with pytest.raises(ValueError, match="not a checkpoint of this program"):
        export(run, tmp_path / "out", licence="", which=str(path))
    assert "exploded" not in capsys.readouterr().out


def test_a_card_with_other_speakers_than_its_model_is_refused(tmp_path):
    folder = tiny_aligned_voice(tmp_path / "duo", speakers=("ann", "bob"))
    assert Voice.load(folder).speakers == ("ann", "bob")
    edit(folder, lambda card: card["model"].update(speakers=3))
    with pytest.raises(VoiceError, match="a model for 3 speakers, but names and statistics of 2"):
        Voice.load(folder)
    edit(folder, lambda card: card["model"].update(speakers=2))
    edit(folder, lambda card: card["language"]["speakers"].pop())
    with pytest.raises(VoiceError, match="several different names, or none"):
        Voice.load(folder)


@pytest.mark.parametrize("name", ["default", "kathleen"])
def test_voices_of_one_speaker_are_as_they_were(name):
    """Outputs, weights and cards of the package's voices do not know of speakers."""
    voice = Voice.load(name)
    assert voice.speakers == ()
    assert voice.speaker is None
    assert not [key for key in voice.model.state_dict() if "speaker" in key]
    assert "speaker" not in voice.card.model_dump_json()
    assert voice.identity == (voice.card.weights_sha256 or str(voice.path))
