"""`clock-attention train` and `clock-attention export`."""

import shutil

import pytest
from typer.testing import CliRunner

from clock_attention.commands.main import app
from clock_attention.commands.train import export_command
from clock_attention.speech.training.run import RunDescription
from clock_attention.speech.voice.from_run import export
from clock_attention.speech.voice.voice import Voice
from tests.speech.corpora import tiny_store
from tests.speech.voices import CHANGES, tiny_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tiny_run(tmp_path_factory.mktemp("voice"))


@pytest.fixture
def voice(run, tmp_path):
    export(run, tmp_path / "voice", licence="CC0")
    return tmp_path / "voice"


def test_the_commands_train_and_export_end_to_end(tmp_path):
    store = tiny_store(tmp_path / "store")
    runner = CliRunner()
    changes = [part for change in CHANGES for part in ("--set", change)]
    arguments = [
        "train",
        "--corpus",
        str(store.path),
        "--out",
        str(tmp_path / "run"),
        "--accelerator",
        "cpu",
        "--preset",
        "small-l1",
        *changes,
    ]
    result = runner.invoke(app, [*arguments, "--max-steps", "4"])
    assert result.exit_code == 0, result.output
    # A resumed run brings its own options.
    result = runner.invoke(app, ["train", "--corpus", str(store.path), "--out", str(tmp_path / "run"), "--resume"])
    assert result.exit_code == 0, result.output
    result = runner.invoke(app, ["export", str(tmp_path / "run"), str(tmp_path / "voice"), "--licence", "CC0"])
    assert result.exit_code == 0, result.output
    assert Voice.load(tmp_path / "voice").card.model.width == 16


def test_a_run_on_recordings_of_people_is_exported_with_their_consent_only(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    description = RunDescription.read(copy)
    assert description.recordings is False  # of synthetic speech: nobody has to agree
    assert export_command(copy) == f"clock-attention export {copy} VOICE"
    description.model_copy(update={"recordings": True}).write(copy)
    assert export_command(copy) == f'clock-attention export {copy} VOICE --consent "…"'
    command = ["export", str(copy), str(tmp_path / "voice")]
    refused = CliRunner().invoke(app, command, env={"COLUMNS": "300"})
    assert refused.exit_code == 1
    assert "learned from recordings of people: say whose they are" in refused.output
    assert not (tmp_path / "voice").exists()
    for kind in ("--onnx", "--runtime"):  # no way around it
        refused = CliRunner().invoke(app, [*command, kind], env={"COLUMNS": "300"})
        assert refused.exit_code == 1
        assert "learned from recordings of people: say whose they are" in refused.output
        assert not (tmp_path / "voice").exists()
    done = CliRunner().invoke(app, [*command, "--consent", "Ann recorded herself"])
    assert done.exit_code == 0, done.output
    assert Voice.load(tmp_path / "voice").card.provenance.consent == "Ann recorded herself"
    other = ["export", str(tmp_path / "voice"), str(tmp_path / "voice.onnx"), "--onnx", "--consent", "Bob agreed"]
    refused = CliRunner().invoke(app, other, env={"COLUMNS": "300"})
    assert refused.exit_code == 1
    assert "has its own statement" in refused.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "widht=3"], "there is no option 'widht'"),
        (["--set", "cross_attention=dot"], "an option of the paper's model (presets small-l1 and paper)"),
        ([], "has none: run `clock-attention corpus align` on it first"),
        (["--preset", "huge"], "expected one of finetune, paper, small, small-l1"),
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


def test_an_exported_voice_keeps_its_lexicon(run, tmp_path):
    (tmp_path / "words.toml").write_text('Zyx = "/ˈzæp/"\n', "utf-8")
    runner = CliRunner()
    export_it = ["export", str(run), str(tmp_path / "kept"), "--lexicon", str(tmp_path / "words.toml")]
    result = runner.invoke(app, export_it)
    assert result.exit_code == 0, result.output
    (tmp_path / "words.toml").unlink()
    voice = Voice.load(tmp_path / "kept")
    assert voice.lexicon.entries == {"Zyx": "/ˈzæp/"}
    result = runner.invoke(app, ["export", str(run), str(tmp_path / "other"), "--lexicon", str(tmp_path / "none.toml")])
    assert result.exit_code == 1
    assert "none.toml" in result.output
    assert not (tmp_path / "other").exists()


def test_exporting_what_is_no_run_says_so(tmp_path):
    result = CliRunner().invoke(app, ["export", str(tmp_path), str(tmp_path / "voice")])
    assert result.exit_code == 1
    assert "is not a training run" in " ".join(result.output.split())


def test_a_training_starts_from_a_voice_with_its_model_and_its_own_options(voice, run, tmp_path):
    """`--from` takes the sizes of the voice; a resumed run needs no second `--from`."""
    store = tiny_store(tmp_path / "store", seed=1)
    runner = CliRunner()
    common = ["train", "--corpus", str(store.path), "--out", str(tmp_path / "run"), "--accelerator", "cpu"]
    changes = ["batch_size=8", "steps=4", "validate_every=2", "pictures=0", "learning_rate=1e-4", "ema=0.5"]
    options = [part for change in changes for part in ("--set", change)]
    result = runner.invoke(app, [*common, "--from", str(voice), *options, "--max-steps", "2"])
    assert result.exit_code == 0, result.output
    result = runner.invoke(app, [*common, "--resume"])
    assert result.exit_code == 0, result.output
    assert "other options" not in result.output
    result = runner.invoke(app, [*common, "--resume", "--set", "steps=6"])
    assert result.exit_code == 0, result.output
    assert "the run continues with other options: steps 4 → 6" in " ".join(result.output.split())
    description = RunDescription.read(tmp_path / "run")
    assert description.config.model.width == 16
    assert description.start == "voice"
    result = runner.invoke(app, [*common[:-3], str(tmp_path / "other"), "--from", "nowhere"])
    assert result.exit_code == 1
    assert "--from: nowhere: not a voice" in result.output
