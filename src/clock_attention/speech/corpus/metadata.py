"""Metadata tables of utterances, `id|text|normalized text|speaker` with the last two optional: which rows are usable.

Ids become file names, here and on other machines. They are plain names: no folders, nothing that a file system, a
terminal or a table could misinterpret.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

from clock_attention.files import read_utf8
from clock_attention.speech.corpus.store import Rejection

LONGEST_ID = 200  # bytes; file systems allow 255, and suffixes are added
SIGNS = '<>:"|?*'  # which some file systems refuse
FORBIDDEN = frozenset("/\\" + SIGNS)


def id_fault(name: str) -> str:
    """What is wrong with an id in a metadata table, or an empty string."""
    if not name or name.startswith(".") or name != name.strip():
        return "ids must not be empty, begin with a dot, or begin or end with a space"
    if wrong := [c for c in name if c in FORBIDDEN or unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")]:
        return f"{wrong[0]!a} in an id: ids are plain names, without folders, control characters or {' '.join(SIGNS)}"
    if len(name.encode()) > LONGEST_ID:
        return f"an id of {len(name.encode())} bytes, at most {LONGEST_ID} are allowed"
    return ""


def fitting_id(name: str, spare: int = 12) -> str:
    """An id of a metadata table cut to the allowed length, with `spare` bytes left for a number after it."""
    return name.encode()[: LONGEST_ID - spare].decode(errors="ignore")


def read_table(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Rows of a metadata table: number and columns. Only line feeds end a row: texts may contain other separators."""
    text = read_utf8(path).replace("\r\n", "\n")
    for number, line in enumerate(text.split("\n" if "\n" in text else "\r"), start=1):  # \r: old Macs
        columns = [column.strip() for column in line.split("|")]
        if columns != [""]:
            yield number, columns


def names_speakers(rows: Sequence[tuple[int, list[str]]]) -> bool:
    """Whether a metadata table has a speaker column.

    The first row decides; in later rows, one column more is a stray `|` in a text.
    """
    return bool(rows) and len(rows[0][1]) == 4


def spoken_text(columns: Sequence[str]) -> str:
    """The normalized text of a metadata row if there is one, else the text."""
    return (columns[2] if len(columns) > 2 else "") or columns[1]


def check_row(number: int, columns: list[str], known: set[str], speakers: bool = False) -> Rejection | None:
    """Why a row of a metadata table cannot be used, or None.

    Adds its id to `known`. `speakers`: the table has a speaker column.
    """
    name = columns[0]
    if len(columns) not in ((4,) if speakers else (2, 3)) or not name:
        line = "|".join(columns)
        expected = (
            "`id|text|normalized text|speaker` as above" if speakers else "`id|text` or `id|text|normalized text`"
        )
        detail = f"{len(columns)} columns, expected {expected}: {line[:60]!r}"
        return Rejection(short(name) or f"line {number}", "malformed row", f"line {number}: {detail}")
    if fault := id_fault(name):
        return Rejection(short(name), "bad id", f"line {number}: {fault}")
    if speakers and columns[3] and (fault := id_fault(columns[3])):
        return Rejection(
            name, "bad speaker", f"line {number}: {fault.replace('an id', 'a name').replace('ids', 'names')}"
        )
    if name in known:
        return Rejection(name, "duplicate id", f"line {number} repeats an earlier id")
    known.add(name)
    return None


def short(name: str) -> str:
    """An id of a metadata table, shortened for messages."""
    return name if len(name) <= 60 else name[:60] + "…"
