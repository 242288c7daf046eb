"""Phonemizers that need GPL packages: installed only if the user chooses to, imported only on request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar

from clock_attention.speech.text.characters import fold
from clock_attention.speech.text.hibari import ArpabetPhonemizer, letter_names
from clock_attention.speech.text.ipa import phones as ipa_phones
from clock_attention.speech.text.lexicon import Lexicon
from clock_attention.speech.text.phonemes import WORD_BOUNDARY, Reader, Word, stop
from clock_attention.speech.text.tokens import Kind, Token


class CmudictPhonemizer(Reader):
    """A GPL phonemizer: the CMU dictionary's first entry for each word, without stress, in the symbols of "arpabet".

    A word that is not in the dictionary is read by hibari's lexicon and letter-to-sound network (`ArpabetPhonemizer`).
    There is no context: "read" and "lead" always have their first reading.
    """

    name = "cmudict"
    symbols = ArpabetPhonemizer.symbols

    def __init__(self, lexicon: Lexicon | None = None) -> None:
        super().__init__(lexicon)
        self.entries: dict[str, list[list[str]]] = extra("cmudict", "cmudict").dict()
        self.fallback = ArpabetPhonemizer(lexicon)

    def units(self, tokens: Sequence[Token]) -> list[Word | str]:
        units: list[Word | str] = []
        for token in tokens:
            if token.kind == Kind.MARK:
                units.append(stop(token.spoken))
            elif token.pronunciation:
                units += self.fallback.units([token])
            else:
                units.append(
                    Word(token.text, tuple(part for word in token.spoken.split() for part in self.spoken(word)))
                )
        return units

    def spoken(self, word: str) -> tuple[tuple[str, ...], ...]:
        plain = fold(word).lower()
        entry = self.entries.get(plain) or self.entries.get(plain.strip("'"))
        if entry and not letter_names(word):
            return (tuple(phone.rstrip("012") for phone in entry[0]),)
        return tuple(
            part
            for unit in self.fallback.units([Token(Kind.WORD, word, word, 0, len(word))])
            if isinstance(unit, Word)
            for part in unit.spoken
        )


class EspeakPhonemizer(Reader):
    """A GPL phonemizer: eSpeak NG (American English) through `phonemizer`: IPA, stress on the vowel."""

    name = "espeak"
    # Longer ones first, since the first match wins; espeak's "əl", "aɪɚ" and the like are read as two tokens.
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
    SAME_SOUND: ClassVar = {
        "A": "eɪ", "I": "aɪ", "O": "oʊ", "W": "aʊ", "Y": "ɔɪ", "ʧ": "tʃ", "ʤ": "dʒ", "T": "ɾ", "ᵊ": "ə",
        "i": "iː", "u": "uː", "ɑ": "ɑː", "ɔ": "ɔː", "ɜ": "ɜː",
    }
    # fmt: on
    symbols: tuple[str, ...] = (
        *(WORD_BOUNDARY, ",", ".", "!", "?"),
        *CONSONANTS,
        *REDUCED,
        *(stress + vowel for vowel in VOWELS for stress in ("", "ˈ", "ˌ")),
    )

    @cached_property
    def backend(self) -> Any:
        loader, package = extra("espeakng_loader", "espeak"), extra("phonemizer.backend", "espeak")
        wrapper = extra("phonemizer.backend.espeak.wrapper", "espeak").EspeakWrapper
        wrapper.set_library(loader.get_library_path())
        wrapper.set_data_path(loader.get_data_path())
        return package.EspeakBackend("en-us", with_stress=True, language_switch="remove-flags")

    def units(self, tokens: Sequence[Token]) -> list[Word | str]:
        words = [fold(word) for token in tokens if token.kind != Kind.MARK for word in token.spoken.split()]
        read = dict(zip(words, self.backend.phonemize(words, strip=True), strict=True)) if words else {}
        units: list[Word | str] = []
        for token in tokens:
            if token.kind == Kind.MARK:
                units.append(token.spoken)
            elif token.pronunciation:
                units.append(Word(token.text, tuple(map(self.translated, ipa_phones(token.pronunciation)))))
            else:
                units.append(
                    Word(
                        token.text,
                        tuple(
                            part
                            for word in token.spoken.split()
                            for part in (
                                [self.translated(name) for name in letter_names(word)]
                                or [self.phones(part) for part in read[fold(word)].split()]
                            )
                        ),
                    )
                )
        return units

    def translated(self, phones: Iterable[str]) -> tuple[str, ...]:
        """Phones of the default phonemizer in espeak's symbols."""
        return tuple(
            phone.replace(plain, self.SAME_SOUND.get(plain, plain))
            for phone in phones
            for plain in [phone.lstrip("ˈˌ")]
        )

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
    """Import the GPL package of a phonemizer, or say how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"the {name!r} phonemizer needs a GPL-licensed package that is not installed: "
            f'pip install "clock-attention[{name}]", or use the default phonemizer "hibari"'
        ) from error
