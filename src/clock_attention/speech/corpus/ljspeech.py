"""LJSpeech-format folders: `metadata.csv` (`id|text|normalized text|speaker`) beside a folder of recordings."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path

from clock_attention.speech.audio.sound_reading import FOREIGN
from clock_attention.speech.corpus.metadata import check_row, names_speakers, read_table, spoken_text
from clock_attention.speech.corpus.recording_checks import Recording
from clock_attention.speech.corpus.store import Rejection

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3", ".opus", ".oga", ".aiff", ".aif", ".w64")  # the best first
AUDIO = (*SUFFIXES, *sorted(FOREIGN))
TITLES = {"text", "transcript", "transcription", "sentence"}


def read_folder(folder: str | Path, speaker: str = "") -> tuple[list[Recording], list[Rejection]]:
    """Recordings of an LJSpeech-format folder in the order of the metadata, and unusable rows with their reasons.

    The third column is used where it is there and not empty. A fourth one names the speaker of each recording; where it
    is empty or not there, that is `speaker`. Audio is looked for in `wavs/` and in the folder itself;
    an id is a plain name, with or without `wavs/` and the suffix of its file. A recording without a file is kept, so
    that the preparation lists it as missing along with everything else. A first row of titles is passed over.
    """
    folder = Path(folder)
    metadata = folder / "metadata.csv"
    if not metadata.is_file():
        raise FileNotFoundError(
            f"no metadata.csv in {folder}: an LJSpeech-format folder has one, with lines `id|text` or "
            "`id|text|normalized text`, and the recordings as wavs/<id>.wav"
        )
    recordings, rejected, known = [], [], set[str]()
    files = AudioFiles(folder)
    rows = list(read_table(metadata))
    if rows and is_title(rows[0][1]) and not files.find(rows[0][1][0]):
        del rows[0]
    several = names_speakers(rows)
    for number, columns in rows:
        columns[0] = columns[0].removeprefix("wavs/")
        name, who = columns[0], columns[3] if len(columns) == 4 and columns[3] else speaker
        if rejection := check_row(number, columns, known, several):
            rejected.append(rejection)
        elif several and not who:
            rejected.append(Rejection(name, "no speaker", f"line {number}: its fourth column is empty"))
        else:
            recordings.append(Recording(name, spoken_text(columns), files.find(name), who))
    return recordings, rejected


def is_title(columns: Sequence[str]) -> bool:
    """Whether a row of an LJSpeech-format table is its columns' titles, `file|text|…`."""
    return len(columns) > 1 and columns[1].casefold() in TITLES


class AudioFiles:
    """The audio files of an LJSpeech-format folder by the ids that its table may give them."""

    def __init__(self, folder: Path) -> None:
        self.files: dict[str, Path] = {}
        self.plain: dict[str, Path] = {}
        for place in (folder / "wavs", folder):
            found = sorted(place.iterdir()) if place.is_dir() else []
            audio = [path for path in found if path.suffix.lower() in AUDIO and path.name[0] != "." and path.is_file()]
            for path in sorted(audio, key=lambda path: AUDIO.index(path.suffix.lower())):
                for name in (path.name, path.stem):
                    self.files.setdefault(name, path)
                    self.plain.setdefault(plain(name), path)

    def find(self, name: str) -> str:
        """The file of an id, or ""; capital letters and accents need not be written as in the file's name."""
        found = self.files.get(name) or self.plain.get(plain(name))
        return str(found) if found else ""

    def all(self) -> list[Path]:
        """All of them; of two with the same stem, the one that is found by it comes with the other."""
        return sorted(set(self.files.values()))


def plain(name: str) -> str:
    """An id of an LJSpeech-format table, however a system spells it: macOS writes accents apart."""
    return unicodedata.normalize("NFC", name).casefold()
