"""Read subtitle files for dubbing, SubRip (.srt) and WebVTT (.vtt), with BOMs, tags, odd times and damaged cues."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path

from clock_attention.speech.text.characters import composed
from clock_attention.speech.text.html_tags import unescape

logger = logging.getLogger(__name__)

LARGEST = 50_000_000  # bytes
LONGEST = 24 * 3600.0  # seconds: a whole day
MOST_WARNINGS = 20
TIME = r"(-?)(?:(\d{1,4}):)?(\d{1,3}):(\d{1,2})(?:[,.](\d{1,3}))?"
RE_TIMES = re.compile(rf"\s*{TIME}\s*-{{1,2}}>\s*{TIME}(?:\s.*)?")
RE_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,200}>|<\d[\d:.]{0,20}>|</>|\{\\[^{}\n]{0,200}\}")
RE_SOUND = re.compile(r"\[[^\[\]]{0,200}\]|[♪♫#]{1,3}(?=\s|$)|(?:^|(?<=\s))[♪♫]+")
RE_DASH = re.compile(r"^[ \t]*[-–—‐][ \t]*(?=\S)", re.MULTILINE)
VTT_BLOCKS = ("NOTE", "STYLE", "REGION")


@dataclass(frozen=True)
class Cue:
    """A cue of a subtitle file: a text and when it is shown, in seconds."""

    number: int  # from 1, in file order
    start: float
    end: float
    text: str  # what is to be spoken; "" if nothing is
    line: int  # of the file, with its times


def read_subtitles(path: str | Path) -> list[Cue]:
    """The cues of a .srt or .vtt file, sorted by time. Damaged ones are left out with a warning.

    Raises:
        ValueError: if the file cannot be read or has no cue.
    """
    path = Path(path)
    if path.suffix.lower() not in (".srt", ".vtt"):
        raise ValueError(f"{path}: expected a name ending in .srt or .vtt")
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"{path}: larger than {LARGEST:,} bytes; these are not subtitles")
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    return parse_subtitles(decoded(content, path), str(path))


def decoded(content: bytes, path: Path) -> str:
    """The text of a subtitle file, decoded with the encoding that it seems to have."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", "replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        logger.warning("%s: not UTF-8 (byte %d); read as Windows-1252", path, error.start)
        return content.decode("cp1252", "replace")


def parse_subtitles(text: str, name: str = "subtitles") -> list[Cue]:
    """The cues of a subtitle file's text, SubRip or WebVTT."""
    cues: list[Cue] = []
    complaints: list[str] = []
    lines = composed(text.replace("\x00", "")).split("\n")
    place = 0
    while place < len(lines):
        line = lines[place]
        if line.split(" ", 1)[0].split("\t", 1)[0] in VTT_BLOCKS and (place == 0 or not lines[place - 1].strip()):
            place = after_block(lines, place)
            continue
        match = RE_TIMES.fullmatch(line)
        place += 1
        if match is None:
            if "-->" in line:
                complaints.append(
                    f"line {place}: {line.strip()[:60]!r} is no time such as 00:00:01,000 --> 00:00:02,500"
                )
            continue
        at = place
        written: list[str] = []
        # A cue ends at a blank line, or at the times of the next one if the blank line between them is missing.
        while place < len(lines) and lines[place].strip() and RE_TIMES.fullmatch(lines[place]) is None:
            written.append(lines[place])
            place += 1
        if written and written[-1].strip().isdecimal() and place < len(lines) and RE_TIMES.fullmatch(lines[place]):
            written.pop()  # the number of the next cue
        cue = make_cue(len(cues) + 1, seconds_of(match, 1), seconds_of(match, 6), written, at, complaints)
        if cue is not None:
            cues.append(cue)
    for complaint in complaints[:MOST_WARNINGS]:
        logger.warning("%s, %s", name, complaint)
    if len(complaints) > MOST_WARNINGS:
        logger.warning("%s: %d more faults like these", name, len(complaints) - MOST_WARNINGS)
    if not cues:
        raise ValueError(f"{name}: no cue in it; expected times such as 00:00:01,000 --> 00:00:02,500 and text below")
    return sorted(cues, key=lambda cue: (cue.start, cue.end, cue.number))


def make_cue(number: int, start: float, end: float, written: list[str], line: int, complaints: list[str]) -> Cue | None:
    """One block of a subtitle file as a cue, or None."""
    if end > LONGEST or start > LONGEST:
        complaints.append(
            f"line {line}: {max(start, end):.0f} s lies beyond {LONGEST / 3600:g} hours; the cue is left out"
        )
        return None
    if end <= max(start, 0.0):
        complaints.append(f"line {line}: ends at {end:g} s, not after its start; the cue is left out")
        return None
    if start < 0:
        complaints.append(f"line {line}: starts before 0; it is spoken from 0 on")
    return Cue(number, max(start, 0.0), end, spoken_text("\n".join(written)), line)


def seconds_of(match: re.Match[str], first: int) -> float:
    """A time of a subtitle file in seconds."""
    sign, hours, minutes, seconds, fraction = (match[first + place] for place in range(5))
    milliseconds = int((fraction or "0").ljust(3, "0"))
    whole = (int(hours or 0) * 60 + int(minutes)) * 60 + int(seconds) + milliseconds / 1000
    return -whole if sign else whole


def spoken_text(written: str) -> str:
    """The spoken words of a subtitle: without tags, positions, sounds in brackets, music notes and speakers' dashes."""
    text = unescape(RE_TAG.sub("", written))
    text = RE_DASH.sub("", RE_SOUND.sub(" ", text))
    return " ".join(text.split())


def after_block(lines: list[str], place: int) -> int:
    """The index of the line in a subtitle file after a block and the empty line that ends it."""
    while place < len(lines) and lines[place].strip():
        place += 1
    return place + 1
