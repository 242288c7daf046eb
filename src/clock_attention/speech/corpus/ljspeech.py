"""LJSpeech-format folders: `metadata.csv` (`id|text` or `id|text|normalized text`) beside a folder of recordings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from clock_attention.speech.corpus.checks import Recording
from clock_attention.speech.corpus.store import Rejection

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3")


def read_folder(folder: str | Path) -> tuple[list[Recording], list[Rejection]]:
    """Recordings in the order of the metadata, and the rows that cannot be used, each with its reason.

    The third column is used where it is there and not empty. Audio is looked for in `wavs/` and in the folder itself;
    an id may name a sub-folder or carry its suffix. A recording without a file is kept, so that the preparation lists
    it as missing along with everything else.
    """
    folder = Path(folder)
    metadata = folder / "metadata.csv"
    if not metadata.is_file():
        raise FileNotFoundError(
            f"no metadata.csv in {folder}: an LJSpeech-format folder has one, with lines `id|text` or "
            "`id|text|normalized text`, and the recordings as wavs/<id>.wav"
        )
    recordings: dict[str, Recording] = {}
    rejected = []
    for number, line in enumerate(read_utf8(metadata).splitlines(), start=1):
        columns = [column.strip() for column in line.split("|")]
        if columns == [""]:
            continue
        name = columns[0]
        if len(columns) not in (2, 3) or not name:
            detail = f"{len(columns)} columns, expected `id|text` or `id|text|normalized text`: {line[:60]!r}"
            rejected.append(Rejection(name or f"line {number}", "malformed row", f"line {number}: {detail}"))
        elif name in recordings:
            rejected.append(Rejection(name, "duplicate id", f"line {number} repeats an earlier id"))
        else:
            recordings[name] = Recording(name, columns[-1] or columns[1], find_audio(folder, name))
    return list(recordings.values()), rejected


def read_utf8(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 (byte {error.start}): convert it, e.g. with iconv -f latin1 -t utf-8"
        ) from None


def find_audio(folder: Path, name: str) -> str:
    """Path of an utterance's audio file, or "" where there is none."""
    return next((str(path) for path in candidates(folder, name) if path.is_file()), "")


def candidates(folder: Path, name: str) -> Iterator[Path]:
    for place in (folder / "wavs", folder):
        if name.lower().endswith(SUFFIXES):
            yield place / name
        for suffix in SUFFIXES:
            yield place / f"{name}{suffix}"
