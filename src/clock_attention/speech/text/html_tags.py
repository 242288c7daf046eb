"""Split HTML and XML documents, as found in books, into tags and text.

Lenient like `html.parser`, but in linear time for any input: that parser looks for the end of each unclosed
comment, tag or section again and again, so that a small file can keep it busy for hours.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

MOST_QUOTED = 1000  # quoted values in one tag
UNQUOTED = r"[^<>\"']*"
RE_MARK = re.compile(
    r"<!--|<!\[CDATA\[|<\?"
    r"|<![A-Za-z][^\[<>]{0,2000}(?:\[[^\]]{0,5000}\]\s{0,100})?>"
    r"|<(?P<end>/?)(?P<name>[A-Za-z_][\w:.-]{0,100})(?=[\s/>])"
    rf"(?P<attributes>{UNQUOTED}(?:(?:\"[^\"<]*\"|'[^'<]*'){UNQUOTED}){{0,{MOST_QUOTED}}})>"
)
CLOSINGS = {"<!--": "-->", "<![CDATA[": "]]>", "<?": ">"}
RAW = {name: re.compile(rf"</{name}(?=[\s/>])", re.I) for name in ("script", "style")}  # no tags inside
RE_ATTRIBUTE = re.compile(r"([\w:.-]{1,100})\s{0,100}=\s{0,100}(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'<>]{1,1000}))")
RE_LONG_REFERENCE = re.compile(r"&#(?:[0-9]{10,}|[xX][0-9a-fA-F]{10,});?")


@dataclass(frozen=True)
class Tag:
    """A tag of an HTML document: a start tag, an end tag (`end`), or both in one (`empty`)."""

    name: str  # in lower case
    end: bool = False
    empty: bool = False
    written: str = ""  # its attributes

    @property
    def attributes(self) -> dict[str, str]:
        found = RE_ATTRIBUTE.finditer(self.written)
        return {match[1].lower(): unescape(match[2] or match[3] or match[4] or "") for match in found}


def tags_and_text(content: str) -> Iterator[Tag | str]:
    """Tags and text of an HTML document, in order. Comments, instructions and declarations are left out."""
    reached = 0
    unclosed: set[str] = set()  # closing marks known to be missing: each is searched for once
    place = 0
    while (match := RE_MARK.search(content, place)) is not None:
        place, name = match.end(), (match["name"] or "").lower()
        closing = CLOSINGS.get(match.group())
        stop = match.end()
        if closing is not None:
            stop = -1 if closing in unclosed else content.find(closing, match.end())
            if stop < 0:  # not a comment then, but text
                unclosed.add(closing)
                continue
            stop += len(closing)
        if match.start() > reached:
            yield unescape(content[reached : match.start()])
        if closing == "]]>":
            yield content[match.end() : stop - len(closing)]
        tag = Tag(name, bool(match["end"]), (match["attributes"] or "").endswith("/"), match["attributes"] or "")
        if name:
            yield tag
        if name in RAW and not tag.end and not tag.empty:
            found = RAW[name].search(content, stop)
            stop = len(content) if found is None else found.start()
        reached = place = stop
    if reached < len(content):
        yield unescape(content[reached:])


def unescape(text: str) -> str:
    """`html.unescape` for untrusted text: a character reference with too many digits becomes one unknown character."""
    return html.unescape(RE_LONG_REFERENCE.sub("\ufffd", text))
