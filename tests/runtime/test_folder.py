"""The card of an exported voice."""

import json

import pytest

from clock_attention.runtime.folder import CARD, MOST_BYTES, RuntimeVoiceError, read_card

GOOD = {
    "format": 1,
    "symbols": ["a", "b"],
    "phonemizer": "hibari",
    "mpr": 6.0,
    "sample_rate": 22050,
    "hop_length": 256,
    "log_floor": 1e-5,
    "pitch_std": None,
    "longest_phrase": 100,
    "vocoder": "wave",
    "vocoder_context": 3,
    "corpus": "mine",
    "licence": "CC0",
}


def test_a_card_is_read(tmp_path):
    (tmp_path / CARD).write_text(json.dumps(GOOD))
    card = read_card(tmp_path)
    assert (card.symbols, card.hop_length, card.consent) == (("a", "b"), 256, None)
    (tmp_path / CARD).write_text(json.dumps({**GOOD, "consent": "she recorded herself"}))
    assert read_card(tmp_path).consent == "she recorded herself"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps({**GOOD, "format": 2}), "format 2, this version reads 1: export it again"),
        (json.dumps({**GOOD, "mpr": -1}), "mpr is -1, expected 0.01"),
        (json.dumps({**GOOD, "hop_length": True}), "hop_length is True"),
        (json.dumps({**GOOD, "hop_length": float("nan")}), "hop_length is nan"),
        (json.dumps({**GOOD, "vocoder": "horn"}), "vocoder is 'horn', expected 'wave' or 'harmonic'"),
        (json.dumps({**GOOD, "symbols": [1]}), "symbols must be a list of texts"),
        (json.dumps({**GOOD, "more": 1}), "not the description of an exported voice"),
        (json.dumps({key: GOOD[key] for key in GOOD if key != "licence"}), "not the description of an exported voice"),
        ("[" * 100_000, "not the description"),
        ("no json", "not the description"),
        (" " * (MOST_BYTES + 1), "not the description"),
    ],
)
def test_other_cards_are_refused_with_a_message(content, message, tmp_path):
    (tmp_path / CARD).write_text(content)
    with pytest.raises(RuntimeVoiceError, match=message):
        read_card(tmp_path)


def test_a_folder_without_one_says_how_to_make_it(tmp_path):
    with pytest.raises(RuntimeVoiceError, match=r"not an exported voice .*clock-attention export --runtime"):
        read_card(tmp_path)
