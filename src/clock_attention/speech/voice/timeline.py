"""Timelines: times of words and phones for speech to reproduce, from an alignment, a .TextGrid, a .json or a list."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from clock_attention.speech.text.characters import fold
from clock_attention.speech.voice.timing import Fixed, TimingRow, edges
from clock_attention.timestamps import SNAP, Interval

logger = logging.getLogger(__name__)

MOST_MOVED = 4  # frames that a boundary may move to give every phoneme one; beyond that the timeline is rejected
SILENCES = frozenset(("sil", "sp", "spn", "<eps>", "#", "<sil>"))  # as other aligners label them
LARGEST = 50_000_000  # maximum bytes of a file
LONGEST = 24 * 3600.0  # maximum seconds of the whole timeline
LONGEST_SOUND = 60.0  # maximum seconds of one word or phone
LONGEST_SILENCE = 600.0
RE_VALUES = re.compile(
    r'"([^"]*(?:""[^"]*)*)"|<(exists|absent)>|(?<![\w\[.])(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\w\]])'
)


@dataclass(frozen=True)
class Timeline:
    """A timeline: words and phones in order of time, without silences, and the total duration."""

    words: tuple[Interval, ...]
    phones: tuple[Interval, ...]
    seconds: float

    @classmethod
    def of(cls, given: Any) -> Timeline:
        """A timeline from a path, from tiers by name, from an object with `words` and `phones`, or from a list.

        A list contains (label, start, end) or `Interval`s, of words or of phones.
        """
        if isinstance(given, Timeline):
            return given
        if isinstance(given, str | Path):
            return cls.of_tiers(*read_tiers(Path(given)))
        if isinstance(given, Mapping):
            return cls.of_tiers(given.get("tiers", given), given.get("seconds"))
        if hasattr(given, "words") and (hasattr(given, "phones") or hasattr(given, "tiers")):
            tiers = given.tiers() if hasattr(given, "tiers") else {"words": given.words, "phones": given.phones}
            seconds = given.seconds if hasattr(given, "seconds") else getattr(given, "duration", None)
            return cls.of_tiers(tiers, seconds)
        return cls.of_tiers({"words": given, "phones": given}, None)

    @classmethod
    def of_tiers(cls, tiers: Mapping[str, Any], seconds: float | None) -> Timeline:
        if not isinstance(tiers, Mapping):
            raise ValueError(f"timeline: got {type(tiers).__name__}, expected tiers by name, such as words and phones")
        named = {str(name).strip().lower(): tier for name, tier in tiers.items()}
        words = intervals(named.get("words", named.get("word", ())), "words")
        phones = intervals(named.get("phones", named.get("phone", named.get("phonemes", ()))), "phones")
        if not any(interval.label for interval in (*words, *phones)):
            given = ", ".join(map(str, tiers)) or "none"
            raise ValueError(
                f"timeline: no words or phones in it (tiers: {given}); expected a tier `words` or `phones`, or a list "
                "of (label, start, end)"
            )
        last = max(interval.end for interval in (*words, *phones))
        whole = last if seconds is None else as_seconds(seconds)
        if whole < last - SNAP:
            raise ValueError(f"timeline: lasts {whole:g} s, but has words up to {last:g} s")
        found = cls(sounding(words), sounding(phones), whole)
        check_lengths(found.words, whole)
        check_lengths(found.phones, whole)
        return found

    def fixed(self, row: TimingRow, tokens: Sequence[str], labels: Mapping[int, str]) -> tuple[list[Fixed], int]:
        """Fixed timings that the timeline sets in a row, and its total frames.

        Args:
            tokens: the phoneme of each entry, "" for silences and boundaries.
            labels: the words of the text by number.
        """
        entries = [entry for entry, token in enumerate(tokens) if token]
        if [phone.label for phone in self.phones] == [tokens[entry] for entry in entries]:
            units = [(entry, entry + 1) for entry in entries]
            try:
                return self.placed(row, self.phones, units, 1 if self.words else MOST_MOVED)
            except ValueError:  # phones of fast speech may be shorter than a frame; the words may still fit
                if not self.words:
                    raise
        numbers = sorted(row.words)
        self.compare([labels[number] for number in numbers])
        return self.placed(row, self.words, [row.words[number] for number in numbers], MOST_MOVED)

    def compare(self, written: Sequence[str]) -> None:
        """Raise if the timeline belongs to another text."""
        given = [word.label for word in self.words]
        for place, (mine, theirs) in enumerate(zip([*written, None], [*given, None], strict=False)):
            if mine is None and theirs is None:
                return
            if mine is None or theirs is None or plain_word(mine) != plain_word(theirs):
                raise ValueError(
                    f"timeline: word {place} is {theirs!r}, expected {mine!r} of the text ({len(given)} words in the "
                    f"timeline, {len(written)} in the text)"
                    if theirs is not None and mine is not None
                    else f"timeline: {len(given)} words or phones, expected the {len(written)} words of the text"
                )

    def placed(
        self, row: TimingRow, given: Sequence[Interval], units: Sequence[tuple[int, int]], most: int
    ) -> tuple[list[Fixed], int]:
        total = row.frames(self.seconds)
        wanted_starts = np.array([row.frames(interval.start) for interval in given])
        wanted_ends = np.array([row.frames(interval.end) for interval in given])
        least = np.array([int(row.least[start:stop].sum()) for start, stop in units])
        starts, ends = edges(wanted_starts, wanted_ends, least, total)
        moved = np.maximum(np.abs(starts - wanted_starts), np.abs(ends - wanted_ends))
        worst = int(moved.argmax())
        if moved[worst] > most or starts[0] < 0:
            raise ValueError(
                f"timeline: {given[worst].label!r} at {given[worst].start:.2f} s is too short or overlaps: "
                f"{least[worst]} phonemes need at least {least[worst] * row.frame_seconds:.3f} s"
            )
        if moved[worst]:
            logger.warning(
                "timeline: %d words or phones are too short for one frame per phoneme: "
                "their edges move by up to %d frames",
                int((moved > 0).sum()),
                int(moved[worst]),
            )
        fixed: list[Fixed] = []
        for interval, (start, stop), begin, end in zip(given, units, starts, ends, strict=True):
            fixed.append(Fixed(start, stop, int(end - begin), f"timeline, {interval.label!r}"))
        gaps = zip((0, *ends.tolist()), (*starts.tolist(), total), strict=True)
        places = [(0, units[0][0]), *((a[1], b[0]) for a, b in pairwise(units)), (units[-1][1], len(row.natural))]
        for place, ((start, stop), (begin, end)) in enumerate(zip(places, gaps, strict=True)):
            if stop > start:
                fixed.append(Fixed(start, stop, end - begin, "timeline, silence"))
            elif end > begin:  # a gap between phones of one word: the previous phone is held
                held = fixed[place - 1]
                fixed[place - 1] = Fixed(held.start, held.stop, held.frames + end - begin, held.what)
        return fixed, total


def intervals(given: Iterable[Any], name: str) -> tuple[Interval, ...]:
    """Intervals of a timeline in order of time, from any of the supported forms."""
    found: list[Interval] = []
    if not isinstance(given, Iterable):
        raise ValueError(f"timeline: got {given!r} for {name}, expected a list of (label, start, end) in seconds")
    for item in given:
        try:
            if isinstance(item, Mapping):
                start, end, label = item["start"], item["end"], item.get("label", item.get("word", ""))
            elif hasattr(item, "label"):
                start, end, label = item.start, item.end, item.label
            else:
                label, start, end = item
            interval = Interval(start, end, str(label).strip())
        except (TypeError, ValueError, KeyError, OverflowError):
            raise ValueError(
                f"timeline: {str(item)[:100]} in {name}, expected (label, start, end) in seconds"
            ) from None
        if found and interval.start < found[-1].end - 1e-3:
            raise ValueError(
                f"timeline: {interval.label!r} in {name} starts at {interval.start:g} s, before {found[-1].label!r} "
                f"ends at {found[-1].end:g} s; expected order of time without overlap"
            )
        found.append(interval)
    return tuple(found)


def as_seconds(given: Any) -> float:
    """The duration of a timeline in seconds; raises if it is not a valid one."""
    try:
        seconds = float(given)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not 0 < seconds <= LONGEST:
        raise ValueError(f"timeline: lasts {str(given)[:40]}, expected seconds, at most {LONGEST:g}")
    return seconds


def check_lengths(found: Sequence[Interval], whole: float) -> None:
    """Raise for implausibly long times in a timeline, which would fill memory."""
    reached = 0.0
    for interval in found:
        if interval.end - interval.start > LONGEST_SOUND:
            raise ValueError(
                f"timeline: {interval.label!r} lasts {interval.end - interval.start:g} s, expected at most "
                f"{LONGEST_SOUND:g} s for one word"
            )
        if interval.start - reached > LONGEST_SILENCE:
            raise ValueError(
                f"timeline: {interval.start - reached:g} s of silence, expected {LONGEST_SILENCE:g} s at most"
            )
        reached = interval.end
    if found and not whole - reached <= LONGEST_SILENCE:
        raise ValueError(f"timeline: {whole - reached:g} s of silence, expected {LONGEST_SILENCE:g} s at most")


def sounding(found: Sequence[Interval]) -> tuple[Interval, ...]:
    """Intervals of a timeline that are not silence."""
    return tuple(interval for interval in found if interval.label and interval.label.lower() not in SILENCES)


def plain_word(word: str) -> str:
    """A word of a timeline, normalised for comparison: letters and digits only, without case and accents."""
    return "".join(character for character in fold(word).casefold() if character.isalnum()) or word


def read_tiers(path: Path) -> tuple[Mapping[str, Any], float | None]:
    """Read a timeline's tiers from a .TextGrid or .json file, as `speak --timestamps` and `align` write them."""
    suffix = path.suffix.lower()
    if suffix not in (".textgrid", ".json"):
        raise ValueError(f"timeline {path}: expected a name ending in .TextGrid or .json")
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"timeline {path}: larger than {LARGEST:,} bytes")
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"timeline {path}: cannot be read ({error.strerror})") from None
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"  # Praat writes both
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(f"timeline {path}: not {encoding} text (byte {error.start})") from None
    if suffix == ".textgrid":
        return textgrid_tiers(text, path)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"timeline {path}: not JSON ({error})") from None
    tiers = found.get("tiers", found) if isinstance(found, dict) else None
    if not isinstance(tiers, dict):
        raise ValueError(f'timeline {path}: expected {{"seconds": …, "tiers": {{"words": […]}}}}')
    tiers = {name: tier for name, tier in tiers.items() if isinstance(tier, list)}
    seconds = found.get("seconds", found.get("duration"))
    return tiers, seconds if isinstance(seconds, int | float) else None


