"""Phonemes of a text, and the interface of all phonemizers.

A token stream holds the phonemes of each word and exactly one boundary token between two words: a pause (`,` `.` `!`
`?`) where the text has punctuation, otherwise the word boundary ` `. Stress is part of the vowel's token (`ˈɛ`), never
a separate token: so every token except the boundaries has a duration, which is what an alignment needs. Word
boundaries are tokens because they are in the paper: LJSpeech's 24 hours at 6.6 frames per token only add up if word
boundaries and punctuation are counted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from clock_attention.speech.text.characters import composed, plain
from clock_attention.speech.text.lexicon import Lexicon, built_in
from clock_attention.speech.text.sentences import Sentence, sentences
from clock_attention.speech.text.tokens import Token

logger = logging.getLogger(__name__)

WORD_BOUNDARY = " "
# Every mark is read as one of four pauses: rarer ones would be tokens that a small corpus never trains.
PAUSES = {**dict.fromkeys(",;:—…()", ","), ".": ".", "!": "!", "?": "?"}
PAUSE_STRENGTH = {WORD_BOUNDARY: 0, ",": 1, ".": 2, "!": 3, "?": 4}
NO_WORD = -1


@dataclass(frozen=True)
class Phonemes:
    """Phonemes of one text, and for each token the index of the word it belongs to (−1 for boundaries)."""

    tokens: tuple[str, ...]
    word_index: tuple[int, ...]
    words: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Word:
    """A written word and its phonemes: one list per spoken word ("1850" has two)."""

    text: str
    spoken: tuple[tuple[str, ...], ...]


def joined(parts: Iterable[Phonemes]) -> Phonemes:
    """Concatenate the phonemes of several texts: their tokens and words, end to end."""
    tokens: list[str] = []
    word_index: list[int] = []
    words: list[str] = []
    for part in parts:
        tokens += part.tokens
        word_index += [word + len(words) if word != NO_WORD else NO_WORD for word in part.word_index]
        words += part.words
    return Phonemes(tuple(tokens), tuple(word_index), tuple(words))


class Phonemizer(Protocol):
    """The interface of a phonemizer, which reads text deterministically. A token's id is its index in `symbols`."""

    @property
    def name(self) -> str: ...

    @property
    def symbols(self) -> tuple[str, ...]: ...

    def __call__(self, text: str) -> Phonemes:
        """Read a whole text as one utterance."""
        ...

    def sentences(self, text: str) -> list[Sentence]:
        """The sentences of a text, with the phonemizer's lexicon applied."""
        ...

    def read(self, sentence: Sentence) -> Phonemes:
        """Read one sentence."""
        ...

    def units(self, tokens: Sequence[Token]) -> list[Word | str]:
        """Words with their phonemes, and marks, one for each token."""
        ...


class Reader:
    """Base class of all phonemizers: one front end that turns a text into spoken words, and a lexicon.

    The words of `lexicon` take precedence over the built-in names.
    """

    def __init__(self, lexicon: Lexicon | None = None) -> None:
        self.lexicon = built_in().extended(lexicon)

    def sentences(self, text: str) -> list[Sentence]:
        return sentences(text, self.lexicon)

    def __call__(self, text: str) -> Phonemes:
        found = self.sentences(text)
        tokens = [token for sentence in found for token in sentence.tokens]
        return readable(text, found[0].dropped if found else plain(composed(text)).dropped, self.units(tokens))

    def read(self, sentence: Sentence) -> Phonemes:
        return readable(sentence.text, sentence.dropped, self.units(sentence.tokens))

    def units(self, tokens: Sequence[Token]) -> list[Word | str]:
        """Words with their phonemes, and marks, one for each token."""
        raise NotImplementedError


class UnreadableTextError(ValueError):
    """Raised for a text without a single phoneme: nothing in it can be spoken."""


def assemble(units: Iterable[Word | str]) -> Phonemes:
    """Phonemes from words and punctuation marks in order, with one boundary between words and none at the start."""
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


def readable(text: str, dropped: str, units: Iterable[Word | str]) -> Phonemes:
    """Phonemes by `assemble`, with a warning about dropped characters and an error if nothing is left."""
    phonemes = assemble(units)
    if not phonemes.words:
        reason = f"; {dropped!r} cannot be read" if dropped else ""
        raise UnreadableTextError(f"no phonemes in {text!r}{reason}: give at least one English word or number")
    if dropped:
        logger.warning("characters %r in %r are not read aloud and were skipped", dropped, text)
    return phonemes


def token_ids(tokens: Iterable[str], symbols: tuple[str, ...]) -> list[int]:
    """Ids of phoneme tokens: indices into the inventory, which is stored with every corpus and every voice."""
    places = {symbol: place for place, symbol in enumerate(symbols)}
    try:
        return [places[token] for token in tokens]
    except KeyError as unknown:
        raise ValueError(
            f"token {unknown.args[0]!r} is not in the inventory of {len(symbols)} symbols; "
            "use the phonemizer that the corpus or voice was made with"
        ) from None


def stop(mark: str) -> str:
    """Replace a question or exclamation mark by a full stop, for phoneme inventories with two pauses."""
    return "." if mark in ("!", "?") else mark
