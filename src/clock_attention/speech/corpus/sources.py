"""Find the sources of a corpus: an LJSpeech-format folder, or audio files with or without a .txt next to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clock_attention.files import read_utf8, visible_files
from clock_attention.speech.corpus.ljspeech import RejectedRow, plain, read_rows, sound_files
from clock_attention.speech.corpus.metadata import fitting_id
from clock_attention.speech.corpus.recording_checks import missing_audio
from clock_attention.speech.corpus.store import Rejection

KINDS = "wav, flac, ogg, opus, mp3, aiff; with the program ffmpeg m4a, aac, webm and others"
EXPECTED = "each with its text in a .txt of the same name, or a metadata.csv with lines `id|text` beside a folder wavs/"
TABLES = (".csv", ".tsv")
NO_TEXTS = ("readme", "license", "licence", "copying", "notes")  # prefixes of names of other files


@dataclass(frozen=True)
class Source:
    """A source of a corpus: one sound file. Without a text it has to be transcribed."""

    id: str
    path: str
    text: str | None
    fault: str = ""  # why it is left out, instead of being transcribed
    reason: str = "unreadable text"  # the group that the fault belongs to, if there is one


def find_sources(folder: str | Path) -> tuple[list[Source], list[Rejection]]:
    """Sources in a folder: every sound file in it and below; also rows of a table without a file, with their reasons.

    With a metadata.csv the folder has LJSpeech's format. Otherwise the text of a recording is the .txt of the same
    name. Files that cannot be used come last.
    """
    folder = Path(folder)
    if not folder.exists():
        raise FileNotFoundError(f"{folder}: there is no such folder; name the one that your recordings are in")
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder}: is a file; name the folder that your recordings are in")
    if (folder / "metadata.csv").is_file():
        return sources_of_table(folder)
    files = sorted(visible_files(folder))
    audio = sound_files(files)
    texts = TextFiles(files, audio)
    sources: list[Source] = []
    unused: list[Source] = []
    names: set[str] = set()
    stems: dict[str, str] = {}
    for path in audio:
        first = stems.setdefault(path_without_suffix(str(path)), path.name)
        if first != path.name:
            unused.append(in_another_format(path, first))
        else:
            sources.append(source_of(free_id(plain_id(place_in(folder, path)), names), path, texts))
    if not sources:
        raise FileNotFoundError(f"{folder}: no recordings in it; expected sound files ({KINDS}), {EXPECTED}")
    if all(source.text is None and not source.fault for source in sources):
        refuse_lost_texts(folder, [*(path for path in files if path.suffix.lower() in TABLES), *texts.unused()])
    return sources + unused, []


def sources_of_table(folder: Path) -> tuple[list[Source], list[Rejection]]:
    """Sources in an LJSpeech-format folder: the files that its table names, and sound files that it does not name."""
    recordings, rejected = read_rows(folder)
    if len(speakers := sorted({row.speaker for row in recordings})) > 1:
        raise ValueError(
            f"{folder}: metadata.csv names {len(speakers)} speakers ({', '.join(speakers)}), but this makes a voice "
            "of one speaker: use a folder with the rows of one, or prepare and train the corpus step by step"
        )
    missing = [Rejection(row.id, "missing", missing_audio(row.id)) for row in recordings if not row.path]
    sources = [Source(row.id, row.path, row.text) for row in recordings if row.path]
    if not sources:
        first = next(iter([*(row.rejection for row in rejected), *missing]), None)
        why = f"its first row: {first.reason}, {first.detail}" if first else "it is empty"
        raise ValueError(f"{folder}: metadata.csv yields no usable recording; {why}; expected lines `id|text`")
    free = {path.resolve(): path for path in sound_files(visible_files(folder))}  # a link may lead to a used file
    for source in sources:
        free.pop(Path(source.path).resolve(), None)
    faulty, without = sources_of_rejected(folder, rejected, free)
    names = {row.id.casefold() for row in recordings}
    unnamed = unnamed_sources(folder, free.values(), [*sources, *faulty], names)
    return sources + faulty + unnamed, without + missing


def sources_of_rejected(
    folder: Path, rows: Iterable[RejectedRow], free: dict[Path, Path]
) -> tuple[list[Source], list[Rejection]]:
    """Sources whose row in a table cannot be used, and rows without a file. Removes the files from `free`."""
    below: dict[str, Path] = {}  # for ids that are faulty because they name a folder
    for path in free.values():
        if "/" in (place := place_in(folder, path).removeprefix("wavs/")):
            for name in (place, place + path.suffix):
                below.setdefault(plain(name), path)
    sources, without = [], []
    for row in rows:
        named = row.path or below.get(plain(row.name))
        if named and (found := free.pop(Path(named).resolve(), None)):
            sources.append(Source(row.rejection.id, str(found), None, row.rejection.detail, row.rejection.reason))
        else:
            without.append(row.rejection)
    return sources, without


def unnamed_sources(folder: Path, files: Iterable[Path], sources: Iterable[Source], names: set[str]) -> list[Source]:
    """Sources that no row of a table names. `sources` are those with a row, and `names` are ids already taken."""
    stems = {path_without_suffix(source.path): Path(source.path).name for source in sources}
    unnamed = []
    for path in files:
        first = stems.setdefault(path_without_suffix(str(path)), path.name)
        if first != path.name:
            unnamed.append(in_another_format(path, first))
            continue
        near = path.parent in (folder, folder / "wavs")
        fault = (
            "no row of metadata.csv names it" if near else "metadata.csv can only name files next to it and in wavs/"
        )
        name = free_id(plain_id(place_in(folder, path).removeprefix("wavs/")), names)
        unnamed.append(Source(name, str(path), None, fault, "not in metadata.csv"))
    return unnamed


def in_another_format(path: Path, first: str) -> Source:
    """A source that is not used, as one of the same name exists in a better format."""
    fault = f"it has the name of {first}, so it counts as the same recording in another format"
    return Source(path.name, str(path), None, fault, "duplicate id")


def place_in(folder: Path, path: Path) -> str:
    """The path of a source relative to its folder, without the suffix."""
    return path.relative_to(folder).with_suffix("").as_posix()


def path_without_suffix(path: str) -> str:
    """The path of a source without its suffix: a recording may exist in two formats."""
    return str(Path(path).with_suffix(""))


class TextFiles:
    """The .txt files among a folder's sources, and which recording each belongs to."""

    def __init__(self, files: Sequence[Path], audio: Sequence[Path]) -> None:
        self.paths = {path for path in files if path.suffix.lower() == ".txt"}
        self.used = {path for sound in audio for path in texts_of(sound) if path in self.paths}
        self.free: dict[str, Path] = {}
        for path in sorted(self.paths - self.used):
            self.free.setdefault(plain(str(path)), path)

    def beside(self, audio: Path) -> Path | None:
        """The text of a recording: `a.txt` or `a.wav.txt`, or one that differs only in case."""
        for path in texts_of(audio):
            if path in self.paths:
                return path
        for path in texts_of(audio):
            if found := self.free.pop(plain(str(path)), None):
                self.used.add(found)
                return found
        return None

    def unused(self) -> list[Path]:
        """Non-empty .txt files that belong to no recording, except for readmes, licenses and the like."""
        lost = sorted(self.paths - self.used)
        return [path for path in lost if path.stat().st_size and not path.stem.lower().startswith(NO_TEXTS)]


