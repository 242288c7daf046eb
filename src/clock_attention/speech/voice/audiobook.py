"""Audiobooks: speaks a book chapter by chapter into a folder; repeating the call continues an interrupted book."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clock_attention.files import locked, make_folder, write_atomically
from clock_attention.speech.text.books import Chapter
from clock_attention.speech.text.characters import fold
from clock_attention.speech.voice.request import Request
from clock_attention.speech.voice.speech_files import Outputs
from clock_attention.timestamps import FORMATS

if TYPE_CHECKING:
    from clock_attention.speech.vocoder.vocoder import Vocoder
    from clock_attention.speech.voice.voice import Voice

CONTENTS = "chapters.json"
LONGEST_NAME = 50  # maximum characters of a title in a file name


@dataclass(frozen=True)
class SpokenChapter:
    """A chapter of an audiobook, as an entry of `chapters.json`; times are seconds from the start of the book."""

    number: int
    title: str
    file: str
    timestamps: str
    start: float
    seconds: float
    key: str  # changes whenever the same chapter would sound different


def speak_book(
    voice: Voice,
    chapters: Sequence[Chapter],
    folder: str | Path,
    *,
    vocoder: str | Path | Vocoder = "auto",
    form: str = ".wav",
    timestamps: str = ".json",
    progress: Callable[[int, int, int], None] | None = None,
    **options: Any,
) -> list[SpokenChapter]:
    """Make an audiobook: speak every chapter into its own file, with a timestamps file each, and write `chapters.json`.

    Args:
        form: .wav or .flac.
        timestamps: .json, .TextGrid, .srt or .vtt.
        progress: called with the number of the chapter, its finished sentences and its total sentences.
        options: options of `Voice.stream`: pace, pitch, energy, pause, seed.
    """
    if timestamps not in FORMATS:
        raise ValueError(f"timestamps: got {timestamps!r}, expected one of {', '.join(FORMATS)}")
    if form not in (".wav", ".flac"):
        raise ValueError(f"form: got {form!r}, expected .wav or .flac")
    folder = make_folder(Path(folder))
    with locked(folder, "chapters"):
        ready = voice.vocoder(vocoder)
        finished = {entry["key"]: entry for entry in contents(folder)}
        spoken: list[SpokenChapter] = []
        start = 0.0
        for number, chapter in enumerate(chapters, start=1):
            parts = [chapter.text, voice.identity, ready.fingerprint, form, timestamps, number, options]
            key = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]
            name = f"{number:03d}-{slug(chapter.title)}"
            sound, times = folder / (name + form), folder / (name + timestamps)
            known = finished.get(key)
            if known is not None and sound.is_file() and times.is_file():
                seconds = float(known["seconds"])
            else:
                seconds = speak_chapter(voice, chapter, sound, times, ready, number, progress, options)
            spoken.append(SpokenChapter(number, chapter.title, sound.name, times.name, start, seconds, key))
            start += seconds
            listed = [asdict(entry) for entry in spoken]
            listed += [entry for entry in finished.values() if entry["number"] > number]
            write_atomically(folder / CONTENTS, json.dumps({"chapters": listed}, ensure_ascii=False, indent=1) + "\n")
    return spoken


def speak_chapter(
    voice: Voice,
    chapter: Chapter,
    sound: Path,
    times: Path,
    vocoder: Vocoder,
    number: int,
    progress: Callable[[int, int, int], None] | None,
    options: dict[str, Any],
) -> float:
    """Speak one chapter of an audiobook into its file; returns its length in seconds."""
    request = Request.of(chapter.text, lexicon=voice.lexicon, **options)
    with Outputs(sound, timestamps=times) as outputs:
        for done, piece in enumerate(voice.perform(request, vocoder), start=1):
            outputs.write(piece)
            if progress is not None:
                progress(number, done, len(request.sentences))
    return outputs.seconds


def contents(folder: Path) -> Iterator[dict[str, Any]]:
    """Chapters of an audiobook that an earlier call has finished; none if the list is missing or damaged."""
    try:
        found = json.loads((folder / CONTENTS).read_text("utf-8"))["chapters"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return
    for entry in found if isinstance(found, list) else ():
        if not isinstance(entry, dict) or set(entry) != set(SpokenChapter.__dataclass_fields__):
            continue
        if isinstance(entry["key"], str) and all(
            isinstance(entry[name], int | float) for name in ("number", "seconds")
        ):
            yield entry


def slug(title: str) -> str:
    """A chapter's title in characters that every file system accepts, for the files of an audiobook."""
    return re.sub(r"[^a-z0-9]+", "-", " ".join(map(fold, title.split())).lower())[:LONGEST_NAME].strip("-") or "chapter"
