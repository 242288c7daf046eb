"""Whether the texts of recordings were written by people or by a recognizer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from clock_attention.own_voice.gather import Gathered, is_corrected, read_gathered

CORRECTED = ", corrected by hand"


def machine_made(folder: Path) -> tuple[str, int] | None:
    """Recognizer and number of its texts in a folder written by `corpus transcribe`; None for any other folder."""
    gathered = read_gathered(folder)
    if gathered is None or not gathered.transcribed_clips:
        return None
    return gathered.transcribed_by + (CORRECTED if is_corrected(folder) else ""), gathered.transcribed_clips


def marked(gathered: Gathered, earlier: tuple[str, int] | None) -> Gathered:
    """Mark gathered texts as machine-made if the folder of recordings says so."""
    if earlier is None:
        return gathered
    recognizer, clips = earlier
    return replace(gathered, transcribed_by=recognizer, transcribed_clips=min(clips, gathered.clips))


def warnings_about_texts(gathered: Gathered) -> list[str]:
    """Check for machine-made texts: warn if texts were written by a recognizer."""
    if not gathered.transcribed_clips:
        return []
    found = f"{gathered.transcribed_clips} of {gathered.clips} texts were written by {gathered.transcribed_by}"
    if gathered.transcribed_by.endswith(CORRECTED):
        return [found]
    return [
        f"{found}, a recognizer, and the voice learns its mistakes: correct them in the metadata.csv that "
        "`corpus transcribe` writes, and make the voice from that folder"
    ]
