"""The acoustic model: the paper's sizes, what padding and the future may not change, and steps against the whole."""

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clock_attention.speech.model.layers import LayerState
from clock_attention.speech.model.transformer_model import SpeechModel
from clock_attention.speech.training.config import load_preset
from tests.speech.model.tiny_models import build, inputs

OPTIONS = st.fixed_dictionaries(
    {
        "cross_attention": st.sampled_from(["clock", "dot"]),
        "norm_first": st.booleans(),
        "feed_forward_kernel": st.sampled_from([1, 3]),
        "encoder_positions": st.sampled_from(["absolute", "rotary"]),
        "positions": st.sampled_from(["absolute", "normalized", "rotary"]),
        "frames_per_step": st.integers(1, 3),
        "postnet_layers": st.sampled_from([0, 2]),
        "prenet_width": st.sampled_from([0, 8]),
        "out_proj": st.booleans(),
    }
)
LENGTHS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 25)), min_size=1, max_size=3)


def count(model):
    return sum(p.numel() for name, p in model.named_parameters() if not name.startswith("length."))


def test_the_paper_preset_has_the_paper_s_8_72_million_parameters():
    config = load_preset("paper").model
    width, inner, symbols, mels = 256, 1024, 42, 80
    projection = width * width + width
    feed_forward = width * inner + inner + inner * width + width
    norm = 2 * width
    encoder_layer = 4 * projection + feed_forward + 2 * norm  # query, key, value, output; two norms
    decoder_layer = (4 + 3) * projection + feed_forward + 3 * norm  # cross-attention has no output projection
    expected = symbols * width + 6 * encoder_layer + 4 * decoder_layer + (width * mels + mels)
    assert expected == 8_720_464
    for attention in ("clock", "dot"):
        assert count(SpeechModel(config.model_copy(update={"cross_attention": attention}))) == expected
    # The autoregressive models read frames (one linear layer) and close each source with an end token.
    autoregressive = SpeechModel(config.model_copy(update={"decoding": "autoregressive"}))
    assert count(autoregressive) == expected + (mels * width + width) + width


@pytest.mark.parametrize("preset", ["paper", "small-l1"])
def test_the_four_systems_differ_in_what_they_are_named_for_and_in_nothing_else(preset):
    def shapes(attention, decoding):
        config = load_preset(preset).model
        model = SpeechModel(config.model_copy(update={"cross_attention": attention, "decoding": decoding}))
        return {name: tuple(value.shape) for name, value in model.state_dict().items()}

    layers = load_preset(preset).model.decoder_layers
    for decoding in ("parallel", "autoregressive"):
        clock, dot = shapes("clock", decoding), shapes("dot", decoding)
        names = {name.rsplit(".", 1)[1] for name in clock.keys() - dot.keys()}
        assert names <= {"logit_scale", "pace"}
        assert len(clock.keys() - dot.keys()) == len(names) * layers
        assert not dot.keys() - clock.keys()
        assert all(clock[name] == dot[name] for name in dot)
    parallel, autoregressive = shapes("dot", "parallel"), shapes("dot", "autoregressive")
    assert {name.split(".")[0] for name in autoregressive.keys() - parallel.keys()} == {"prenet"}
    assert [name for name in parallel if parallel[name] != autoregressive[name]] == ["embedding.weight"]


@settings(max_examples=25, deadline=None)
@given(options=OPTIONS, decoding=st.sampled_from(["parallel", "autoregressive"]), pairs=LENGTHS)
def test_an_utterance_alone_and_in_a_batch_with_nan_padding_come_out_the_same(options, decoding, pairs):
    model = build(decoding=decoding, **options)
    tokens, lengths, frames, mel = inputs(pairs)
    for item, (length, frame) in enumerate(pairs):
        tokens[item, length:] = 6
        mel[item, frame:] = torch.nan
    together = model(tokens, lengths, frames, mel)
    for item, (length, frame) in enumerate(pairs):
        alone = model(
            tokens[item : item + 1, :length],
            lengths[item : item + 1],
            frames[item : item + 1],
            mel[item : item + 1, :frame],
        )
        torch.testing.assert_close(together.mel[item, :frame], alone.mel[0, :frame], atol=2e-4, rtol=2e-4)
        torch.testing.assert_close(together.log_frames[item], alone.log_frames[0], atol=1e-4, rtol=1e-4)


