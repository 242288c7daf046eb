"""Timestamps: from durations to labelled intervals in seconds, and to TextGrid, JSON and SRT files."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clock_attention.files import write_atomically

SNAP = 1e-6  # seconds: intervals this close touch; times that were added up rarely agree to the last digit


@dataclass(frozen=True)
class Interval:
    """A labelled stretch of time, in seconds."""

    start: float
    end: float
    label: str

    def __post_init__(self) -> None:
        # Plain floats, whatever number came in: these are written to files as they print.
        object.__setattr__(self, "start", float(self.start))
        object.__setattr__(self, "end", float(self.end))
        if not (0 <= self.start <= self.end < math.inf):
            raise ValueError(f"Interval: got start {self.start}, end {self.end}, expected 0 ≤ start ≤ end in seconds")

    def shifted(self, seconds: float) -> Interval:
        return replace(self, start=self.start + seconds, end=self.end + seconds)


Tiers = Mapping[str, Sequence[Interval]]


class Alignment:
    """Where each source token begins and ends: labels, durations in target steps, and how long a step lasts.

    `frame_seconds` is the hop divided by the sample rate. The durations sum to the number of steps, so the last
    token ends exactly where the target does. A token of duration 0 was skipped: it starts and ends at one instant.
    """

    def __init__(self, labels: Sequence[str], durations: ArrayLike, frame_seconds: float = 1.0) -> None:
        counts = np.asarray(durations)
        if counts.shape != (len(labels),) or not np.issubdtype(counts.dtype, np.integer) or (counts < 0).any():
            raise ValueError(f"durations: got {durations!r}, expected a count ≥ 0 for each of {len(labels)} labels")
        if not 0 < frame_seconds < math.inf:
            raise ValueError(f"frame_seconds: got {frame_seconds}, expected a positive number (hop / sample rate)")
        self.labels = tuple(labels)
        self.durations: NDArray[np.int64] = counts.astype(np.int64)  # (T,)
        self.frame_seconds = float(frame_seconds)

    @property
    def ends(self) -> NDArray[np.int64]:
        """One past the last step of each token.  (T,)"""
        return np.cumsum(self.durations)

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first step of each token.  (T,)"""
        return self.ends - self.durations

    @property
    def seconds(self) -> float:
        return int(self.durations.sum()) * self.frame_seconds

    def intervals(self) -> list[Interval]:
        """One interval per token."""
        return self.grouped((label, token, token + 1) for token, label in enumerate(self.labels))

    def grouped(self, spans: Iterable[tuple[str, int, int]]) -> list[Interval]:
        """One interval per span (label, first token, one past the last token): words from their phonemes, say."""
        starts, ends = self.starts, self.ends
        intervals = []
        for label, first, stop in spans:
            if not 0 <= first < stop <= len(self.labels):
                raise ValueError(
                    f"spans: got {(label, first, stop)!r}, expected 0 ≤ first < stop ≤ {len(self.labels)} tokens"
                )
            # Steps times their length, not lengths added up: neighbours share their boundary to the last digit.
            start, end = int(starts[first]) * self.frame_seconds, int(ends[stop - 1]) * self.frame_seconds
            intervals.append(Interval(start, end, label))
        return intervals


def to_textgrid(tiers: Tiers, seconds: float | None = None) -> str:
    """Praat's long text format. Gaps become intervals without a label; empty intervals, which it forbids, are left out.

    `seconds` is the length of the recording; without it the last interval ends it.
    """
    xmax = _length(tiers, seconds)
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "xmin = 0", f"xmax = {xmax!r}"]
    lines += ["tiers? <exists>", f"size = {len(tiers)}", "item []:"]
    for number, (name, intervals) in enumerate(tiers.items(), start=1):
        filled = _without_gaps(name, intervals, xmax)
        lines += [f"    item [{number}]:", '        class = "IntervalTier"', f"        name = {_quoted(name)}"]
        lines += ["        xmin = 0", f"        xmax = {xmax!r}", f"        intervals: size = {len(filled)}"]
        for index, interval in enumerate(filled, start=1):
            lines += [f"        intervals [{index}]:", f"            xmin = {interval.start!r}"]
            lines += [f"            xmax = {interval.end!r}", f"            text = {_quoted(interval.label)}"]
    return "\n".join(lines) + "\n"


def to_json(tiers: Tiers, seconds: float | None = None) -> str:
    """{"seconds": …, "tiers": {name: [{"start", "end", "label"}, …]}}; skipped tokens are kept, with start = end."""
    content = {name: [asdict(interval) for interval in intervals] for name, intervals in tiers.items()}
    return json.dumps({"seconds": _length(tiers, seconds), "tiers": content}, ensure_ascii=False, indent=2) + "\n"


def to_srt(intervals: Sequence[Interval]) -> str:
    """One subtitle cue per interval; those without a label or without length are left out."""
    cues: list[str] = []
    for interval in intervals:
        text = " ".join(interval.label.split())  # a blank line would end the cue
        start, end = round(interval.start * 1000), round(interval.end * 1000)
        if text and end > start:
            cues.append(f"{len(cues) + 1}\n{_srt_time(start)} --> {_srt_time(end)}\n{text}\n")
    return "\n".join(cues)


def save_timestamps(
    path: str | Path, tiers: Tiers, *, seconds: float | None = None, cue_tier: str | None = None
) -> None:
    """Write tiers as .TextGrid, .json or .srt, by the path's ending. SRT shows one tier: `cue_tier`, or the last."""
    path = Path(path)
    if not tiers:
        raise ValueError("tiers: got none, expected at least one, for example {'phones': alignment.intervals()}")
    suffix = path.suffix.lower()
    if suffix == ".textgrid":
        text = to_textgrid(tiers, seconds)
    elif suffix == ".json":
        text = to_json(tiers, seconds)
    elif suffix == ".srt":
        shown = list(tiers)[-1] if cue_tier is None else cue_tier
        if shown not in tiers:
            raise ValueError(f"cue_tier: got {cue_tier!r}, expected one of {', '.join(map(repr, tiers))}")
        text = to_srt(tiers[shown])
    else:
        raise ValueError(f"path: got {str(path)!r}, expected a name ending in .TextGrid, .json or .srt")
    write_atomically(path, text)


def _length(tiers: Tiers, seconds: float | None) -> float:
    last = max((interval.end for intervals in tiers.values() for interval in intervals), default=0.0)
    length = last if seconds is None else float(seconds)
    if not 0 < length < math.inf or last > length + SNAP:
        raise ValueError(
            f"seconds: got {length} with intervals up to {last}, expected a positive length that holds them"
        )
    return length


def _without_gaps(name: str, intervals: Sequence[Interval], xmax: float) -> list[Interval]:
    """Intervals that cover 0 … xmax without gap or overlap."""
    filled: list[Interval] = []
    reached = 0.0
    for interval in intervals:
        if interval.start < reached - SNAP:
            raise ValueError(f"tier {name!r}: {interval} starts before {reached}, expected intervals in order of time")
        start = reached if interval.start <= reached + SNAP else interval.start
        end = xmax if interval.end >= xmax - SNAP else interval.end
        if end - start <= SNAP:
            continue
        if start > reached:
            filled.append(Interval(reached, start, ""))
        filled.append(Interval(start, end, interval.label))
        reached = end
    if reached < xmax:
        filled.append(Interval(reached, xmax, ""))
    return filled


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _srt_time(milliseconds: int) -> str:
    seconds, milliseconds = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02},{milliseconds:03}"
