"""Sources of a corpus as people have them: an LJSpeech-format folder, or audio files with or without a .txt beside."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from clock_attention.files import read_utf8, visible_files
from clock_attention.speech.audio.sound_reading import FOREIGN
from clock_attention.speech.corpus.ljspeech import SUFFIXES, read_folder
from clock_attention.speech.corpus.metadata import id_fault
from clock_attention.speech.corpus.store import Rejection

AUDIO = frozenset({*SUFFIXES, *FOREIGN, ".opus", ".aiff", ".aif"})


@dataclass(frozen=True)
class Source:
    """A source of a corpus: one sound file. Without a text it has to be transcribed."""

    id: str
    path: str
    text: str | None
    fault: str = ""  # why the text beside it cannot be read; such a recording is left out, not transcribed


def find_sources(folder: str | Path) -> tuple[list[Source], list[Rejection]]:
    """Sources in a folder: all recordings in the order of their names, and what cannot be used, with its reason.

    With a metadata.csv the folder has LJSpeech's format. Otherwise every sound file in it and below counts, and its
    text is the .txt of the same name.
    """
    folder = Path(folder)
    if not folder.exists():
        raise FileNotFoundError(f"{folder}: there is no such folder; name the one that your recordings are in")
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder}: is a file; name the folder that your recordings are in")
    if (folder / "metadata.csv").is_file():
        recordings, rejected = read_folder(folder)
        if len(names := sorted({row.speaker for row in recordings})) > 1:
            raise ValueError(
                f"{folder}: metadata.csv names {len(names)} speakers ({', '.join(names)}), and this makes the voice of "
                "one: take a folder with the rows of one of them, or prepare and train the corpus step by step"
            )
        missing = [Rejection(row.id, "missing", f"no audio file named {row.id}") for row in recordings if not row.path]
        return [Source(row.id, row.path, row.text) for row in recordings if row.path], rejected + missing
    sources, rejected = [], []
    known: set[str] = set()
    for path in sorted(path for path in visible_files(folder) if path.suffix.lower() in AUDIO):
        name = plain_id(path.relative_to(folder).with_suffix("").as_posix())
        if fault := id_fault(name):
            rejected.append(Rejection(name, "bad id", fault))
        elif name in known:
            rejected.append(Rejection(name, "duplicate id", f"{path.name}: another recording has this name"))
        else:
            known.add(name)
            sources.append(source_of(name, path))
    if not sources:
        kinds = " ".join(sorted(AUDIO))
        raise FileNotFoundError(
            f"{folder}: no recordings in it; expected sound files ({kinds}), each with its text in a .txt of the same "
            "name, or a metadata.csv with lines `id|text` beside a folder wavs/"
        )
    return sources, rejected


def source_of(name: str, path: Path) -> Source:
    """A source of a corpus with the text beside it, or with why that text cannot be read."""
    try:
        return Source(name, str(path), text_beside(path))
    except (ValueError, OSError) as error:
        return Source(name, str(path), None, fault=str(error))


def text_beside(path: Path) -> str | None:
    """The text beside a recording, on one line; None where there is none or nothing in it."""
    beside = path.with_suffix(".txt")
    return " ".join(read_utf8(beside).split()) or None if beside.is_file() else None


def plain_id(name: str) -> str:
    """An id for a source: folders become part of the name; what a table or file system could misread is replaced."""
    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "recording"
