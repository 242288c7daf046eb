"""Read books as chapters, from plain text (.txt), Markdown (.md) and EPUB (.epub)."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import unquote

from clock_attention.speech.text.characters import composed
from clock_attention.speech.text.html_tags import Tag, tags_and_text
from clock_attention.speech.text.markup import LINE_TAGS, PARAGRAPH_TAGS
from clock_attention.speech.text.tokens import word_set

FORMATS = (".txt", ".md", ".epub")
LARGEST = 200_000_000  # bytes of a file
LARGEST_PART = 20_000_000  # bytes of one document of an EPUB, unpacked
MOST_UNPACKED = 200_000_000  # bytes of all documents together
MOST_PARTS = 10_000
MOST_CHAPTERS = 10_000
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
RE_HEADING = re.compile(r"(#{1,6})[ \t](.{1,400})")
RE_FENCE = re.compile(r"[ \t]{0,3}(```|~~~)")
NUMBER = r"(?:\d{1,4}|[IVXLC]{1,8}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w{3,9}teen|twenty)"
DIVISION = rf"(?:chapter|part|book|letter|act)[ \t]+{NUMBER}\b.{{0,120}}|prologue|epilogue|preface|introduction"
RE_CHAPTER = re.compile(rf"[ \t]*({DIVISION})[ \t]*[.:]?", re.I)
SKIPPED = word_set("script style head svg math noscript template nav")
HEADINGS = ("h1", "h2", "h3")


@dataclass(frozen=True)
class Chapter:
    """A chapter of a book: title and text."""

    title: str
    text: str


def read_book(path: str | Path) -> list[Chapter]:
    """Read a book: the chapters that contain something to read.

    Raises:
        ValueError: if the file cannot be read, is not a book, or is empty.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"{path}: expected a name ending in {', '.join(FORMATS)}")
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"{path}: larger than {LARGEST:,} bytes")
        if suffix == ".epub":
            chapters = list(epub_chapters(path))
        else:
            text = composed(path.read_bytes().decode("utf-8-sig"))
            chapters = list(markdown_chapters(text) if suffix == ".md" else text_chapters(text))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error})") from None
    chapters = [chapter for chapter in chapters if any(map(str.isalnum, chapter.text))]
    if not chapters:
        raise ValueError(f"{path}: there is nothing to read in it")
    return [Chapter(chapter.title or path.stem, chapter.text) for chapter in chapters]


def divided(lines: list[str], titles: dict[int, str]) -> Iterator[Chapter]:
    """Chapters of a book that begin at these lines; text before the first one is a chapter by itself."""
    starts = sorted({0, *titles})
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield Chapter(titles.get(start, ""), "\n".join(lines[start:stop]).strip())


def text_chapters(text: str) -> Iterator[Chapter]:
    """Chapters of a plain-text book, split at lines such as "Chapter 3" or "CHAPTER III. The Storm"."""
    lines = text.split("\n")
    alone = [
        place
        for place, line in enumerate(lines)
        if RE_CHAPTER.fullmatch(line) and (place == 0 or not lines[place - 1].strip())
    ]
    # In a table of contents, titles follow each other with no text in between: the last of them begins the chapter.
    titles = {}
    for place, following in pairwise([*alone, len(lines)]):
        if any(line.strip() for line in lines[place + 1 : following]):
            titles[place] = " ".join(lines[place].split())
    yield from divided(lines, titles)


def markdown_chapters(text: str) -> Iterator[Chapter]:
    """Chapters of a Markdown book, split at the highest heading level that occurs at least twice, or else the highest.

    Code blocks are left out.
    """
    lines: list[str] = []
    headings: list[tuple[int, int, str]] = []  # line, level, title
    fence = ""
    for line in text.split("\n"):
        marker = RE_FENCE.match(line)
        if marker and (not fence or marker[1] == fence):
            fence = "" if fence else marker[1]
            continue
        if fence:
            continue
        if (match := RE_HEADING.fullmatch(line)) and (title := match[2].strip(" \t").rstrip("#").rstrip(" \t")):
            headings.append((len(lines), len(match[1]), title))
        lines.append(line)
    levels = [level for _, level, _ in headings]
    chosen = min((level for level in set(levels) if levels.count(level) > 1), default=min(levels, default=0))
    yield from divided(lines, {place: title for place, level, title in headings if level <= chosen})


