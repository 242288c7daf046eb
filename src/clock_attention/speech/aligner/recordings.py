"""Finds recordings to align and their texts: LJSpeech folders, or audio files with a transcript next to each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clock_attention.files import read_utf8, visible_files
from clock_attention.speech.corpus.ljspeech import AUDIO, read_folder, sound_files
from clock_attention.speech.corpus.recording_checks import Recording, missing_audio
from clock_attention.speech.corpus.store import Rejection

# A .lab file may also contain labels, such as those that `align` writes; then a .txt next to it is the transcript.
TRANSCRIPTS = (".txt", ".lab")
RE_LABEL_LINE = re.compile(r"\s*\d+(\.\d+)?\s+\d+(\.\d+)?\s+\S+\s*")
RE_TIMIT = re.compile(r"0 \d{4,} (?=\S)")  # TIMIT's texts start with the first and last sample number


@dataclass(frozen=True)
class FoundRecordings:
    """Recordings that can be aligned, and those that cannot, each with a reason; ids are paths below the folder."""

    recordings: tuple[Recording, ...]
    rejected: tuple[Rejection, ...]
    without_audio: tuple[Path, ...] = ()  # transcripts without a recording


def find_recordings(inputs: Sequence[str | Path]) -> FoundRecordings:
    """Find recordings to align in files and folders; a folder with a metadata.csv has LJSpeech's format."""
    recordings: list[Recording] = []
    rejected: list[Rejection] = []
    without_audio: list[Path] = []
    known: set[str] = set()
    for place in map(Path, inputs):
        if not place.exists():
            raise FileNotFoundError(f"{place}: no such file or folder")
        if place.is_dir() and (place / "metadata.csv").is_file():
            good, bad = read_folder(place)
        elif place.is_dir():
            good, bad, lonely = search(place)
            without_audio += lonely
        else:
            good, bad = paired([place], place.parent)
        rejected += bad
        for recording in good:
            if recording.id in known:
                rejected.append(Rejection(recording.id, "duplicate id", "two recordings have this name"))
            elif not recording.path:
                rejected.append(Rejection(recording.id, "missing", missing_audio(recording.id)))
            else:
                recordings.append(recording)
            known.add(recording.id)
    return FoundRecordings(tuple(recordings), tuple(rejected), tuple(without_audio))


def search(folder: Path) -> tuple[list[Recording], list[Rejection], list[Path]]:
    """Find recordings to align below a folder, and transcripts without audio; hidden files are skipped."""
    files = sorted(path for path in visible_files(folder) if path.suffix.lower() in (*AUDIO, *TRANSCRIPTS))
    audio = sound_files(files)
    good, bad = paired(audio, folder)
    stems = {path.with_suffix("") for path in audio}
    lonely = [path for path in files if path.suffix.lower() in TRANSCRIPTS and path.with_suffix("") not in stems]
    return good, bad, lonely


def paired(audio: Iterable[Path], folder: Path) -> tuple[list[Recording], list[Rejection]]:
    """Pair recordings to align with their texts: each audio file with the transcript next to it."""
    recordings, rejected = [], []
    for path in audio:
        name = path.relative_to(folder).with_suffix("").as_posix()
        try:
            recordings.append(Recording(name, read_transcript(transcript_of(path)), str(path)))
        except (ValueError, OSError) as error:
            rejected.append(Rejection(name, "no transcript", str(error)))
    return recordings, rejected


def transcript_of(audio: Path) -> Path:
    """The transcript next to a recording."""
    beside = [audio.with_suffix(suffix) for suffix in TRANSCRIPTS]
    found = next((path for path in beside if path.is_file()), None)
    if found is None:
        raise FileNotFoundError(
            f"{audio}: no transcript beside it, expected {' or '.join(path.name for path in beside)}"
        )
    return found


def read_transcript(path: Path) -> str:
    """The text of a transcript file; raises if it contains labels with times instead."""
    text = read_utf8(path).strip()
    if not text:
        raise ValueError(f"{path}: is empty, expected the words that are spoken")
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and all(RE_LABEL_LINE.fullmatch(line) for line in lines):
        raise ValueError(f"{path}: holds labels with times, expected the words that are spoken")
    return RE_TIMIT.sub("", text, count=1) if RE_TIMIT.match(text) else text
