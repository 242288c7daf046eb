"""hibari's reader as a phonemizer, in its own symbols or in ARPAbet."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

from clock_attention.speech.text.cleaning import normalize
from clock_attention.speech.text.phonemes import PAUSES, WORD_BOUNDARY, Phonemes, Word, readable, stop

# What the unknown-word network can write besides the inventory.
IPA_SUBSTITUTES = {"a": "ɑ", "y": "i", "ʀ": "ɹ", "ɾ": "T", "ʔ": "t", "g": "ɡ", "r": "ɹ"}
# fmt: off
ARPABET = {
    "b": "B", "d": "D", "f": "F", "h": "HH", "j": "Y", "k": "K", "l": "L", "m": "M", "n": "N", "p": "P", "s": "S",
    "t": "T", "v": "V", "w": "W", "z": "Z", "ð": "DH", "ŋ": "NG", "ɡ": "G", "ɹ": "R", "ʃ": "SH", "ʒ": "ZH",
    "ʤ": "JH", "ʧ": "CH", "θ": "TH", "T": "T",
    "æ": "AE", "ɑ": "AA", "A": "EY", "ɔ": "AO", "W": "AW", "I": "AY", "ɛ": "EH", "ɜ": "ER", "i": "IY", "ɪ": "IH",
    "O": "OW", "Y": "OY", "u": "UW", "ʊ": "UH", "ʌ": "AH", "ə": "AH", "ᵊ": "AH", "ᵻ": "IH", "ɐ": "AH",
}
# fmt: on


@cache
def hibari_g2p() -> Any:
    """hibari's reader, with its lexicons: loaded once, however many phonemizers there are."""
    from hibari.g2p import G2P

    return G2P()


@lru_cache(maxsize=16)  # the teacher and the phonemizer read the same text one after the other
def hibari_readings(text: str) -> list[tuple[str, str, bool]]:
    tokens = hibari_g2p().phonemize_tokens(hibari_g2p().tokenize(normalize(text)))
    return [(token.text, token.phonemes or "", bool(token.whitespace)) for token in tokens]


class HibariPhonemizer:
    """hibari's reader (Apache-2.0): misaki's lexicon, part-of-speech rules and a small network for unknown words.

    Symbols are IPA, with the single letters A I O W Y for the diphthongs of "say", "sigh", "so", "how", "boy" and T
    for the American flapped t; 15 vowels carry stress (ˈ primary, ˌ secondary).
    """

    name = "hibari"
    CONSONANTS = tuple("bdfhjklmnpstvwzðŋɡɹʃʒʤʧθT")
    STRESSABLE = tuple("æɑAɔWIɛɜiɪOYuʊʌ")
    REDUCED = tuple("əᵊᵻɐ")
    symbols: tuple[str, ...] = (
        *(WORD_BOUNDARY, ",", ".", "!", "?"),
        *CONSONANTS,
        *REDUCED,
        *(stress + vowel for vowel in STRESSABLE for stress in ("", "ˈ", "ˌ")),
    )

    def __call__(self, text: str) -> Phonemes:
        return readable(text, self.units(text))

    def readings(self, text: str) -> list[tuple[str, str, bool]]:
        """(written token, hibari's phonemes, whether a space follows), in order."""
        return hibari_readings(text)

    def transcription(self, text: str) -> str:
        """hibari's own phoneme string, which is what its voice wants to be given."""
        return "".join(phonemes + (" " if space else "") for _, phonemes, space in self.readings(text)).strip()

    def units(self, text: str) -> list[Word | str]:
        units: list[Word | str] = []
        prefix = ""  # a currency sign is read with the number after it
        for written, phonemes, space in self.readings(text):
            marks = [character for character in phonemes if character in PAUSES]
            spoken = tuple(phones for part in phonemes.split() if (phones := self.phones(part)))
            if spoken:
                units.append(Word(prefix + written.strip('"'), spoken))
            units.extend(marks)
            prefix = written if not phonemes and not space and written in "$£€" else ""
            if space:
                units.append(WORD_BOUNDARY)
        return units

    def phones(self, transcription: str) -> tuple[str, ...]:
        """Split one spoken word, moving each stress mark onto the vowel that carries it."""
        phones, stress = [], ""
        for character in transcription:
            symbol = IPA_SUBSTITUTES.get(character, character)
            if character in "ˈˌ":
                stress = character
            elif symbol in self.STRESSABLE:
                phones.append(stress + symbol)
                stress = ""
            elif symbol in self.CONSONANTS or symbol in self.REDUCED:
                phones.append(symbol)
                stress = "" if symbol in self.REDUCED else stress
        return tuple(phones)


class ArpabetPhonemizer:
    """hibari's reading in 39 unstressed ARPAbet phonemes; with boundary, pause and stop, the paper's 42 symbols."""

    name = "arpabet"
    # fmt: off
    PHONES = (
        "AA", "AE", "AH", "AO", "AW", "AY", "B", "CH", "D", "DH", "EH", "ER", "EY", "F", "G", "HH", "IH", "IY", "JH",
        "K", "L", "M", "N", "NG", "OW", "OY", "P", "R", "S", "SH", "T", "TH", "UH", "UW", "V", "W", "Y", "Z", "ZH",
    )
    # fmt: on
    symbols: tuple[str, ...] = (WORD_BOUNDARY, ",", ".", *PHONES)

    def __init__(self) -> None:
        self.reader = HibariPhonemizer()

    def __call__(self, text: str) -> Phonemes:
        return readable(text, self.units(text))

    def units(self, text: str) -> list[Word | str]:
        return [
            stop(unit) if isinstance(unit, str) else Word(unit.text, tuple(self.phones(part) for part in unit.spoken))
            for unit in self.reader.units(text)
        ]

    def phones(self, ipa: Iterable[str]) -> tuple[str, ...]:
        """ARPAbet of one spoken word; a schwa and the r after it are the single phoneme ER."""
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
