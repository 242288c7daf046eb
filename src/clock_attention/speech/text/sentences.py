"""Text → sentences of tokens: the front end that every phonemizer shares.

Markup is removed, characters are made plain, the lexicon and the rules read each token, and sentences end where a
reader would stop: at stops that are not part of an abbreviation, and at the ends of lines and paragraphs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clock_attention.speech.text.characters import composed, plain
from clock_attention.speech.text.lexicon import Lexicon, built_in
from clock_attention.speech.text.markup import without_markup
from clock_attention.speech.text.rules import RULES
from clock_attention.speech.text.tokens import Kind, Token, scan


@dataclass(frozen=True)
class Sentence:
    """A sentence as written, without markup, and its tokens."""

    text: str
    tokens: tuple[Token, ...]
    ends_paragraph: bool = False  # a longer pause follows
    dropped: str = ""  # characters that are not read aloud

    @property
    def spoken(self) -> str:
        """The words that are said, with the marks at which the reader pauses."""
        return " ".join(token.spoken for token in self.tokens if token.spoken and token.kind != Kind.BREAK)

    @property
    def has_words(self) -> bool:
        return any(token.spoken and token.kind not in (Kind.MARK, Kind.BREAK) for token in self.tokens)


def tokenize(text: str, lexicon: Lexicon | None = None) -> tuple[list[Token], str, Sequence[int], str]:
    """(tokens, the text without markup, for each plain character its place in it, dropped characters)."""
    shown, pronunciations = without_markup(composed(text))
    readable = plain(shown)
    fixed = []
    for given in pronunciations:
        start, end = (bisect_left(readable.origin, place) for place in (given.start, given.end))
        word = shown[given.start : given.end]
        fixed.append(Token(Kind.WORD, word, word, start, end, pronunciation=given.ipa))
    tokens = list(scan(readable.text, RULES, (lexicon or built_in()).find, fixed))
    return tokens, shown, readable.origin, readable.dropped


def sentences(text: str, lexicon: Lexicon | None = None) -> list[Sentence]:
    """The sentences of a text; those without a word are joined to the one before, or left out."""
    tokens, shown, origin, dropped = tokenize(text, lexicon)
    origin = [*origin, len(shown)]
    found: list[Sentence] = []
    for group in grouped(tokens):
        start, end = origin[group[0].start], origin[group[-1].end - 1] + 1 if group[-1].end else 0
        words = [token for token in group if token.kind != Kind.BREAK]
        paragraph = group[-1].kind == Kind.BREAK and group[-1].spoken == "\n\n"
        sentence = Sentence(" ".join(shown[start:end].split()), tuple(words), paragraph, dropped)
        if sentence.has_words:
            found.append(sentence)
        elif paragraph and found:
            found[-1] = Sentence(found[-1].text, found[-1].tokens, True, dropped)
    return found


def grouped(tokens: list[Token]) -> Iterator[list[Token]]:
    group: list[Token] = []
    for token in tokens:
        group.append(token)
        if token.ends_sentence:
            yield group
            group = []
    if group:
        yield group
