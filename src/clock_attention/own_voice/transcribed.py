"""Whose words the texts of recordings are: people's, or a recognizer's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clock_attention.own_voice.gather import Gathered, is_corrected, read_gathered

CORRECTED = ", corrected by hand"


def machine_made(folder: Path) -> tuple[str, int] | None:
    """Of a folder that `corpus transcribe` wrote: the recognizer, and how many texts are its own. None of any other."""
    gathered = read_gathered(folder)
    if gathered is None or not gathered.transcribed_clips:
        return None
    return gathered.transcribed_by + (CORRECTED if is_corrected(folder) else ""), gathered.transcribed_clips


def marked(gathered: Gathered, earlier: tuple[str, int] | None) -> Gathered:
    """What was gathered, with its texts marked as machine-made where the folder of recordings says that they are."""
    if earlier is None:
        return gathered
    recognizer, clips = earlier
    return replace(gathered, transcribed_by=recognizer, transcribed_clips=min(clips, gathered.clips))


def warnings_about_texts(gathered: Gathered) -> list[str]:
    """Check: warns where texts were written by a recognizer."""
    if not gathered.transcribed_clips:
        return []
    found = f"{gathered.transcribed_clips} of {gathered.clips} texts were written by {gathered.transcribed_by}"
    if gathered.transcribed_by.endswith(CORRECTED):
        return [found]
    return [
        f"{found}, a recognizer, and the voice learns its mistakes: to correct them, write them with "
        "`corpus transcribe` and make the voice of that folder"
    ]
