"""Remove markup (tags, entities, Markdown) from pasted text, and extract pronunciations in brackets.

`[Siobhan](/ʃɪˈvɔːn/)` is the word Siobhan with its pronunciation in IPA; `[guide](https://…)` is just its text.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from itertools import pairwise

from clock_attention.speech.text.tokens import word_set

# Tags that separate lines or paragraphs; all other known tags are simply removed.
PARAGRAPH_TAGS = word_set("p h1 h2 h3 h4 h5 h6 blockquote ul ol table section article header footer title")
LINE_TAGS = word_set("br div li tr dt dd hr pre option figcaption")
INLINE_TAGS = word_set(
    "a abbr audio b bdi big body button center cite code data del details dfn em figure font form head html i img "
    "input ins kbd label link main mark meta nav q s samp script small span strike strong style sub summary sup "
    "svg tbody td tfoot th thead time tt u var video wbr speak prosody emphasis break phoneme say-as voice w lang"
)
SKIPPED_TAGS = ("script", "style")  # with their content
LONGEST_TAG = 500
RE_MARKUP = re.compile(
    rf"<!--|</?(?P<tag>[A-Za-z][A-Za-z0-9:-]{{0,20}})(?:\s[^<>]{{0,{LONGEST_TAG}}})?/?>"
    r"|<(?P<angle>[^\s<>]{1,100})>"
    r"|!?\[(?P<label>[^\[\]\n]{1,200})\]\((?:/(?P<ipa>[^/()\n]{1,100})/|[^()\s]{0,500})\)"
    r"|&(?P<entity>#?\w{1,20});"
)
RE_LINE_START = re.compile(r"^[ \t]{0,20}(?:#{1,6}|[-*+•>])[ \t]+", re.MULTILINE)
NARROWEST, WIDEST = 55, 110  # columns of text that an editor has hard-wrapped


@dataclass(frozen=True)
class Pronunciation:
    """An IPA transcription given in the markup for a span of the text."""

    start: int
    end: int
    ipa: str


def without_markup(text: str) -> tuple[str, list[Pronunciation]]:
    """A text without its markup, and the pronunciations given in the markup."""
    pieces: list[str] = []
    pronunciations: list[Pronunciation] = []
    written = reached = 0
    unclosed: set[str] = set()  # closing marks known to be missing: each is searched for once
    text = RE_LINE_START.sub("", unwrapped(text))
    for match in RE_MARKUP.finditer(text):
        if match.start() < reached:
            continue  # inside skipped markup
        piece, end = replacement(match, unclosed)
        if piece is None:
            continue
        before = text[reached : match.start()]
        written += len(before)
        if match["ipa"]:
            pronunciations.append(Pronunciation(written, written + len(piece), match["ipa"]))
        pieces += [before, piece]
        written += len(piece)
        reached = end
    pieces.append(text[reached:])
    return "".join(pieces), pronunciations


def replacement(match: re.Match[str], unclosed: set[str]) -> tuple[str | None, int]:
    """The replacement for a match of markup (None if it is not markup), and where the text continues."""
    text, tag = match.string, (match["tag"] or "").lower()
    if match["label"]:
        return match["label"], match.end()
    if match["entity"]:
        return html.unescape(match.group()), match.end()
    if match["angle"]:
        return match["angle"], match.end()
    closing = "-->" if not tag else f"</{tag}>" if tag in SKIPPED_TAGS else ""
    if closing and closing not in unclosed:
        end = text.find(closing, match.end())
        if end >= 0:
            return " ", end + len(closing)
        unclosed.add(closing)
    if not tag:
        return None, match.end()
    if tag in PARAGRAPH_TAGS:
        return "\n\n", match.end()
    if tag in LINE_TAGS:
        return "\n", match.end()
    if tag in INLINE_TAGS or ":" in tag or "-" in tag or match.group().startswith("</"):
        return "", match.end()
    inner = match.group()[1:-1]  # Dear <name>
    return (inner if inner.isalpha() else None), match.end()


def unwrapped(text: str) -> str:
    """Join the hard-wrapped lines of pasted text.

    Two lines are joined if the second begins in lower case, or if its first word would not have fitted on the first.
    """
    if "\n" not in text:
        return text
    paragraphs = re.split(r"(\n[ \t]*(?:\n[ \t]*)+)", text)
    return "".join(paragraph if place % 2 else joined_lines(paragraph) for place, paragraph in enumerate(paragraphs))


def joined_lines(paragraph: str) -> str:
    """Join the hard-wrapped lines of one paragraph of pasted text."""
    lines = paragraph.split("\n")
    width = max(map(len, lines))
    wrapped = len(lines) > 1 and NARROWEST <= width <= WIDEST
    joined = lines[:1]
    for previous, line in pairwise(lines):
        first = line.strip().partition(" ")[0]
        soft = first[:1].islower() or (wrapped and len(previous.rstrip()) + 1 + len(first) > width)
        joined += [" " if soft and first and previous.strip() else "\n", line]
    return "".join(joined)
