"""LJSpeech-format folders: `metadata.csv` (`id|text|normalized text|speaker`) beside a folder of recordings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from clock_attention.speech.corpus.metadata import check_row, names_speakers, read_table, spoken_text
from clock_attention.speech.corpus.recording_checks import Recording
from clock_attention.speech.corpus.store import Rejection

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3")


def read_folder(folder: str | Path, speaker: str = "") -> tuple[list[Recording], list[Rejection]]:
    """Recordings of an LJSpeech-format folder in the order of the metadata, and unusable rows with their reasons.

    The third column is used where it is there and not empty. A fourth one names the speaker of each recording; where it
    is empty or not there, that is `speaker`. Audio is looked for in `wavs/` and in the folder itself;
    an id is a plain name, with or without the suffix of its file. A recording without a file is kept, so that the
    preparation lists it as missing along with everything else.
    """
    folder = Path(folder)
    metadata = folder / "metadata.csv"
    if not metadata.is_file():
        raise FileNotFoundError(
            f"no metadata.csv in {folder}: an LJSpeech-format folder has one, with lines `id|text` or "
            "`id|text|normalized text`, and the recordings as wavs/<id>.wav"
        )
    recordings, rejected, known = [], [], set[str]()
    rows = list(read_table(metadata))
    several = names_speakers(rows)
    for number, columns in rows:
        name, who = columns[0], columns[3] if len(columns) == 4 and columns[3] else speaker
        if rejection := check_row(number, columns, known, several):
            rejected.append(rejection)
        elif several and not who:
            rejected.append(Rejection(name, "no speaker", f"line {number}: its fourth column is empty"))
        else:
            recordings.append(Recording(name, spoken_text(columns), find_audio(folder, name), who))
    return recordings, rejected


def find_audio(folder: Path, name: str) -> str:
    """The audio file of an utterance of an LJSpeech-format folder, or "" where there is none."""
    return next((str(path) for path in candidates(folder, name) if path.is_file()), "")


def candidates(folder: Path, name: str) -> Iterator[Path]:
    """Where the audio of an utterance may be in an LJSpeech-format folder."""
    for place in (folder / "wavs", folder):
        if name.lower().endswith(SUFFIXES):
            yield place / name
        for suffix in SUFFIXES:
            yield place / f"{name}{suffix}"
