"""Lexicons of words with explicit pronunciations: built-in names, a voice's words, the user's words.

A lexicon is a TOML file, `word = "reading"`. A reading between slashes is IPA (`Siobhan = "/ʃɪˈvɔːn/"`); any other is
a respelling, read as ordinary words (`SQL = "sequel"`). A word in lower case matches in any case; one with capitals
matches only as written. The possessive ('s) is handled automatically.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path

from clock_attention.speech.text.characters import composed, fold
from clock_attention.speech.text.ipa import phones
from clock_attention.speech.text.tokens import Kind, Token

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

LARGEST = 5_000_000  # bytes of a file
LONGEST_LINE = 4000  # characters; keys of many parts (a.b.c) take quadratic time to parse
LONGEST_ENTRY = 60  # characters of a word
LONGEST_READING = 200  # characters: every occurrence of the word becomes as long as this
RE_LETTERS = re.compile(rf"[^\W\d_]{{1,{LONGEST_ENTRY}}}(?:['-][^\W\d_]{{1,{LONGEST_ENTRY}}}){{0,3}}")
RE_CHUNK = re.compile(rf"[^\s\"(\[{{<]{{1,{LONGEST_ENTRY}}}")
ACCENT_MATTERS = (
    "Hermès",
    "Jesús",
    "résumé",
    "résumés",
    "rosé",
    "pâté",
    "exposé",
    "passé",
    "à",
)  # a different word without the accent
TRAILING = ".,;:!?…\"')]}>—–-"
RE_RESPELLING = re.compile(r"[^\W\d_][^\W\d_' .-]*(?:[' .-]+[^\W\d_]+)*\.?")


@dataclass(frozen=True)
class Lexicon:
    """A lexicon: a reading for each word, either IPA between slashes or a respelling."""

    entries: Mapping[str, str]

    def extended(self, other: Lexicon | None) -> Lexicon:
        """This lexicon extended by another one, whose words take precedence."""
        return Lexicon({**self.entries, **other.entries}) if other is not None else self

    def reading(self, word: str) -> str | None:
        return self.entries.get(word) or self.entries.get(word.lower())

    @cached_property
    def has_signs(self) -> bool:
        """Whether any word has characters other than letters, such as C# or Node.js."""
        return not all(RE_LETTERS.fullmatch(word) for word in self.entries)

    def find(self, text: str, place: int) -> Token | None:
        """The longest known word that begins at a position in a text."""
        for written in self.candidates(text, place):
            if (reading := self.reading(written)) is not None:
                return token(written, reading, "", place)
            if written.endswith("'s") and (reading := self.reading(written[:-2])) is not None:
                return token(written, reading, "'s", place)
        return None

    def candidates(self, text: str, place: int) -> Iterator[str]:
        if self.has_signs and (chunk := RE_CHUNK.match(text, place)):
            yield chunk.group()
            yield chunk.group().rstrip(TRAILING)
        if letters := RE_LETTERS.match(text, place):
            yield letters.group()
            if "-" in letters.group():
                yield letters.group().partition("-")[0]


def token(written: str, reading: str, suffix: str, place: int) -> Token:
    """A lexicon word as a token with its reading."""
    if reading.startswith("/"):
        ipa = reading.strip("/") + (possessive(reading) if suffix else "")
        return Token(Kind.WORD, written, fold(written), place, place + len(written), pronunciation=ipa)
    return Token(Kind.WORD, written, reading + suffix, place, place + len(written))


def possessive(reading: str) -> str:
    """The sound of a possessive 's after the transcription of a lexicon word."""
    return plural_sound(phones(reading)[-1][-1])


def plural_sound(last: str) -> str:
    """The sound of a final s after the last phone of a lexicon word, as in cats, dogs, horses."""
    if last in ("s", "z", "ʃ", "ʒ", "ʧ", "ʤ"):
        return "ᵻz"
    return "s" if last in ("p", "t", "k", "f", "θ") else "z"


def load_lexicon(path: str | Path) -> Lexicon:
    """Read a lexicon file and check every entry.

    Raises:
        ValueError: if the file cannot be read, or if an entry is not a word or has no reading.
    """
    try:
        with open(path, "rb") as file:
            found = file.read(LARGEST + 1)
        if len(found) > LARGEST:
            raise ValueError(f"lexicon {path}: larger than {LARGEST:,} bytes")
        content = found.decode("utf-8-sig")
    except OSError as error:
        raise ValueError(f"lexicon {path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"lexicon {path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    return parse_lexicon(content, f"lexicon {path}")


def parse_lexicon(content: str, name: str) -> Lexicon:
    """A lexicon from TOML text."""
    if max(map(len, content.split("\n"))) > LONGEST_LINE:
        raise ValueError(f"{name}: a line of more than {LONGEST_LINE} characters; write one entry per line")
    try:
        entries = tomllib.loads(content)
    except (ValueError, RecursionError) as error:  # besides syntax errors: numbers too long, tables too deep
        raise ValueError(
            f'{name}: not TOML ({error}); write one entry per line, Siobhan = "/ʃɪˈvɔːn/", '
            'and words with characters other than A-Z in quotes, "Dvořák" = "/ˈdvɔːrʒɑːk/"'
        ) from None
    checked = {}
    for word, reading in entries.items():
        if not isinstance(reading, str):
            raise ValueError(f"{name}: {word!r} has {reading!r}; expected a reading in quotes")
        checked[composed(word)] = check_entry(word, composed(reading.strip()), name)
    return Lexicon(checked)


def check_entry(word: str, reading: str, name: str) -> str:
    """Return the reading of a lexicon entry, or raise ValueError if the entry is not valid."""
    if not word.strip() or len(word) > LONGEST_ENTRY or any(character.isspace() for character in word):
        raise ValueError(f"{name}: {word!r} is not one word of 1 … {LONGEST_ENTRY} characters without spaces")
    if len(reading) > LONGEST_READING:
        raise ValueError(
            f"{name}: {word!r} has a reading of {len(reading)} characters, at most {LONGEST_READING} are allowed"
        )
    if reading.startswith("/"):
        if len(reading) < 3 or not reading.endswith("/"):
            raise ValueError(f"{name}: {word!r} has {reading!r}; expected IPA between two slashes")
        try:
            phones(reading)
        except ValueError as error:
            raise ValueError(f"{name}: {word!r}: {error}") from None
    elif not RE_RESPELLING.fullmatch(reading):
        raise ValueError(
            f"{name}: {word!r} has {reading!r}; expected IPA between slashes, or words to say instead (letters only)"
        )
    return reading


@cache
def built_in() -> Lexicon:
    """The built-in lexicon: frequent names with misleading spellings, also listed without their accents."""
    content = (files("clock_attention.speech.text") / "names.toml").read_text(encoding="utf-8")
    names = parse_lexicon(content, "built-in lexicon").entries
    without_accents = {fold(name): reading for name, reading in names.items() if name not in ACCENT_MATTERS}
    return Lexicon({**without_accents, **names})
