"""Timestamps: from durations to labelled intervals in seconds, and to the files that other programs read."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clock_attention.files import write_atomically

FORMATS = (".TextGrid", ".json", ".srt", ".vtt", ".lab", ".ctm")
SNAP = 1e-6  # seconds: intervals this close touch; summed times rarely agree to the last digit


@dataclass(frozen=True)
class Interval:
    """A timestamp: a labelled stretch of time, in seconds."""

    start: float
    end: float
    label: str

    def __post_init__(self) -> None:
        # Plain floats, whatever number type was given: they are written to files as they print.
        object.__setattr__(self, "start", float(self.start))
        object.__setattr__(self, "end", float(self.end))
        if not (0 <= self.start <= self.end < math.inf):
            raise ValueError(f"Interval: got start {self.start}, end {self.end}, expected 0 ≤ start ≤ end in seconds")

    def shifted(self, seconds: float) -> Interval:
        return replace(self, start=self.start + seconds, end=self.end + seconds)


Tiers = Mapping[str, Sequence[Interval]]


class Alignment:
    """Timestamps of source tokens: labels, durations in target steps, and how long a step lasts.

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
    """Timestamps in Praat's long text format. Gaps have no label; empty intervals, which it forbids, are left out.

    `seconds` is the length of the recording; without it, the recording ends with the last interval.
    """
    xmax = _length(tiers, seconds)
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "xmin = 0", f"xmax = {xmax!r}"]
    lines += ["tiers? <exists>", f"size = {len(tiers)}", "item []:"]
    for number, (name, intervals) in enumerate(tiers.items(), start=1):
        if intervals and all(interval.start == interval.end for interval in intervals):
            lines += _points(number, name, intervals, xmax)
            continue
        filled = _without_gaps(name, intervals, xmax)
        lines += [f"    item [{number}]:", '        class = "IntervalTier"', f"        name = {_quoted(name)}"]
        lines += ["        xmin = 0", f"        xmax = {xmax!r}", f"        intervals: size = {len(filled)}"]
        for index, interval in enumerate(filled, start=1):
            lines += [f"        intervals [{index}]:", f"            xmin = {interval.start!r}"]
            lines += [f"            xmax = {interval.end!r}", f"            text = {_quoted(interval.label)}"]
    return "\n".join(lines) + "\n"


def _points(number: int, name: str, intervals: Sequence[Interval], xmax: float) -> list[str]:
    """A TextGrid point tier of timestamps, as lines."""
    lines = [f"    item [{number}]:", '        class = "TextTier"', f"        name = {_quoted(name)}"]
    lines += ["        xmin = 0", f"        xmax = {xmax!r}", f"        points: size = {len(intervals)}"]
    for index, interval in enumerate(intervals, start=1):
        lines += [f"        points [{index}]:", f"            number = {interval.start!r}"]
        lines.append(f"            mark = {_quoted(interval.label)}")
    return lines


def to_json(tiers: Tiers, seconds: float | None = None, **facts: Any) -> str:
    """Timestamps as JSON: {"seconds": …, "tiers": {name: [{"start", "end", "label"}, …]}}; skipped tokens are kept.

    `facts` about the whole are placed between the two.
    """
    content = {name: [asdict(interval) for interval in intervals] for name, intervals in tiers.items()}
    whole = {"seconds": _length(tiers, seconds), **facts, "tiers": content}
    return json.dumps(whole, ensure_ascii=False, indent=2) + "\n"


def to_srt(intervals: Sequence[Interval]) -> str:
    """Timestamps as SubRip: one subtitle cue per interval; those without a label or without length are left out."""
    return "\n".join(
        f"{number}\n{_clock_time(start, ',')} --> {_clock_time(end, ',')}\n{text}\n"
        for number, (start, end, text) in enumerate(_cues(intervals), start=1)
    )


def to_vtt(intervals: Sequence[Interval]) -> str:
    """Timestamps as WebVTT, the subtitles of web pages."""
    cues = [
        f"{_clock_time(start, '.')} --> {_clock_time(end, '.')}\n{html.escape(text, quote=False)}\n"
        for start, end, text in _cues(intervals)
    ]
    return "\n".join(["WEBVTT\n", *cues])


