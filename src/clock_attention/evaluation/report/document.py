"""Reports as documents of headings, tables, pictures and audio: Markdown, or one self-contained HTML file."""

from __future__ import annotations

import base64
import html
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clock_attention.files import write_atomically

Cells = list[list[str]]  # rows of a table, starting with the header
NUMBER = re.compile(r"[-+]?\d")


@dataclass(frozen=True)
class Heading:
    """A heading of a report."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Picture:
    """A picture in a document."""

    path: Path
    caption: str


@dataclass(frozen=True)
class AudioSamples:
    """Audio samples in a document, each with a title."""

    caption: str
    recordings: tuple[tuple[str, Path], ...]


ReportPart = str | Cells | Heading | Picture | AudioSamples

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.9rem; display: block; overflow-x: auto; }
th, td { padding: 0.3rem 0.7rem; border-bottom: 1px solid #ddd; text-align: left; }
.number { text-align: right; white-space: nowrap; }
img { max-width: 100%; } figcaption { color: #555; } audio { height: 2rem; }
"""


def numeric(cells: Cells) -> list[bool]:
    """Which columns of a document's table contain numbers, and are therefore right-aligned."""
    columns = zip(*cells[1:], strict=True)
    found = [all(NUMBER.match(cell) for cell in column if cell) and any(column) for column in columns]
    return found or [False] * len(cells[0])


def markdown_table(cells: Cells) -> str:
    """A table of a document as Markdown."""
    header, *rows = cells
    lines = [header, ["---:" if right else "---" for right in numeric(cells)], *rows]
    return "".join("| " + " | ".join(map(in_one_line, line)) + " |\n" for line in lines)


def in_one_line(cell: str) -> str:
    """A cell of a document's table as Markdown, where a line end or a `|` would end the cell."""
    return " ".join(cell.splitlines()).replace("|", "\\|")


def to_markdown(parts: Sequence[ReportPart], folder: Path) -> str:
    """A document as Markdown. Pictures and audio samples are links relative to `folder`."""
    return "\n".join(markdown_of(part, folder) for part in parts)


def markdown_of(part: ReportPart, folder: Path) -> str:
    """One part of a document as Markdown."""
    if isinstance(part, str):
        return f"{part}\n"
    if isinstance(part, Heading):
        return f"{'#' * part.level} {part.text}\n"
    if isinstance(part, Picture):
        return f"![{part.caption}]({link(part.path, folder)})\n\n*{part.caption}*\n"
    if isinstance(part, AudioSamples):
        recordings = "".join(f"- [{title}]({link(path, folder)})\n" for title, path in part.recordings)
        return f"{part.caption}\n\n{recordings}"
    return markdown_table(part)


def link(path: Path, folder: Path) -> str:
    """Relative link from a Markdown document in `folder` to a file."""
    return Path(os.path.relpath(path, folder)).as_posix().replace(" ", "%20")


def to_html(parts: Sequence[ReportPart], title: str) -> str:
    """A document as one self-contained HTML file; no network access, no scripts."""
    body = "\n".join(map(html_of, parts))
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def html_of(part: ReportPart) -> str:
    """One part of a document as HTML."""
    if isinstance(part, str):
        return f"<p>{html.escape(part)}</p>"
    if isinstance(part, Heading):
        return f"<h{part.level}>{html.escape(part.text)}</h{part.level}>"
    if isinstance(part, Picture):
        caption = html.escape(part.caption)
        image = f'<img alt="{caption}" src="{embedded(part.path)}">'
        return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
    if isinstance(part, AudioSamples):
        rows = [
            f'<tr><td>{html.escape(title)}</td><td><audio controls src="{embedded(path)}"></audio></td></tr>'
            for title, path in part.recordings
        ]
        return f"<p>{html.escape(part.caption)}</p>\n<table>{''.join(rows)}</table>"
    header, *body = part
    kinds = [' class="number"' if right else "" for right in numeric(part)]
    rows = ["".join(f"<th{kind}>{html.escape(cell)}</th>" for kind, cell in zip(kinds, header, strict=True))]
    rows += [
        "".join(f"<td{kind}>{html.escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) for row in body
    ]
    return "<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


TYPES = {".png": "image/png", ".flac": "audio/flac", ".wav": "audio/wav"}


def embedded(path: Path) -> str:
    """Data URL that embeds a file in an HTML document."""
    return f"data:{TYPES[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"


def write_page(parts: Sequence[ReportPart], folder: Path, title: str, name: str = "report") -> tuple[Path, Path]:
    """Write a document as report.md and report.html."""
    folder.mkdir(parents=True, exist_ok=True)
    markdown, page = folder / f"{name}.md", folder / f"{name}.html"
    write_atomically(markdown, to_markdown(parts, folder))
    write_atomically(page, to_html(parts, title))
    return markdown, page
