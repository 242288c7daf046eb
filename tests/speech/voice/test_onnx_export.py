"""The exported ONNX file says what the torch model says, at any lengths, and tells its user what to feed it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from clock_attention.commands.main import app
from clock_attention.speech.voice.onnx_export import export_onnx, onnx_model
from clock_attention.speech.voice.voice import Voice
from tests.speech.voices import tiny_voice

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra clock-attention[onnx]")

# fp32 on both sides, summed in another order; log-mel of tiny random models spans about ±10.
TOLERANCE = 2e-4

CONFIGS = {
    "small": {"norm_first": True, "feed_forward_kernel": 3, "logit_scale": "learned", "logit_scale_start": 5.0},
    "paper": {"positions": "absolute", "encoder_positions": "absolute", "frames_per_step": 1},
    "rich": {"positions": "rotary", "postnet_layers": 3, "out_proj": True, "clock_width": 1, "frames_per_step": 3},
    "dot": {"cross_attention": "dot", "norm_first": True},
}


@pytest.fixture(scope="module", params=CONFIGS)
def pair(request, tmp_path_factory):
    """A voice and its exported model, with weights that differ from their symmetric initial values."""
    voice = Voice.load(tiny_voice(tmp_path_factory.mktemp("onnx") / "voice", **CONFIGS[request.param]))
    generator = torch.Generator().manual_seed(1)
    for parameter in voice.model.parameters():
        parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return voice, session(onnx_model(voice).SerializeToString())


def session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run(exported, *, frames=(0,), pace=(1.0,), **inputs):
    inputs |= {"frames": np.array(frames), "pace": np.array(pace, np.float32)}
    return dict(zip(["mel", "mel_lengths", "attention"], exported.run(None, inputs), strict=True))


items = st.lists(st.tuples(st.integers(1, 23), st.integers(0, 61)), min_size=1, max_size=4)


@settings(max_examples=12, deadline=None)
@given(items, st.integers(0, 2**16))
def test_any_batch_sounds_as_in_torch(pair, lengths_and_frames, seed):
    voice, exported = pair
    lengths, frames = (np.array(column) for column in zip(*lengths_and_frames, strict=True))
    # Ids that do not exist stand where nobody may look.
    tokens = np.full((len(lengths), lengths.max()), 10**6)
    draw = np.random.default_rng(seed)
    for row, length in zip(tokens, lengths, strict=True):
        row[:length] = draw.integers(0, len(voice.language.symbols), length)
    produced = run(exported, tokens=tokens, token_lengths=lengths, frames=frames)

    ids, counts = torch.from_numpy(tokens), torch.from_numpy(lengths)
    natural = voice.model.encode_timed(ids, counts)[1]
    wanted = torch.where(torch.from_numpy(frames) > 0, torch.from_numpy(frames), natural)
    expected = voice.model.synthesise(ids, counts, frames=wanted)
    assert produced["mel_lengths"].tolist() == expected.frames.tolist()
    assert produced["mel"].shape == (len(lengths), int(wanted.max()), voice.language.mel.n_mels)
    mel, attention = voice.log_mel(expected.mel).numpy(), torch.cat(expected.weights, 1).numpy()
    assert produced["attention"].shape == attention.shape
    for item, count in enumerate(wanted.tolist()):
        np.testing.assert_allclose(produced["mel"][item, :count], mel[item, :count], atol=TOLERANCE)
        assert (produced["mel"][item, count:] == np.float32(np.log(voice.language.mel.log_floor))).all()
        steps, length = int(expected.steps[item]), lengths[item]
        np.testing.assert_allclose(
            produced["attention"][item, :, :steps, :length], attention[item, :, :steps, :length], atol=TOLERANCE
        )
        assert not produced["attention"][item, :, steps:].any()
        assert not produced["attention"][item, :, :, length:].any()


def test_with_0_frames_the_length_model_decides_and_pace_divides_it(pair):
    voice, exported = pair
    tokens, lengths = np.arange(24).reshape(2, 12), np.array([12, 7])
    natural = voice.model.encode_timed(torch.from_numpy(tokens), torch.from_numpy(lengths))[1].tolist()
    inputs = {"tokens": tokens, "token_lengths": lengths}
    assert run(exported, **inputs)["mel_lengths"].tolist() == natural
    twice = run(exported, **inputs, pace=[2.0])["mel_lengths"]
    assert twice.tolist() == torch.tensor(natural).div(2).round().tolist()
    assert run(exported, **inputs, frames=[31])["mel_lengths"].tolist() == [31, 31]


def test_the_small_preset_agrees_at_the_length_of_real_sentences(tmp_path):
    """Clocks divide by a variance that shrinks with length: an fp32 sum of rates would fail here."""
    sizes = {"width": 64, "heads": 4, "encoder_layers": 2, "decoder_layers": 3, "feed_forward": 64}
    voice = Voice.load(tiny_voice(tmp_path / "voice", **CONFIGS["small"], **sizes))
    exported = session(onnx_model(voice).SerializeToString())
    tokens = np.random.default_rng(0).integers(0, len(voice.language.symbols), (1, 150))
    produced = run(exported, tokens=tokens, token_lengths=np.array([150]), frames=[1201])
    expected = voice.model.synthesise(torch.from_numpy(tokens), torch.tensor([150]), frames=torch.tensor([1201]))
    np.testing.assert_allclose(produced["mel"], voice.log_mel(expected.mel).numpy(), atol=TOLERANCE)


def test_the_file_says_all_that_its_user_must_know(tmp_path):
    voice = Voice.load(tiny_voice(tmp_path / "voice"))
    export_onnx(voice, tmp_path / "voice.onnx")
    known = session(str(tmp_path / "voice.onnx")).get_modelmeta().custom_metadata_map
    assert tuple(json.loads(known["symbols"])) == voice.language.symbols
    assert json.loads(known["mel"]) == voice.language.mel.model_dump()
    assert (known["phonemizer"], known["frames_per_step"], known["licence"]) == ("hibari", "2", "CC0")


def test_autoregressive_models_are_refused_with_a_message(tmp_path):
    voice = Voice.load(tiny_voice(tmp_path / "voice", decoding="autoregressive", positions="rotary"))
    with pytest.raises(ValueError, match="takes a parallel model"):
        export_onnx(voice, tmp_path / "voice.onnx")
    assert not list(tmp_path.glob("*.onnx"))


def test_the_command_writes_one_file(tmp_path):
    voice = tiny_voice(tmp_path / "voice")
    result = CliRunner().invoke(app, ["export", "--onnx", str(voice), str(tmp_path / "voice.onnx")])
    assert result.exit_code == 0, result.output
    assert {path.name for path in tmp_path.iterdir()} == {"voice", "voice.onnx"}  # nothing temporary is left
    inputs = session(str(tmp_path / "voice.onnx")).get_inputs()
    assert [item.name for item in inputs] == ["tokens", "token_lengths", "frames", "pace"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--onnx", "VOICE", "out.bin"], "ending in .onnx"),
        (["VOICE", "out.onnx"], "--onnx"),
        (["--onnx", "nowhere", "out.onnx"], "not a voice"),
        (["--onnx", "VOICE", "missing/out.onnx"], "does not exist"),
    ],
)
def test_mistakes_of_the_command_are_explained(tmp_path, arguments, complaint):
    tiny_voice(tmp_path / "VOICE")
    paths = [word if word.startswith("--") else str(tmp_path / word) for word in arguments]
    result = CliRunner().invoke(app, ["export", *paths])
    assert result.exit_code == 1
    assert complaint in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_the_documented_example_needs_neither_torch_nor_this_package(tmp_path):
    example = re.search(
        r"```python\n(.*?)```",
        (Path(__file__).parents[3] / "docs" / "guides" / "onnx.md").read_text("utf-8"),
        re.DOTALL,
    )[1]
    export_onnx(Voice.load(tiny_voice(tmp_path / "voice")), tmp_path / "voice.onnx")
    without = "import sys; sys.modules.update(dict.fromkeys(['torch', 'clock_attention', 'onnx']))\n"
    result = subprocess.run(
        [sys.executable, "-c", without + example], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 10
