"""Writes alignment files in several formats, including subtitles in readable lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from clock_attention.files import check_ending
from clock_attention.speech.aligner.results import AlignedRecording
from clock_attention.speech.text.phonemes import Phonemizer, UnreadableTextError
from clock_attention.speech.text.sentences import in_parts
from clock_attention.speech.text.subtitle_cues import sentence_cues
from clock_attention.timestamps import FORMATS, Interval, save_timestamps

SUBTITLES = (".srt", ".vtt")
CUES = ("lines", "words")


def check_format(path: Path) -> Path:
    """Check the path of an alignment file; raises an error that says why it is not valid."""
    return check_ending(path, FORMATS)


def save_alignment(
    aligned: AlignedRecording, paths: Iterable[Path], text: str, reader: Phonemizer, cues: str = "lines"
) -> None:
    """Write alignment files: words and phones to each of `paths`, in the format of its extension.

    Subtitles show the sentences of `text` in lines, or single words, depending on `cues`.
    """
    tiers = {"words": aligned.words, "phones": aligned.phones}
    facts = {
        "score": round(aligned.score, 4),
        "fits": bool(aligned.fits),
        "flags": [flag._asdict() for flag in aligned.flags],
    }
    for path in paths:
        if path.suffix.lower() in SUBTITLES:
            shown = list(subtitles(aligned, text, reader)) if cues == "lines" else aligned.words
            save_timestamps(path, {"cues": shown})
        else:
            save_timestamps(path, tiers, seconds=aligned.duration, facts=facts)


def subtitles(aligned: AlignedRecording, text: str, reader: Phonemizer) -> Iterator[Interval]:
    """Subtitles of an alignment: lines of text with punctuation, each from its first to its last word found."""
    spoken = iter([word for word in aligned.words if word.label])
    missing = iter([flag.word for flag in aligned.flags if flag.kind == "written-not-spoken"])
    next_missing = next(missing, None)
    waiting = next(spoken, None)
    for sentence in reader.sentences(text):
        for part in in_parts(sentence):
            try:
                words = reader.read(part).words
            except UnreadableTextError:
                continue
            found: list[Interval] = []
            for word in words:
                if waiting is not None and waiting.label == word:
                    found.append(Interval(waiting.start, waiting.end, waiting.label))
                    waiting = next(spoken, None)
                elif next_missing == word:
                    next_missing = next(missing, None)
            if found:
                yield from sentence_cues(Interval(found[0].start, found[-1].end, part.text), found)
