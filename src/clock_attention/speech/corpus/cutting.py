"""Cut long recordings into clips: in the middle of pauses, by the level alone or between known words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clock_attention.speech.audio.wave import Wave

FRAME = 0.02  # seconds
LONGEST_PIECE = 12.0  # seconds
SHORTEST_PAUSE = 0.2


@dataclass(frozen=True)
class TimedWord:
    """A word and its times; a recording can be cut between words."""

    start: float
    end: float
    text: str


@dataclass(frozen=True)
class Cut:
    """A clip cut from a recording: start and end in seconds, and the text, if it is known."""

    start: float
    end: float
    text: str | None = None


def pieces_by_level(wave: Wave, sample_rate: int, longest: float = LONGEST_PIECE) -> list[Cut]:
    """Cut a recording by its level into clips of at most `longest` seconds: in pauses, else at the quietest point."""
    frame = max(1, round(FRAME * sample_rate))
    count = max(1, len(wave) // frame)
    power = np.square(wave[: count * frame].reshape(count, -1), dtype=np.float64).mean(1)
    smooth = np.convolve(power, np.ones(9) / 9, mode="same")  # a pause is quiet for a while
    most = max(2, round(longest / FRAME))
    cuts = [0]
    while count - cuts[-1] > most:
        begin = cuts[-1] + most // 3  # not shorter than a third, except for the last
        cuts.append(begin + int(np.argmin(smooth[begin : cuts[-1] + most])))
    ends = [cut * FRAME for cut in cuts[1:]] + [len(wave) / sample_rate]
    return [Cut(start, end) for start, end in zip([0.0, *ends[:-1]], ends, strict=True)]


def pieces_by_words(words: Sequence[TimedWord], duration: float, longest: float = LONGEST_PIECE) -> list[Cut]:
    """Cut a recording between words into clips of at most `longest` seconds, in the longest pause of the last 2/3.

    If there is no pause of a fifth of a second, a clip continues to the next pause, but no longer than one and a half
    times `longest`: then it ends between the two words that are furthest apart. A pause as long as a third of a clip
    may end it at any point, and so may any other pause if the last 2/3 have none. Pauses are halved between clips.
    """
    pieces: list[Cut] = []
    first, start = 0, 0.0
    while first < len(words):
        stop, end = next_cut(words, first, longest)
        end = duration if stop == len(words) else end
        pieces.append(Cut(start, end, " ".join(word.text for word in words[first:stop])))
        first, start = stop, end
    return pieces


def next_cut(words: Sequence[TimedWord], first: int, longest: float) -> tuple[int, float]:
    """When cutting between words, the index of the next clip's first word, and the middle of the pause before it."""
    begin = words[first].start
    if words[-1].end - begin <= longest:
        return len(words), words[-1].end
    best, found = first + 1, (False, -math.inf)  # whether the pause is where a clip should end, and its length
    for place in range(first + 1, len(words)):
        before, pause = words[place - 1].end, words[place].start - words[place - 1].end
        limit = longest if found >= (True, SHORTEST_PAUSE) else 1.5 * longest
        if before - begin > limit and place > first + 1:
            break
        # The pause after a short heading is too early, but words separated by music do not belong to one clip.
        this = max(before - begin, pause) > longest / 3, pause
        if this > found:
            best, found = place, this
    return best, (words[best - 1].end + words[min(best, len(words) - 1)].start) / 2
