"""LJSpeech-format folders: `metadata.csv` (`id|text|normalized text|speaker`) next to a folder of recordings."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clock_attention.speech.audio.sound_reading import FOREIGN
from clock_attention.speech.corpus.metadata import check_row, names_speakers, read_table, spoken_text
from clock_attention.speech.corpus.recording_checks import Recording
from clock_attention.speech.corpus.store import Rejection

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3", ".opus", ".oga", ".aiff", ".aif", ".w64")  # best first
AUDIO = (*SUFFIXES, *sorted(FOREIGN))
HEADERS = {"text", "transcript", "transcription", "sentence"}


@dataclass(frozen=True)
class RejectedRow:
    """A row of an LJSpeech-format table that cannot be used. `path` is empty if no sound file has its name."""

    name: str  # the first column, whatever it contains
    path: str
    rejection: Rejection


def read_folder(folder: str | Path, speaker: str = "") -> tuple[list[Recording], list[Rejection]]:
    """Recordings of an LJSpeech-format folder in the order of the metadata, and unusable rows with their reasons.

    The third column is used if it is present and not empty. A fourth column names the speaker of each recording; if it
    is empty or missing, the speaker is `speaker`. Audio is looked for in `wavs/` and in the folder itself;
    an id is a plain name, with or without `wavs/` and the suffix of its file. A recording without a file is kept, so
    that the preparation lists it as missing along with all other rejections. A header row is skipped; if it calls
    the third column the speaker, as in `audio_file|text|speaker_name`, there is no normalized text.
    """
    recordings, rejected = read_rows(folder, speaker)
    return recordings, [row.rejection for row in rejected]


def read_rows(folder: str | Path, speaker: str = "") -> tuple[list[Recording], list[RejectedRow]]:
    """Rows of an LJSpeech-format table as in `read_folder`; unusable ones come with their files."""
    folder = Path(folder)
    metadata = folder / "metadata.csv"
    if not metadata.is_file():
        raise FileNotFoundError(
            f"no metadata.csv in {folder}: an LJSpeech-format folder has one, with lines `id|text` or "
            "`id|text|normalized text`, and the recordings as wavs/<id>.wav"
        )
    recordings: list[Recording] = []
    rejected: list[RejectedRow] = []
    known = set[str]()
    rows = list(read_table(metadata))
    for _, columns in rows:
        columns[0] = columns[0].removeprefix("wavs/")
    files = AudioFiles(folder).match(columns[0] for _, columns in rows)
    if rows and is_header(rows[0][1]) and rows[0][1][0] not in files:
        _, header = rows.pop(0)
        if len(header) == 3 and header[2].casefold().startswith("speaker"):
            rows = [(number, [*columns[:2], "", *columns[2:]]) for number, columns in rows]
    several = names_speakers(rows)
    for number, columns in rows:
        name, who = columns[0], columns[3] if len(columns) == 4 and columns[3] else speaker
        path, rejection = files.get(name, ""), check_row(number, columns, known, several)
        if rejection is None and several and not who:
            rejection = Rejection(name, "no speaker", f"line {number}: its fourth column is empty")
        if rejection is None:
            recordings.append(Recording(name, spoken_text(columns), path, who))
        else:
            rejected.append(RejectedRow(name, path, rejection))
    return recordings, rejected


def is_header(columns: Sequence[str]) -> bool:
    """Whether a row of an LJSpeech-format table is its header, `file|text|…`."""
    return len(columns) > 1 and columns[1].casefold() in HEADERS


class AudioFiles:
    """The audio files of an LJSpeech-format folder, in `wavs/` and in the folder itself."""

    def __init__(self, folder: Path) -> None:
        self.paths: list[Path] = []
        for place in (folder / "wavs", folder):
            found = sorted(place.iterdir()) if place.is_dir() else []
            self.paths += sound_files(path for path in found if path.name[0] != "." and path.is_file())

    def match(self, ids: Iterable[str]) -> dict[str, str]:
        """The file of each id that has one; no two ids share a file.

        Files named exactly like the id come first, without their suffix or else with it ("a.wav" may be a.wav.flac);
        files with another spelling of the id come after them.
        """
        ids = list(ids)
        found: dict[str, Path] = {}
        taken = set[Path]()
        for spelling in (str, plain):
            for part in ("stem", "name"):
                named: dict[str, Path] = {}
                for path in self.paths:
                    if path not in taken:
                        named.setdefault(spelling(getattr(path, part)), path)
                for name in ids:
                    if name not in found and spelling(name) in named:
                        found[name] = named.pop(spelling(name))
                        taken.add(found[name])
        return {name: str(path) for name, path in found.items()}


def sound_files(files: Iterable[Path]) -> list[Path]:
    """The audio files among the given files, sorted by name."""
    return sorted((path for path in sorted(files) if path.suffix.lower() in AUDIO), key=best_first)


def best_first(path: Path) -> tuple[str, int]:
    """Sort key for audio files: of two with the same name, the one in the better format comes first."""
    return str(path.with_suffix("")), AUDIO.index(path.suffix.lower())


def plain(name: str) -> str:
    """An id of an LJSpeech-format table, in a spelling common to all systems: macOS separates accents from letters."""
    return unicodedata.normalize("NFC", name).casefold()
