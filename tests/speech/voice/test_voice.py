"""Voices: what is exported is what was trained, and a folder that is not in order is refused in words."""

import json
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from clock_attention.commands.main import app
from clock_attention.speech.training import checkpoints as checkpoint
from clock_attention.speech.training.config import load_preset
from clock_attention.speech.training.loop import train
from clock_attention.speech.voice.folder import VoiceError
from clock_attention.speech.voice.from_run import export
from clock_attention.speech.voice.voice import Voice
from tests.speech.corpora import tiny_store

CHANGES = [
    *("width=16", "heads=2", "encoder_layers=1", "decoder_layers=1", "feed_forward=16", "steps=6", "batch_size=8"),
    *("validate_every=3", "log_every=2", "pictures=0", "validation_utterances=4", "warmup_steps=1", "ema=0.5"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished training run."""
    folder = tmp_path_factory.mktemp("voice")
    torch.set_num_threads(1)
    train(load_preset("small").changed(CHANGES), tiny_store(folder / "store"), folder / "run", quiet=True)
    return folder / "run"


@pytest.fixture
def voice(run, tmp_path):
    export(run, tmp_path / "voice", licence="CC0")
    return tmp_path / "voice"


def edit(voice, change):
    card = json.loads((voice / "voice.json").read_text())
    change(card)
    (voice / "voice.json").write_text(json.dumps(card))


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


def test_a_voice_carries_all_that_its_corpus_said(run, voice):
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
def test_a_card_that_does_not_fit_is_refused_in_words(voice, change, message):
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


def test_the_commands_train_and_export_end_to_end(tmp_path):
    store = tiny_store(tmp_path / "store")
    runner = CliRunner()
    changes = [part for change in CHANGES for part in ("--set", change)]
    arguments = ["train", "--corpus", str(store.path), "--out", str(tmp_path / "run"), "--accelerator", "cpu", *changes]
    result = runner.invoke(app, [*arguments, "--max-steps", "4"])
    assert result.exit_code == 0, result.output
    # A resumed run brings its own options.
    result = runner.invoke(app, ["train", "--corpus", str(store.path), "--out", str(tmp_path / "run"), "--resume"])
    assert result.exit_code == 0, result.output
    result = runner.invoke(app, ["export", str(tmp_path / "run"), str(tmp_path / "voice"), "--licence", "CC0"])
    assert result.exit_code == 0, result.output
    assert Voice.load(tmp_path / "voice").card.model.width == 16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "widht=3"], "there is no option 'widht'"),
        (["--preset", "huge"], "expected one of aligned, paper, small"),
        (["--corpus", "nowhere"], "not a feature store"),
    ],
)
def test_mistakes_on_the_command_line_are_answered_with_a_sentence(tmp_path, options, message):
    corpus = tiny_store(tmp_path / "store").path
    result = CliRunner().invoke(app, ["train", "--corpus", str(corpus), "--out", str(tmp_path / "run"), *options])
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert not (tmp_path / "run").exists()


def test_exporting_what_is_no_run_says_so(tmp_path):
    result = CliRunner().invoke(app, ["export", str(tmp_path), str(tmp_path / "voice")])
    assert result.exit_code == 1
    assert "is not a training run" in " ".join(result.output.split())
