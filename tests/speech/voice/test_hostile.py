"""Voice folders that a stranger made: refused in words, before they take memory or speak nonsense in silence."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from clock_attention.speech.model.config import AlignedConfig, ModelConfig
from clock_attention.speech.voice.voice import Voice
from clock_attention.speech.voice.voice_folder import VoiceError, file_digest
from tests.speech.voices import tiny_voice

TEXT = "The birch canoe."


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    return tiny_voice(tmp_path_factory.mktemp("hostile") / "voice")


@pytest.fixture
def voice(untouched, tmp_path):
    for file in untouched.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def change_card(voice, section, **options):
    card = json.loads((voice / "voice.json").read_text())
    (card[section] if section else card).update(options)
    (voice / "voice.json").write_text(json.dumps(card))


def change_weights(voice, change):
    weights = {name: change(name, tensor) for name, tensor in load_file(voice / "model.safetensors").items()}
    save_file(weights, voice / "model.safetensors")


@pytest.mark.parametrize(
    "option",
    [name for name, field in ModelConfig.model_fields.items() if field.annotation in (int, int | None)],
)
@pytest.mark.parametrize("value", [2**63, 10**30, 1_000_000])
def test_sizes_have_upper_bounds(voice, option, value):
    change_card(voice, "model", **{option: value})
    with pytest.raises(VoiceError, match=option):
        Voice.load(voice)


def test_every_size_of_the_other_model_has_one_too():
    for name, field in AlignedConfig.model_fields.items():
        if field.annotation is int:
            with pytest.raises(ValueError, match=name):
                AlignedConfig.model_validate({"architecture": "aligned", name: 10**7})


def test_shapes_are_compared_before_memory_is_taken(voice, monkeypatch):
    """The largest model that the bounds allow would take more memory than there is."""
    sizes = {"width": 4096, "heads": 64, "encoder_layers": 64, "decoder_layers": 64, "feed_forward": 16384}
    change_card(voice, "model", **sizes)
    taken = []
    empty = torch.nn.Linear.__init__

    def watched(self, *arguments, **options):
        empty(self, *arguments, **options)
        taken.append(self.weight.device.type)

    monkeypatch.setattr(torch.nn.Linear, "__init__", watched)
    with pytest.raises(VoiceError, match="do not belong to the model"):
        Voice.load(voice)
    assert set(taken) == {"meta"}


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        ("language", {"mpr": 1e300}, "mpr"),
        ("language", {"mean": [float("inf")] * 80}, "mean"),
        ("language", {"std": [1e300] * 80}, "none of them exceeds 1000"),
        ("language", {"mel": {"n_mels": 10**9}}, "n_mels"),
        ("language", {"mel": {"hop_length": 4096}}, "hop_length"),
        ("model", {"logit_scale_start": float("inf")}, "logit_scale_start"),
        ("", {"language": None}, "language"),
        ("", {"weights_sha256": 7}, "weights_sha256"),
    ],
)
def test_cards_out_of_all_bounds_are_refused(voice, section, change, message):
    change_card(voice, section, **change)
    with pytest.raises(VoiceError, match=message):
        Voice.load(voice)


def test_a_flipped_bit_in_the_weights_is_noticed(voice):
    change_card(voice, "", weights_sha256=file_digest(voice / "model.safetensors"))
    Voice.load(voice)
    content = bytearray((voice / "model.safetensors").read_bytes())
    content[-5] ^= 1
    (voice / "model.safetensors").write_bytes(content)
    with pytest.raises(VoiceError, match="check sum"):
        Voice.load(voice)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64, torch.float8_e4m3fn])
def test_weights_are_floating_point_numbers(voice, dtype):
    change_weights(voice, lambda name, tensor: tensor.to(dtype) if name == "output.bias" else tensor)
    with pytest.raises(VoiceError, match=r"output.bias holds torch\."):
        Voice.load(voice)


def test_implausible_output_raises_a_warning(voice):
    change_weights(voice, lambda name, tensor: tensor * 1e4 if name.startswith("output.") else tensor)
    with pytest.warns(UserWarning, match="far outside of any speech"):
        Voice.load(voice).utter([TEXT])
    change_weights(voice, lambda name, tensor: tensor * 1e38 if name.startswith("output.") else tensor)
    with pytest.raises(ValueError, match=r"not finite|holds values"):
        Voice.load(voice).utter([TEXT])


@pytest.mark.parametrize("bias", [1e3, 1e30, -1e30])
def test_a_length_model_gone_mad_asks_for_a_bounded_number_of_frames(voice, bias):
    change_weights(voice, lambda name, tensor: tensor + bias if name == "length.outer.bias" else tensor)
    loaded = Voice.load(voice)
    utterance = loaded.utter(["One."])[0]
    assert 1 <= len(utterance.mel) <= 100 * len(utterance.phonemes)


def test_halves_of_pairs_in_a_text_do_not_reach_a_file(untouched, tmp_path):
    speech = Voice.load(untouched).speak("One \ud800 two\udfff.", vocoder="griffin-lim")
    for suffix in ("TextGrid", "json", "srt"):
        speech.save_timestamps(tmp_path / f"x.{suffix}")
