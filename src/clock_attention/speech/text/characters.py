"""Map any characters to the ones that the reader knows, each with its position in the original.

Typographic quotes, spaces and dashes become their plain forms; letters keep their accents, for the lexicon, until
`fold` removes them; characters that are not read aloud (emoji, other scripts, control characters) are dropped and
reported.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

PLAIN = {
    **dict.fromkeys("‘’‚‛′ʼ´ʻ", "'"),
    **dict.fromkeys("“”„‟″«»`", '"'),
    **dict.fromkeys("‐‑‒−﹣－", "-"),
    **dict.fromkeys("―⸺", "—"),
    **dict.fromkeys("\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", "\n"),
    **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad\ufe0e\ufe0f", ""),  # invisible: no space either
    **dict.fromkeys("⟨〈⟪", "("),
    **dict.fromkeys("⟩〉⟫", ")"),
    **dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True)),
    "⁄": "/",
    "∕": "/",
    "∙": "·",
    "μ": "µ",
    "\r": " ",
}
# Symbols with a reading, besides letters, digits and ASCII punctuation.
KNOWN = frozenset("–—…×÷±≤≥≠≈√∞→µ°§¶©®™¢£€¥₹₩⁰¹²³⁴⁵⁶⁷⁸⁹⁻½¼¾⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞•·" + "'\"()[]{}<>.,;:!?-/\\&%$#@+=~*^_|\n ")
FOLDED = {
    "æ": "ae",
    "Æ": "Ae",
    "œ": "oe",
    "Œ": "Oe",
    "ø": "o",
    "Ø": "O",
    "ß": "ss",
    "ẞ": "SS",
    "ð": "th",
    "Ð": "Th",
    "þ": "th",
    "Þ": "Th",
    "ł": "l",
    "Ł": "L",
    "đ": "d",
    "Đ": "D",
    "ħ": "h",
    "Ħ": "H",
    "ı": "i",
}
RE_PLAIN = re.compile(r"[\n -_a-z{|}~]*")  # ASCII without control characters and the backquote


@dataclass(frozen=True)
class Plain:
    """Plain characters of a text, the position of each in the original, and the dropped characters (once each)."""

    text: str
    origin: Sequence[int] = field(repr=False)
    dropped: str


@lru_cache(maxsize=4096)
def plain_form(character: str) -> str | None:
    """Plain characters that replace one character; None if there are none."""
    if character in PLAIN:
        return PLAIN[character]
    if character.isascii() and character.isalnum():
        return character
    if character in KNOWN:
        return character
    if character.isspace():
        return " "
    name = unicodedata.name(character, "")
    if name.startswith(("GREEK SMALL LETTER ", "GREEK CAPITAL LETTER ")) and " WITH " not in name:
        return character
    compatible = unicodedata.normalize("NFKC", character).replace("⁄", "/")
    if compatible != character and all((c.isascii() and c.isprintable()) or c in KNOWN for c in compatible):
        return compatible
    if character.isalpha() and (character in FOLDED or fold(character) != ""):
        return character
    return "" if unicodedata.combining(character) else None


def plain(text: str) -> Plain:
    """Reduce a text to the characters that the tokenizer knows. `origin` refers to `text` in composed form (NFC)."""
    if RE_PLAIN.fullmatch(text):
        return Plain(text, range(len(text)), "")
    characters: list[str] = []
    origin: list[int] = []
    dropped: dict[str, None] = {}
    for place, character in enumerate(text):
        form = plain_form(character)
        if form is None:
            dropped[character] = None
            form = " "
        characters.append(form)
        origin += [place] * len(form)
    return Plain("".join(characters), origin, "".join(dropped))


def composed(text: str) -> str:
    r"""Convert characters to Unicode's composed form, in which a letter and its accent are one; line ends become \n."""
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n"))


def fold(word: str) -> str:
    """Characters of a word as ASCII letters: accents removed, ligatures expanded, other scripts dropped."""
    if word.isascii():
        return word
    spelled = "".join(FOLDED.get(character, character) for character in word)
    return "".join(
        character for character in unicodedata.normalize("NFKD", spelled) if character.isascii() and character != " "
    )
