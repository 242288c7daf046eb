"""Pace and duration: validation, and exact distribution of frames.

All lengths are whole mel frames, so that a requested duration is met exactly.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

SLOWEST, FASTEST = 0.5, 2.0  # pace: 2 is twice as fast
# Minimum and maximum frames per phoneme: below one, a phoneme cannot be heard; no corpus reaches the maximum.
FEWEST_FRAMES, MOST_FRAMES = 1, 50
PAUSE = 0.45  # seconds between sentences at natural pace, besides the short silences that a phrase ends with
# Seconds of digital silence at the end of a text. Recognizers with speech detection need it: without it, Moonshine's
# detector takes the end of one text for the start of the next and transcribes a "you" there.
CLOSING = 0.1
PARAGRAPH = 2.5  # pause between paragraphs, relative to the pause between sentences
RE_DURATION = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*(ms|s|)\s*")


@dataclass(frozen=True)
class Pacing:
    """Pacing of a request, by at most one of three: relative pace, frames per phoneme, or duration in seconds."""

    pace: float | None = None
    mpr: float | None = None
    duration: float | None = None

    @classmethod
    def of(cls, pace: float | None, mpr: float | None, duration: float | str | None) -> Pacing:
        given = [name for name, value in (("pace", pace), ("mpr", mpr), ("duration", duration)) if value is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} were given together; each of them sets the length: choose one")
        if pace is not None and not SLOWEST <= pace <= FASTEST:
            raise ValueError(
                f"pace: got {pace:g}, expected {SLOWEST:g} … {FASTEST:g} times natural speed (2 is twice as fast); "
                "mpr and duration go further"
            )
        if mpr is not None and not FEWEST_FRAMES <= mpr <= MOST_FRAMES:
            raise ValueError(
                f"mpr: got {mpr:g}, expected {FEWEST_FRAMES} … {MOST_FRAMES} mel frames per phoneme (natural speech "
                "has about 6)"
            )
        return cls(pace, mpr, None if duration is None else parse_duration(duration))

    def speed(self, natural_mpr: float) -> float:
        """Speed relative to natural, by which pauses are divided."""
        return natural_mpr / self.mpr if self.mpr is not None else self.pace or 1.0


def parse_duration(duration: float | str) -> float:
    """Parse the duration of a pacing into seconds: 3.2, "3.2", "3.2s" or "3200ms"."""
    match = RE_DURATION.fullmatch(duration if isinstance(duration, str) else repr(float(duration)))
    seconds = float(match[1]) / (1000 if match[2] == "ms" else 1) if match else math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f"duration: got {duration!r}, expected a positive time such as 3.2, 3.2s or 3200ms")
    return seconds


def share(total: int, weights: Sequence[int]) -> list[int]:
    """Pacing in whole numbers: split a total exactly, in proportion to the weights."""
    whole, reached, given, shares = sum(weights), 0, 0, []
    for weight in weights:
        reached += weight
        end = (2 * total * reached + whole) // (2 * whole)  # rounded in integer arithmetic
        shares.append(end - given)
        given = end
    return shares


def share_frames(total: int, natural: Sequence[int], fewest: Sequence[int]) -> list[int]:
    """Pacing in frames: split exactly `total` frames among parts (speech or pauses).

    If it is longer than natural, every part is stretched alike. If it is shorter, each part gives up the same share of
    its frames above the minimum, so that pauses, whose minimum is 0, shrink a little faster than speech and nothing
    disappears.
    """
    natural = [max(frames, least) for frames, least in zip(natural, fewest, strict=True)]
    if total < sum(fewest):
        raise ValueError(f"got {total} frames, expected at least {sum(fewest)}")
    if total >= sum(natural):
        return share(total, natural)
    spare = [frames - least for frames, least in zip(natural, fewest, strict=True)]
    extra = share(total - sum(fewest), spare)
    return [least + more for least, more in zip(fewest, extra, strict=True)]


def check_duration(seconds: float, frames: int, phonemes: int, natural: int, frame_seconds: float) -> None:
    """Check the duration of a pacing: raises if it is too short or too long for the text."""
    fewest, most = FEWEST_FRAMES * phonemes, MOST_FRAMES * phonemes
    if not fewest <= frames <= most:
        raise ValueError(
            f"duration: got {seconds:g} s, expected {fewest * frame_seconds:.2f} … {most * frame_seconds:.1f} s for "
            f"this text ({phonemes} phonemes, {FEWEST_FRAMES} … {MOST_FRAMES} frames each); its natural duration is "
            f"{natural * frame_seconds:.2f} s"
        )