def to_lab(intervals: Sequence[Interval], silence: str = "sil") -> str:
    """Timestamps as HTK labels: start and end in units of 100 ns and a label. Blanks in labels become underscores."""
    lines = [
        f"{round(interval.start * 1e7)} {round(interval.end * 1e7)} {_one_field(interval.label) or silence}"
        for interval in intervals
        if interval.end > interval.start
    ]
    return "".join(f"{line}\n" for line in lines)


def to_ctm(intervals: Sequence[Interval], recording: str) -> str:
    """Timestamps as NIST's CTM: recording, channel, start, duration, word and, if known, a confidence of 0 … 1."""
    lines = []
    for interval in intervals:
        if word := _one_field(interval.label):
            confidence = getattr(interval, "confidence", None)
            line = f"{_one_field(recording)} 1 {interval.start:.3f} {interval.end - interval.start:.3f} {word}"
            lines.append(line if confidence is None else f"{line} {min(max(confidence, 0.0), 1.0):.3f}")
    return "".join(f"{line}\n" for line in lines)


def save_timestamps(
    path: str | Path,
    tiers: Tiers,
    *,
    seconds: float | None = None,
    cue_tier: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write tiers of timestamps in one of `FORMATS`, chosen by the path's ending.

    TextGrid and JSON hold all tiers, and JSON also `facts`. The others hold one tier: subtitles `cue_tier`, or the
    last; HTK labels the phones and CTM the words, if there are tiers of that name, otherwise the last.
    """
    path = Path(path)
    if not tiers:
        raise ValueError("tiers: got none, expected at least one, for example {'phones': alignment.intervals()}")
    if cue_tier is not None and cue_tier not in tiers:
        raise ValueError(f"cue_tier: got {cue_tier!r}, expected one of {', '.join(map(repr, tiers))}")
    last = list(tiers)[-1]
    suffix = path.suffix.lower()
    if suffix == ".textgrid":
        text = to_textgrid(tiers, seconds)
    elif suffix == ".json":
        text = to_json(tiers, seconds, **(facts or {}))
    elif suffix == ".srt":
        text = to_srt(tiers[cue_tier or last])
    elif suffix == ".vtt":
        text = to_vtt(tiers[cue_tier or last])
    elif suffix == ".lab":
        text = to_lab(tiers.get("phones", tiers[last]))
    elif suffix == ".ctm":
        text = to_ctm(tiers.get("words", tiers[last]), path.stem)
    else:
        raise ValueError(f"path: got {str(path)!r}, expected a name ending in {', '.join(FORMATS)}")
    write_atomically(path, text)


def _length(tiers: Tiers, seconds: float | None) -> float:
    """Checked length of all tiers of timestamps, in seconds."""
    last = max((interval.end for intervals in tiers.values() for interval in intervals), default=0.0)
    length = last if seconds is None else float(seconds)
    if not 0 < length < math.inf or last > length + SNAP:
        raise ValueError(
            f"seconds: got {length} with intervals up to {last}, expected a positive length that holds them"
        )
    return length


def _without_gaps(name: str, intervals: Sequence[Interval], xmax: float) -> list[Interval]:
    """Intervals of a TextGrid tier of timestamps that cover 0 … xmax without gap or overlap."""
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
    """A timestamp label in quotes, as TextGrid files require."""
    return '"' + text.replace('"', '""') + '"'


def _cues(intervals: Sequence[Interval]) -> Iterator[tuple[int, int, str]]:
    """Subtitle timestamps: start and end in milliseconds, text on one line, because a blank line would end the cue."""
    for interval in intervals:
        text = " ".join(interval.label.split())
        start, end = round(interval.start * 1000), round(interval.end * 1000)
        if text and end > start:
            yield start, end, text


def _one_field(label: str) -> str:
    """A timestamp label without blanks, for formats with fields."""
    return "_".join(label.split())


def _clock_time(milliseconds: int, point: str) -> str:
    """A subtitle timestamp: hh:mm:ss and milliseconds."""
    seconds, milliseconds = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{point}{milliseconds:03}"
