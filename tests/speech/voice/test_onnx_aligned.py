"""The model with durations as one ONNX file says what torch says."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra clock-attention[onnx]")

from clock_attention.speech.voice.onnx_export import onnx_model  # noqa: E402
from clock_attention.speech.voice.voice import Voice  # noqa: E402
from tests.speech.voices import tiny_aligned_voice  # noqa: E402

TOLERANCE = 2e-4


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    voice = Voice.load(tiny_aligned_voice(tmp_path_factory.mktemp("onnx") / "voice"))
    generator = torch.Generator().manual_seed(1)
    for name, parameter in voice.model.named_parameters():
        if not name.startswith("timing_output"):
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = onnx_model(voice).SerializeToString()
    return voice, onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 23), st.integers(0, 90)), min_size=1, max_size=4),
    st.sampled_from([0.5, 0.8, 1.0, 1.9]),
    st.integers(0, 2**16),
)
def test_any_batch_sounds_as_in_torch(pair, lengths_and_frames, pace, seed):
    voice, exported = pair
    lengths, frames = (np.array(column) for column in zip(*lengths_and_frames, strict=True))
    tokens = np.full((len(lengths), lengths.max()), 10**6)  # ids that do not exist stand where nobody may look
    draw = np.random.default_rng(seed)
    for row, length in zip(tokens, lengths, strict=True):
        row[:length] = draw.integers(0, len(voice.language.symbols), length)
    given = {"frames": frames, "pace": np.array([pace], np.float32)}
    mel, counts, attention = exported.run(None, {"tokens": tokens, "token_lengths": lengths, **given})

    ids, sizes = torch.from_numpy(np.where(tokens == 10**6, 0, tokens)), torch.from_numpy(lengths)
    natural = voice.model.encode_timed(ids, sizes)[1].sum(1)
    wanted = torch.where(torch.from_numpy(frames) > 0, torch.from_numpy(frames), (natural / pace).round().long())
    expected = voice.model.synthesise(ids, sizes, frames=wanted)
    assert counts.tolist() == expected.frames.tolist()
    output = voice.log_mel(expected.mel).numpy()
    for item, count in enumerate(counts):
        np.testing.assert_allclose(mel[item, :count], output[item, :count], atol=TOLERANCE)
        assert (mel[item, count:] == np.float32(np.log(voice.language.mel.log_floor))).all()
        weights = expected.weights[0][item].numpy()
        np.testing.assert_allclose(attention[item, :, :count], weights[:, :count], atol=TOLERANCE)
        assert not attention[item, :, count:].any()