def textgrid_tiers(text: str, path: Path) -> tuple[dict[str, list[Interval]], float]:
    """Read a timeline's tiers from Praat's text formats; long and short have the same values in the same order."""
    values = [
        quoted.replace('""', '"') if quoted or match.group().startswith('"') else (flag or float(number))
        for match in RE_VALUES.finditer(text)
        for quoted, flag, number in [(match[1] or "", match[2], match[3])]
    ]
    reader = iter(values)
    tiers: dict[str, list[Interval]] = {}
    try:
        if next(reader) != "ooTextFile" or next(reader) != "TextGrid":
            raise ValueError("not a TextGrid")
        _, seconds, _, count = (next(reader) for _ in range(4))
        for _ in range(int(count)):
            kind, name, _, _, size = (next(reader) for _ in range(5))
            found: list[Interval] = []
            for _ in range(int(size)):
                if kind == "IntervalTier":
                    start, end, label = next(reader), next(reader), next(reader)
                    found.append(Interval(float(start), float(end), str(label)))
                else:
                    next(reader), next(reader)
            if kind == "IntervalTier":
                tiers[str(name)] = found
        return tiers, float(seconds)
    except (StopIteration, ValueError, TypeError, RuntimeError, OverflowError):
        raise ValueError(f"timeline {path}: not one of Praat's text formats, or cut off") from None
