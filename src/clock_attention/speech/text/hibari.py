"""hibari's reader as a phonemizer, in its own symbols or in ARPAbet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

from clock_attention.speech.text.characters import fold
from clock_attention.speech.text.ipa import CONSONANTS, REDUCED, STRESSABLE
from clock_attention.speech.text.ipa import phones as ipa_phones
from clock_attention.speech.text.lexicon import Lexicon, plural_sound
from clock_attention.speech.text.phonemes import PAUSES, WORD_BOUNDARY, Reader, Word, stop
from clock_attention.speech.text.tokens import Kind, Token

# Symbols outside the inventory that the unknown-word network can produce.
IPA_SUBSTITUTES = {"a": "ɑ", "y": "i", "ʀ": "ɹ", "ɾ": "T", "ʔ": "t", "g": "ɡ", "r": "ɹ"}
# fmt: off
ARPABET = {
    "b": "B", "d": "D", "f": "F", "h": "HH", "j": "Y", "k": "K", "l": "L", "m": "M", "n": "N", "p": "P", "s": "S",
    "t": "T", "v": "V", "w": "W", "z": "Z", "ð": "DH", "ŋ": "NG", "ɡ": "G", "ɹ": "R", "ʃ": "SH", "ʒ": "ZH",
    "ʤ": "JH", "ʧ": "CH", "θ": "TH", "T": "T",
    "æ": "AE", "ɑ": "AA", "A": "EY", "ɔ": "AO", "W": "AW", "I": "AY", "ɛ": "EH", "ɜ": "ER", "i": "IY", "ɪ": "IH",
    "O": "OW", "Y": "OY", "u": "UW", "ʊ": "UH", "ʌ": "AH", "ə": "AH", "ᵊ": "AH", "ᵻ": "IH", "ɐ": "AH",
}
LETTER_NAMES = {
    letter: ipa_phones(name)[0]
    for letter, name in {
        "A": "ˈA", "B": "bˈi", "C": "sˈi", "D": "dˈi", "E": "ˈi", "F": "ˈɛf", "G": "ʤˈi", "H": "ˈAʧ", "I": "ˈI",
        "J": "ʤˈA",
        "K": "kˈA", "L": "ˈɛl", "M": "ˈɛm", "N": "ˈɛn", "O": "ˈO", "P": "pˈi", "Q": "kjˈu", "R": "ˈɑɹ", "S": "ˈɛs",
        "T": "tˈi", "U": "jˈu", "V": "vˈi", "W": "dˈʌbᵊlju", "X": "ˈɛks", "Y": "wˈI", "Z": "zˈi",
    }.items()
}
# fmt: on
RE_NAMED_LETTERS = re.compile(r"((?:[A-Za-z]\.)+)('?s)?")
WRITTEN_AS = {"etcetera": "etc", "missus": "Mrs"}  # the forms that hibari's lexicon knows
RE_NOT_READ = re.compile(r"[^A-Za-z'.-]")


@cache
def hibari_g2p() -> Any:
    """hibari's reader with its lexicons, loaded once and shared by all phonemizers."""
    from hibari.g2p import G2P

    return G2P()


@lru_cache(maxsize=16)  # the teacher and the phonemizer read the same text one after the other
def hibari_readings(chunks: tuple[str, ...]) -> list[str]:
    """hibari's phonemes for each word and mark of a sentence, phonemized together."""
    if not chunks:
        return []
    readings = [""]
    for token in hibari_g2p().phonemize_tokens(hibari_g2p().tokenize(" ".join(chunks))):
        readings[-1] += " " + (token.phonemes or "")
        if token.whitespace:
            readings.append("")
    return readings


