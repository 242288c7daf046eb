"""The model that learns along an alignment: exact lengths, nothing skipped, padding without influence, control."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clock_attention.speech.model.aligned import AlignedModel, fitted_durations, meeting_weights, one_speaker
from clock_attention.speech.model.config import AlignedConfig

SMALL = {
    "symbols": 9,
    "mels": 5,
    "boundaries": 2,
    "width": 16,
    "heads": 2,
    "encoder_layers": 1,
    "feed_forward": 24,
    "dropout": 0.0,
    "prosody_width": 12,
    "prosody_layers": 1,
    "decoder_width": 12,
    "decoder_layers": 2,
}
TEXTS = st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=12), min_size=1, max_size=3)


def build(**options):
    torch.manual_seed(0)
    model = AlignedModel(AlignedConfig(**{**SMALL, **options})).eval()
    # Fresh timing heads predict the same for every token; these do not.
    torch.nn.init.normal_(model.timing_output.weight, std=0.3)
    torch.nn.init.constant_(model.timing_output.bias, 1.2)
    torch.nn.init.normal_(model.prosody_output.weight, std=0.5)
    return model


def batch(texts):
    tokens = torch.nn.utils.rnn.pad_sequence([torch.tensor(text) for text in texts], batch_first=True)
    return tokens, torch.tensor([len(text) for text in texts])


@settings(max_examples=40, deadline=None)
@given(TEXTS, st.floats(0.3, 3.0))
def test_any_length_is_exact_and_every_phoneme_gets_a_frame(texts, factor):
    model, (tokens, lengths) = build(), batch(texts)
    frames = (model.encode_timed(tokens, lengths)[1].sum(1).round() * factor).round().long().clamp(min=1)
    spoken = model.synthesise(tokens, lengths, frames=frames)
    assert spoken.durations.sum(1).tolist() == frames.tolist() == spoken.frames.tolist()
    for text, durations, total in zip(texts, spoken.durations, frames.tolist(), strict=True):
        inner = durations[1 : len(text) + 1]
        phonemes = torch.tensor([symbol >= SMALL["boundaries"] for symbol in text])
        if total >= int(phonemes.sum()):
            assert (inner[phonemes] >= 1).all()
        assert (durations[len(text) + 2 :] == 0).all()


@settings(max_examples=20, deadline=None)
@given(TEXTS)
def test_an_utterance_is_the_same_alone_and_in_a_batch(texts):
    model, (tokens, lengths) = build(), batch(texts)
    together = model.synthesise(tokens, lengths)
    for item, text in enumerate(texts):
        alone = model.synthesise(*batch([text]))
        frames = int(alone.frames[0])
        assert frames == int(together.frames[item])
        torch.testing.assert_close(alone.mel[0], together.mel[item, :frames], atol=1e-5, rtol=1e-5)


def test_padding_may_hold_anything():
    model, (tokens, lengths) = build(), batch([[2, 3, 4, 1, 5], [6, 7]])
    durations = torch.tensor([[2.0, 3, 1, 4, 0, 2, 3], [1, 5, 2, 2, 0, 0, 0]])
    frames = durations.sum(1).long()
    pitch = torch.randn(2, int(frames.max()))
    energy, voiced = torch.randn(2, 7), torch.ones_like(pitch)
    expected = model(tokens, lengths, durations, energy, pitch, voiced)
    spoiled = tokens.clone()
    spoiled[1, 2:] = 8
    pitch[1, frames[1] :] = 1e6
    found = model(spoiled, lengths, durations, energy, pitch, voiced)
    for name in ("mel", "pitch", "voiced"):
        ours, theirs = getattr(found, name)[1, : frames[1]], getattr(expected, name)[1, : frames[1]]
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(found.log_duration[1, :4], expected.log_duration[1, :4])


def test_items_can_be_decoded_with_the_energy_that_synthesis_would_use():
    model, (tokens, lengths) = build(), batch([[2, 3, 4, 5], [6, 7, 8, 2]])
    durations = torch.full((2, 6), 3.0)
    energy, pitch, voiced = torch.randn(2, 6), torch.randn(2, 18), torch.ones(2, 18)
    given = model(tokens, lengths, durations, energy, pitch, voiced)
    chosen = model(tokens, lengths, durations, energy, pitch, voiced, predicted_energy=torch.tensor([False, True]))
    predicted = model(tokens, lengths, durations, given.energy.detach(), pitch, voiced)
    torch.testing.assert_close(chosen.mel[0], given.mel[0])
    torch.testing.assert_close(chosen.mel[1], predicted.mel[1])
    assert (predicted.mel - given.mel).abs().max() > 1e-3


def test_frames_read_the_token_that_they_belong_to():
    durations = torch.tensor([[4.0, 10, 0, 2, 7]])
    weights = meeting_weights(durations, torch.zeros(1, 5, dtype=torch.bool), 23)[0]
    torch.testing.assert_close(weights.sum(-1), torch.ones(23))
    read, own = weights.argmax(-1), torch.tensor([0] * 4 + [1] * 10 + [3] * 2 + [4] * 7)
    for frame in range(23):  # Gaussians of unequal width cross within a frame of the boundary
        assert int(read[frame]) in own[max(0, frame - 1) : frame + 2].tolist()
    assert (torch.diff(read) >= 0).all()
    assert (weights[:, 2] == 0).all(), "a token without frames is never read"


def test_given_durations_are_kept():
    model, (tokens, lengths) = build(), batch([[2, 3, 4]])
    wanted = torch.tensor([[0, 7, 1, 12, 3]])
    spoken = model.synthesise(tokens, lengths, durations=wanted)
    assert spoken.durations.tolist() == wanted.tolist()
    assert spoken.mel.shape[1] == 23


def test_pitch_and_energy_of_one_token_change_its_frames_most():
    model, (tokens, lengths) = build(), batch([[2, 3, 4, 5, 6, 7, 8, 2, 3, 4, 5, 6]])
    durations = torch.full((1, 14), 20)
    plain = model.synthesise(tokens, lengths, durations=durations).mel[0]
    change = torch.zeros(1, 14)
    change[0, 6] = 3.0
    for name in ("pitch", "energy"):
        moved = (model.synthesise(tokens, lengths, durations=durations, **{name: change}).mel[0] - plain).abs().sum(-1)
        assert moved[120:140].mean() > 10 * moved[:80].mean(), name


@pytest.mark.parametrize("options", [{"width": 10**30}, {"encoder_layers": 2**63}, {"width": 15}, {"decoder": 3}])
def test_options_that_no_model_has_are_refused(options):
    with pytest.raises(ValueError, match=r"width|encoder_layers|decoder"):
        AlignedConfig(**{**SMALL, **options})


def test_fast_speech_gives_up_silence_before_phonemes():
    model, (tokens, lengths) = build(), batch([[5, 6, 1, 7, 8]])
    encoding = model.encode(tokens, lengths)
    natural = torch.tensor([[4.0, 10, 10, 20, 10, 10, 6]])
    for share in (0.9, 0.6):
        frames = torch.tensor([round(70 * share)])
        fitted = fitted_durations(natural, encoding, frames)[0]
        assert fitted.sum() == frames
        silence, speech = fitted[[0, 3, 6]].sum() / 30, fitted[[1, 2, 4, 5]].sum() / 40
        assert silence < share < speech
    slower = fitted_durations(natural, encoding, torch.tensor([140]))[0]
    assert (slower - 2 * natural[0]).abs().max() <= 1


@settings(max_examples=25, deadline=None)
@given(TEXTS, st.integers(2, 4), st.data())
def test_a_model_of_several_speakers_is_one_model_for_each(texts, speakers, data):
    model, (tokens, lengths) = build(speakers=speakers, flow_layers=1, flow_width=8).double(), batch(texts)
    torch.nn.init.normal_(model.speaker_embedding.weight)
    chosen = torch.tensor(data.draw(st.lists(st.integers(0, speakers - 1), min_size=len(texts), max_size=len(texts))))
    durations = torch.full((len(texts), tokens.shape[1] + 2), 2.0, dtype=torch.float64)
    durations = durations * (torch.arange(durations.shape[1]) < lengths[:, None] + 2)
    frames = int(durations.sum(1).max())
    energy, pitch, voiced = torch.randn_like(durations), torch.randn(len(texts), frames).double(), torch.ones(1, frames)
    given_prosody = (durations, energy, pitch, voiced.expand_as(pitch).double())
    together = model(tokens, lengths, *given_prosody, speakers=chosen)
    for item, speaker in enumerate(chosen.tolist()):
        alone, own = model.of_speaker(speaker), slice(item, item + 1)
        one = alone(tokens[own], lengths[own], *(tensor[own] for tensor in given_prosody))
        spoken = int(durations[item].sum())
        for name in ("mel", "pitch", "voiced"):
            torch.testing.assert_close(getattr(one, name)[0, :spoken], getattr(together, name)[item, :spoken])
        torch.testing.assert_close(
            one.log_duration[0, : lengths[item] + 2], together.log_duration[item, : lengths[item] + 2]
        )
        folded = one_speaker(model.state_dict(), model.speaker_embedding.weight[speaker])
        assert folded.keys() == alone.state_dict().keys() == build(flow_layers=1, flow_width=8).state_dict().keys()
        assert all(torch.equal(tensor, alone.state_dict()[name]) for name, tensor in folded.items())


def test_a_fresh_model_of_several_speakers_is_that_of_one():
    one, several = build(), build(speakers=3)
    assert several.state_dict().keys() - one.state_dict().keys() == {"speaker_embedding.weight"}
    assert all(torch.equal(tensor, several.state_dict()[name]) for name, tensor in one.state_dict().items())
    assert not several.speaker_embedding.weight.any()


def test_one_of_several_speakers_must_be_named():
    tokens, lengths = batch([[3, 4, 5]])
    model = build(speakers=3)
    with pytest.raises(ValueError, match="3 speakers: say which"):
        model.synthesise(tokens, lengths)
    before = model.encoder_norm.bias.clone()
    torch.nn.init.ones_(model.speaker_embedding.weight)
    single = model.of_speaker(1)
    assert torch.equal(model.encoder_norm.bias, before)
    assert single.output is model.output
    assert (single.config.speakers, model.config.speakers) == (1, 3)
    assert single.synthesise(tokens, lengths).mel.isfinite().all()
    assert model.speaker_embedding is not None
