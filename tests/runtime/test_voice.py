"""Exported voices say the same without torch."""

import os
import subprocess
import sys

import numpy as np
import pytest
import soundfile
import torch
from typer.testing import CliRunner

pytest.importorskip("onnx", reason="needs the extra clock-attention[onnx]")

from clock_attention.commands.main import app
from clock_attention.runtime import RuntimeVoiceError, load
from clock_attention.runtime.export import export_runtime
from clock_attention.speech.vocoder.vocoder import load_vocoder
from clock_attention.speech.voice.voice import Voice
from tests.speech.voices import tiny_aligned_voice, tiny_voice

CLOSE = 1e-3
REQUESTS = {
    "two sentences": {"text": "The birch canoe slid. Dr. Smith paid $5!"},
    "duration": {"text": "Exactly this long.", "duration": 3.2},
    "pace": {"text": "A fast one, here.", "pace": 1.6},
    "frames per phoneme": {"text": "One two.", "mpr": 8.0},
    "markup": {
        "ssml": '<speak>One <break time="1.5s"/> <prosody duration="800ms" pitch="+3st">two</prosody> three.</speak>'
    },
    "louder": {"text": "One two.", "energy": 4.0, "pitch": -2.0},
}


@pytest.fixture(scope="module")
def voice(tmp_path_factory):
    voice = Voice.load(tiny_aligned_voice(tmp_path_factory.mktemp("runtime") / "voice"))
    generator = torch.Generator().manual_seed(1)
    for name, parameter in voice.model.named_parameters():
        if not name.startswith("timing_output"):
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    return voice


@pytest.fixture(scope="module")
def exported(voice, tmp_path_factory):
    return export_runtime(voice, tmp_path_factory.mktemp("runtime") / "exported", vocoder="fast")


@pytest.fixture(scope="module")
def runtime(exported):
    return load(exported, threads=1)


@pytest.mark.parametrize("name", REQUESTS)
def test_it_says_the_same_at_the_same_time(voice, runtime, name):
    expected = voice.speak(**REQUESTS[name], vocoder="fast")
    found = runtime.speak(**REQUESTS[name])
    assert len(found.audio) == len(expected.audio)
    assert np.abs(found.audio - expected.audio).max() < CLOSE
    for tier, intervals in expected.tiers().items():
        if tier in ("words", "phones"):
            assert found.tiers()[tier] == intervals


@pytest.mark.parametrize("name", ["duration", "frames per phoneme", "pace", "markup"])
def test_every_phrase_is_encoded_once(runtime, monkeypatch, name):
    read, calls = runtime._read, []

    def counted(phonemes, **options):
        calls.append(phonemes.tokens)
        return read(phonemes, **options)

    monkeypatch.setattr(runtime, "_read", counted)
    list(runtime.stream(**REQUESTS[name], most_seconds=60))
    assert len(calls) == len(set(calls))


def test_a_stream_is_the_whole(runtime):
    text = "One two. Three four. Five."
    pieces = list(runtime.stream(text))
    assert len(pieces) == 3
    np.testing.assert_array_equal(np.concatenate([piece.audio for piece in pieces]), runtime.speak(text).audio)


@pytest.mark.slow
def test_hifigan_sounds_the_same(voice, tmp_path):
    runtime = load(export_runtime(voice, tmp_path / "exported", vocoder="hifigan"), threads=1)
    expected = voice.speak("One two three.", vocoder=load_vocoder("hifigan", voice.language.mel))
    assert np.abs(runtime.speak("One two three.").audio - expected.audio).max() < CLOSE


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"text": "…"}, "nothing to say"),
        ({"text": "One.", "duration": 900.0}, "duration"),
        ({"text": "One.", "most_seconds": 0.1}, "more than 0.1 seconds"),
        ({"text": "One.", "pace": 9.0}, "pace"),
        ({"ssml": "<speak>"}, "XML"),
    ],
)
def test_mistakes_are_named(runtime, request_, message):
    with pytest.raises(ValueError, match=message):
        runtime.speak(**request_)


def test_it_runs_where_there_is_no_torch(exported, tmp_path):
    """In a process that has neither torch nor numba, and that must not look for them."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['torch', 'numba', 'pydantic', 'safetensors', 'scipy'], None));"
        "sys.argv[0] = 'runtime'; from clock_attention.runtime.__main__ import main; raise SystemExit(main())"
    )
    out = tmp_path / "out.wav"
    arguments = [
        str(exported),
        "Hello there.",
        "-o",
        str(out),
        "--duration",
        "1.5s",
        "--timestamps",
        str(tmp_path / "t.json"),
    ]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert soundfile.info(out).frames == round(1.5 * 22050 / 256) * 256
    assert "Hello" in (tmp_path / "t.json").read_text()
    wrong = subprocess.run([sys.executable, "-c", code, "nowhere", "Hi."], capture_output=True, text=True)
    assert (wrong.returncode, "Traceback" in wrong.stderr) == (1, False)
    assert "nowhere: not an exported voice" in wrong.stderr


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("runtime.json", b"{}"),
        ("runtime.json", b"[" * 100_000),
        ("text.onnx", b"nonsense"),
        ("vocoder.onnx", b""),
    ],
)
def test_damaged_folders_are_refused(exported, tmp_path, name, content):
    import shutil

    folder = tmp_path / "damaged"
    shutil.copytree(exported, folder)
    (folder / name).write_bytes(content)
    with pytest.raises(RuntimeVoiceError, match=name):
        load(folder)


def test_the_command_exports_and_says_what_it_cannot(tmp_path, voice):
    runner = CliRunner()
    target = tmp_path / "exported"
    done = runner.invoke(app, ["export", "--runtime", str(voice.path), str(target)])
    assert done.exit_code == 0, done.output
    assert load(target).speak("One.").seconds > 0
    again = runner.invoke(app, ["export", "--runtime", str(voice.path), str(target)])
    assert "exists already" in " ".join(again.output.split())
    attention = tiny_voice(tmp_path / "attention")
    refused = runner.invoke(app, ["export", "--runtime", str(attention), str(tmp_path / "other")])
    assert "voices with durations" in " ".join(refused.output.split())
    assert not (tmp_path / "other").exists()


def test_one_speaker_of_several_is_exported(tmp_path):
    runner, target = CliRunner(), tmp_path / "exported"
    duo = Voice.load(tiny_aligned_voice(tmp_path / "duo", speakers=("ann", "bob")))
    refused = runner.invoke(app, ["export", "--runtime", str(duo.path), str(target)])
    assert "add --speaker ann|bob" in " ".join(refused.output.split())
    done = runner.invoke(app, ["export", "--runtime", str(duo.path), str(target), "--speaker", "bob"])
    assert done.exit_code == 0, done.output
    exported = load(target)
    expected = duo.with_speaker("bob").speak("One two.")
    assert exported.speak("One two.").alignment.durations.tolist() == expected.alignment.durations.tolist()
    with pytest.raises(ValueError, match="an exported voice has one speaker"):
        exported.speak("One.", speaker="bob")