@dataclass
class XhtmlText:
    """One XHTML document of an EPUB book as text."""

    pieces: list[str] = field(default_factory=list)
    title: str = ""
    skipped: int = 0
    heading: list[str] | None = None

    @classmethod
    def of(cls, content: str) -> XhtmlText:
        document = cls()
        for part in tags_and_text(content):
            if isinstance(part, str):
                document.write(part)
            elif part.end:
                document.close(part.name)
            else:
                document.open(part.name, part.empty)
        return document

    def open(self, tag: str, empty: bool) -> None:
        self.pieces.append("\n\n" if tag in PARAGRAPH_TAGS else "\n" if tag in LINE_TAGS else "")
        if empty:
            return
        self.skipped += tag in SKIPPED
        if tag in HEADINGS and not self.title:
            self.heading = []

    def close(self, tag: str) -> None:
        self.skipped = max(0, self.skipped - (tag in SKIPPED))
        if tag in HEADINGS and self.heading is not None:
            self.title, self.heading = " ".join("".join(self.heading).split()), None
        self.pieces.append("\n\n" if tag in PARAGRAPH_TAGS else "")

    def write(self, text: str) -> None:
        if self.skipped:
            return
        flat = re.sub(r"\s+", " ", text)
        self.pieces.append(flat)
        if self.heading is not None:
            self.heading.append(flat)

    @property
    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self.pieces).split("\n"))
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


class Elements:
    """The elements of an EPUB book's package document, with their attributes."""

    def __init__(self, content: str) -> None:
        found = (part for part in tags_and_text(content) if isinstance(part, Tag) and not part.end)
        self.found = [(tag.name.rpartition(":")[2], tag.attributes) for tag in found]

    def named(self, tag: str) -> Iterator[dict[str, str]]:
        return (attributes for name, attributes in self.found if name == tag)


def epub_chapters(path: Path) -> Iterator[Chapter]:
    """Chapters of an EPUB book: the documents of its spine, in order, without its table of contents."""
    try:
        with zipfile.ZipFile(path) as book:
            if any(entry.compress_type not in COMPRESSIONS for entry in book.infolist()):
                raise ValueError(f"{path}: compressed in a way that EPUB does not allow")
            sizes = {entry.filename: entry.file_size for entry in book.infolist()}
            if len(sizes) > MOST_PARTS or sum(sizes.values()) > 10 * MOST_UNPACKED:
                raise ValueError(f"{path}: too many or too large parts for a book")
            unpacked = 0

            def part(name: str) -> str:
                nonlocal unpacked
                unpacked += sizes.get(name, 0)
                if sizes.get(name, 0) > LARGEST_PART or unpacked > MOST_UNPACKED:
                    raise ValueError(f"{path}: {name} is larger than a book's part can be")
                with book.open(name) as file:
                    return file.read(LARGEST_PART).decode("utf-8-sig", "replace")

            container = Elements(part("META-INF/container.xml"))
            root = next(container.named("rootfile"), {}).get("full-path", "")
            package = Elements(part(root))
            items = {item.get("id", ""): item for item in package.named("item")}
            spine = list(package.named("itemref"))
            if len(spine) > MOST_CHAPTERS:
                raise ValueError(f"{path}: {len(spine):,} chapters, expected at most {MOST_CHAPTERS:,}")
            for reference in spine:
                item = items.get(reference.get("idref", ""), {})
                if not item or "nav" in item.get("properties", "").split():
                    continue
                document = XhtmlText.of(part(normpath(join(dirname(root), unquote(item.get("href", ""))))))
                yield Chapter(document.title, composed(document.text))
    except (zipfile.BadZipFile, KeyError, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: not a readable EPUB, or damaged ({error})") from None