class HibariPhonemizer(Reader):
    """hibari's reader (Apache-2.0): misaki's lexicon, part-of-speech rules and a small network for unknown words.

    It receives words and marks only: numbers, signs and abbreviations are expanded beforehand. Symbols are IPA, with
    the single letters A I O W Y for the diphthongs of "say", "sigh", "so", "how", "boy" and T for the
    American flapped t; 15 vowels carry stress (ˈ primary, ˌ secondary).
    """

    name = "hibari"
    symbols: tuple[str, ...] = (
        *(WORD_BOUNDARY, ",", ".", "!", "?"),
        *CONSONANTS,
        *REDUCED,
        *(stress + vowel for vowel in STRESSABLE for stress in ("", "ˈ", "ˌ")),
    )

    def transcription(self, tokens: Sequence[Token]) -> str:
        """A phoneme string in the format that hibari's own voice expects."""
        written = ""
        for unit in self.units(tokens):
            if isinstance(unit, str):
                written += unit
            else:
                written += " " + " ".join("".join(phones) for phones in unit.spoken)
        return written.strip()

    def units(self, tokens: Sequence[Token]) -> list[Word | str]:
        chunks: list[str] = []
        owners: list[tuple[int, str]] = []  # the token of each chunk, and the spoken word it stands for
        for place, token in enumerate(tokens):
            for word in [token.text] if token.pronunciation else token.spoken.split():
                if token.kind == Kind.MARK and word not in PAUSES:
                    continue
                chunk = word if token.kind == Kind.MARK else as_written(word)
                chunks.append(chunk)
                owners.append((place, word))
        spoken: list[list[tuple[str, ...]]] = [[] for _ in tokens]
        for (place, word), reading in zip(owners, hibari_readings(tuple(chunks)), strict=True):
            if tokens[place].kind != Kind.MARK and not tokens[place].pronunciation:
                spoken[place] += letter_names(word) or [self.phones(part) for part in reading.split()]
        return [
            token.spoken if token.kind == Kind.MARK else Word(token.text, spoken_as(token, readings))
            for token, readings in zip(tokens, spoken, strict=True)
        ]

    def phones(self, transcription: str) -> tuple[str, ...]:
        """Split one spoken word, moving each stress mark onto the vowel that carries it."""
        phones, stress = [], ""
        for character in transcription:
            symbol = IPA_SUBSTITUTES.get(character, character)
            if character in "ˈˌ":
                stress = character
            elif symbol in STRESSABLE:
                phones.append(stress + symbol)
                stress = ""
            elif symbol in CONSONANTS or symbol in REDUCED:
                phones.append(symbol)
                stress = "" if symbol in REDUCED else stress
        return tuple(phones)


def as_written(word: str) -> str:
    """A spoken word in the characters that hibari reads, and in few pieces: its run time is cubic in their number."""
    return WRITTEN_AS.get(word) or RE_NOT_READ.sub("", fold(word)).strip(".-") or "a"


def spoken_as(token: Token, readings: list[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """The pronunciation given for a token, or else hibari's reading of it, for hibari's phonemizer."""
    return ipa_phones(token.pronunciation) if token.pronunciation else tuple(filter(None, readings))


def letter_names(word: str) -> list[tuple[str, ...]]:
    """Letter names for hibari's phonemizer: "F.B.I." → one word, stressed on the last letter; else an empty list."""
    named = RE_NAMED_LETTERS.fullmatch(word)
    if named is None:
        return []
    *head, last = [LETTER_NAMES[letter] for letter in named[1].upper() if letter.isalpha()]
    phones = [phone.replace("ˈ", "ˌ") for name in head for phone in name] + list(last)
    if named[2]:
        phones += plural_sound(phones[-1])
    return [tuple(phones)]


class ArpabetPhonemizer(Reader):
    """hibari's reading in 39 unstressed ARPAbet phonemes; with boundary, pause and stop, the paper's 42 symbols."""

    name = "arpabet"
    # fmt: off
    PHONES = (
        "AA", "AE", "AH", "AO", "AW", "AY", "B", "CH", "D", "DH", "EH", "ER", "EY", "F", "G", "HH", "IH", "IY", "JH",
        "K", "L", "M", "N", "NG", "OW", "OY", "P", "R", "S", "SH", "T", "TH", "UH", "UW", "V", "W", "Y", "Z", "ZH",
    )
    # fmt: on
    symbols: tuple[str, ...] = (WORD_BOUNDARY, ",", ".", *PHONES)

    def __init__(self, lexicon: Lexicon | None = None) -> None:
        super().__init__(lexicon)
        self.reader = HibariPhonemizer(lexicon)

    def units(self, tokens: Sequence[Token]) -> list[Word | str]:
        return [
            stop(unit) if isinstance(unit, str) else Word(unit.text, tuple(self.phones(part) for part in unit.spoken))
            for unit in self.reader.units(tokens)
        ]

    def phones(self, ipa: Iterable[str]) -> tuple[str, ...]:
        """ARPAbet of one spoken word; a schwa and the r after it become the single phoneme ER."""
        phones: list[str] = []
        previous = ""
        for symbol in ipa:
            plain = symbol.lstrip("ˈˌ")
            if plain == "ɹ" and previous in ("ɜ", "ə"):
                phones[-1] = "ER"
            else:
                phones.append(ARPABET[plain])
            previous = plain
        return tuple(phones)
