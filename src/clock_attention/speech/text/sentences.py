"""Split a text into sentences of tokens: the front end that all phonemizers share.

Markup is removed, characters are made plain, the lexicon and the rules read each token, and sentences end where a
reader would stop: at stops that are not part of an abbreviation, and at the ends of lines and paragraphs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from clock_attention.speech.text.characters import composed, plain
from clock_attention.speech.text.lexicon import Lexicon, built_in
from clock_attention.speech.text.markup import without_markup
from clock_attention.speech.text.rules import RULES
from clock_attention.speech.text.tokens import Kind, Token, scan

LONGEST_READING = 600  # letters phonemized at once; longer sentences are split first, to bound memory


@dataclass(frozen=True)
class Sentence:
    """A sentence as written, without markup, and its tokens."""

    text: str
    tokens: tuple[Token, ...]
    ends_paragraph: bool = False  # a longer pause follows
    dropped: str = ""  # characters that are not read aloud

    @property
    def spoken(self) -> str:
        """The spoken words, with the marks at which the reader pauses."""
        return " ".join(token.spoken for token in self.tokens)


def sentences(text: str, lexicon: Lexicon | None = None) -> list[Sentence]:
    """The sentences of a text. A part without words is shown with the sentence before it."""
    shown, pronunciations = without_markup(composed(text))
    given = []
    for place in pronunciations:
        word = shown[place.start : place.end]
        given.append(Token(Kind.WORD, word, word, place.start, place.end, pronunciation=place.ipa))
    return sentences_of(shown, given, lexicon)


def sentences_of(shown: str, given: Sequence[Token] = (), lexicon: Lexicon | None = None) -> list[Sentence]:
    """The sentences of a composed text without markup.

    `given` are tokens whose reading is known, in order. Their positions refer to `shown`, while those of the tokens in
    the sentences refer to its plain form.
    """
    readable = plain(shown)
    origin, dropped = readable.origin, readable.dropped
    fixed = [
        replace(token, start=bisect_left(origin, token.start), end=bisect_left(origin, token.end)) for token in given
    ]
    tokens = list(scan(readable.text, RULES, (lexicon or built_in()).find, fixed))
    found: list[Sentence] = []
    reached = 0
    for group, last in grouped(tokens):
        end = len(shown) if last else origin[group[-1].end - 1] + 1
        written = " ".join(shown[reached:end].split())
        paragraph = group[-1].kind == Kind.BREAK and group[-1].spoken == "\n\n"
        words = tuple(token for token in group if token.kind != Kind.BREAK and token.spoken)
        if any(token.kind != Kind.MARK for token in words):
            found.append(Sentence(written, words, paragraph, dropped))
            reached = end
        elif found:
            found[-1] = replace(
                found[-1],
                text=f"{found[-1].text} {written}".strip(),
                ends_paragraph=paragraph or found[-1].ends_paragraph,
            )
            reached = end
    return found


def grouped(tokens: list[Token]) -> Iterator[tuple[list[Token], bool]]:
    """Tokens of each sentence, and whether it is the last one of the text."""
    group: list[Token] = []
    for place, token in enumerate(tokens):
        group.append(token)
        if token.ends_sentence or place + 1 == len(tokens):
            yield group, place + 1 == len(tokens)
            group = []


def split_sentences(text: str) -> list[str]:
    """The sentences of a text as written."""
    return [sentence.text for sentence in sentences(text)]


def in_parts(sentence: Sentence, longest: int = LONGEST_READING) -> Iterator[Sentence]:
    """Split a sentence into parts of at most `longest` spoken characters, at punctuation marks if there are any.

    Only a part that is a single token can be longer.
    """
    if len(sentence.spoken) <= longest:
        yield sentence
        return
    part: list[Token] = []
    size = 0
    for token in sentence.tokens:
        if part and size + len(token.spoken) + 1 > longest:
            marks = [place for place, piece in enumerate(part) if piece.kind == Kind.MARK and place + 1 < len(part)]
            cut = marks[-1] + 1 if marks and marks[-1] + 1 > len(part) // 2 else len(part)
            yield shown_part(sentence, part[:cut])
            part = part[cut:]
            size = sum(len(piece.spoken) + 1 for piece in part)
        part.append(token)
        size += len(token.spoken) + 1
    yield shown_part(sentence, part, sentence.ends_paragraph)


def shown_part(sentence: Sentence, tokens: list[Token], ends_paragraph: bool = False) -> Sentence:
    """A part of a sentence: some of its tokens, with their written text."""
    written = ""
    for token in tokens:
        written += token.text if token.kind == Kind.MARK else f" {token.text}"
    return Sentence(written.strip(), tuple(tokens), ends_paragraph, sentence.dropped)