@settings(max_examples=25, deadline=None)
@given(options=OPTIONS, pairs=LENGTHS)
def test_teacher_forcing_equals_one_step_at_a_time(options, pairs):
    model = build(decoding="autoregressive", **options)
    tokens, lengths, frames, mel = inputs(pairs)
    whole = model(tokens, lengths, frames, mel, need_weights=True)
    memory = model.encode(tokens, lengths)
    grouped = model.grouped(mel, whole.weights[0].shape[2])
    pace = model.pace(frames, memory)
    states = [
        LayerState(layer.cross_attention.start(memory.encoded, memory.padding, pace=pace)) for layer in model.decoder
    ]
    previous = torch.zeros_like(grouped[:, 0])
    for place in range(grouped.shape[1]):
        result, weights, states = model.step(previous, states, place)
        previous = grouped[:, place]
        valid = place < model.steps(frames)
        r = options["frames_per_step"]
        expected = whole.rough[:, place * r : (place + 1) * r].flatten(1)
        torch.testing.assert_close(result[valid], expected[valid], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(weights[-1][valid], whole.weights[-1][valid, :, place], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("attention", ["clock", "dot"])
def test_later_frames_change_nothing_before_them(attention):
    model = build(decoding="autoregressive", cross_attention=attention, feed_forward_kernel=3, frames_per_step=2)
    tokens, lengths, frames, mel = inputs([(6, 20), (8, 20)])
    changed = mel.clone()
    changed[:, 10:] += 1
    before, after = (model(tokens, lengths, frames, m).rough for m in (mel, changed))
    assert torch.equal(before[:, :12], after[:, :12])  # frames 10 and 11 are predicted from those before 10
    assert not torch.equal(before[:, 12:], after[:, 12:])


@pytest.mark.parametrize("attention", ["clock", "dot"])
@pytest.mark.parametrize("frames_per_step", [1, 3])
def test_parallel_speech_has_exactly_the_requested_length(attention, frames_per_step):
    model = build(cross_attention=attention, frames_per_step=frames_per_step, positions="normalized")
    tokens, lengths, *_ = inputs([(4, 1), (9, 1), (1, 1)])
    speech = model.synthesise(tokens, lengths, frames=torch.tensor([1, 38, 7]))
    assert speech.frames.tolist() == [1, 38, 7]
    assert speech.mel.shape == (3, 38, 5)
    assert speech.steps.tolist() == [-(-n // frames_per_step) for n in (1, 38, 7)]
    assert len(speech.weights) == 2
    assert speech.weights[0].shape == (3, 2, int(speech.steps.max()), 9)
    assert len(speech.clocks) == (2 if attention == "clock" else 0)
    by_mpr = model.synthesise(tokens, lengths, mpr=5.0)
    assert by_mpr.frames.tolist() == [20, 45, 5]


def test_the_requested_length_alone_decides_the_alignment_of_normalized_positions():
    """Twice the frames: every other decoder step sees nearly the same normalized time, whatever the length."""
    model = build(positions="normalized")
    memory = model.encode(*inputs([(5, 1)])[:2])
    short, long = (model.position_queries(torch.tensor([n]), memory) for n in (30, 90))
    torch.testing.assert_close(short[0], long[0, 1::3], atol=1e-4, rtol=1e-4)


def test_causal_clocks_end_their_own_speech_at_the_pace_asked_for():
    model = build(decoding="autoregressive", positions="rotary")
    tokens, lengths, *_ = inputs([(3, 1), (9, 1)])
    natural = model.synthesise(tokens, lengths)
    slow = model.synthesise(tokens, lengths, mpr=12.0)
    assert natural.frames[0] < natural.frames[1]
    assert (slow.frames > 1.4 * natural.frames).all()  # 12 against 8: the length model counts the end token too
    for speech in (natural, slow):
        clock = speech.clocks[-1].target.mean((1, 3))  # (B, steps)
        asked = speech.natural_frames if speech is natural else 12.0 * lengths
        half = 0.5 / asked
        for item, steps in enumerate(speech.steps.tolist()):
            assert clock[item, steps - 2] < 1 - half[item] <= clock[item, steps - 1] + 1e-6
        assert speech.mel.shape[1] == int(speech.frames.max())


def test_a_clock_that_stands_still_is_cut_off_at_its_own_ceiling(caplog):
    model = build(decoding="autoregressive", positions="rotary")
    for attention in model.clock_layers:
        torch.nn.init.constant_(attention.q_proj.bias, -1e6)
    tokens, lengths, *_ = inputs([(3, 1), (9, 1)])
    speech = model.synthesise(tokens, lengths, frames=torch.tensor([10, 20]))
    assert [message for message in caplog.messages if "safety net" in message]
    assert speech.steps.tolist() == [42, 82]  # four times what was asked for, and not one the other's
    assert speech.finished.tolist() == [False, False]


@pytest.mark.parametrize("options", [{"cross_attention": "dot"}, {"clocks": "unnormalized"}])
def test_autoregressive_models_without_causal_clocks_stop_at_the_cap(options):
    model = build(decoding="autoregressive", frames_per_step=2, **options)
    tokens, lengths, *_ = inputs([(3, 1), (5, 1)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        speech = model.synthesise(tokens, lengths, mpr=7.0)
    assert speech.frames.tolist() == [21, 35]
    assert speech.mel.shape[1] == 35
    assert speech.weights[0].shape[2:] == (18, 6)


def test_end_reading_is_what_the_streaming_clock_reads_at_the_last_step():
    model = build(decoding="autoregressive", positions="rotary")
    tokens, lengths, frames, mel = inputs([(4, 13), (6, 9)])
    prediction = model(tokens, lengths, frames, mel)
    memory = model.encode(tokens, lengths)
    pace = model.pace(frames, memory)
    states = [
        LayerState(layer.cross_attention.start(memory.encoded, memory.padding, pace=pace)) for layer in model.decoder
    ]
    previous = torch.zeros(2, 5)
    readings = []
    for place in range(13):
        _, _, states = model.step(previous, states, place)
        previous = mel[:, place]
        readings.append(torch.stack([state.meeting.reading.mean(2).float() for state in states]))
    expected = torch.stack([readings[12][:, 0], readings[8][:, 1]], 1)
    torch.testing.assert_close(prediction.end_reading, expected, atol=1e-5, rtol=1e-5)


def test_an_autoregressive_model_asks_for_its_target():
    tokens, lengths, frames, _ = inputs([(4, 13)])
    with pytest.raises(ValueError, match="previous frames"):
        build(decoding="autoregressive")(tokens, lengths, frames)