def texts_of(audio: Path) -> tuple[Path, Path]:
    """The possible paths of the text of a source."""
    return audio.with_suffix(".txt"), audio.with_name(f"{audio.name}.txt")


def source_of(name: str, path: Path, texts: TextFiles) -> Source:
    """A source of a corpus with the text next to it, or with the reason why that text cannot be read."""
    beside = texts.beside(path)
    try:
        return Source(name, str(path), (beside and " ".join(read_utf8(beside).split())) or None)
    except (ValueError, OSError) as error:
        return Source(name, str(path), None, fault=str(error))


def refuse_lost_texts(folder: Path, lost: Sequence[Path]) -> None:
    """Refuse sources without any text if there are texts that belong to none: a recognizer would replace them."""
    if lost:
        some = ", ".join(path.relative_to(folder).as_posix() for path in lost[:3])
        raise ValueError(
            f"{folder}: no recording has a text, but there are files that may hold texts: {some}. Expected sound "
            f"files, {EXPECTED}. To have a recognizer transcribe all of them, move those files elsewhere"
        )


def free_id(name: str, names: set[str]) -> str:
    """An id for a source that no other has, ignoring case: "Take 1" and "take_1" are two recordings."""
    found, number = name, 1
    while found.casefold() in names:
        number += 1
        found = f"{name}_{number}"
    names.add(found.casefold())
    return found


def plain_id(name: str) -> str:
    """An id for a source: folders become part of the name; characters that could be misread are replaced."""
    return fitting_id(re.sub(r"[^\w.-]+", "_", name).strip("._")) or "recording"
