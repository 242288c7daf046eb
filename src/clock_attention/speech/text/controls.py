"""Controls that accompany a text: prosody, exact durations, breaks and marks, by word number from 0.

A word is a front-end token that is not a punctuation mark, as in `clock-attention pronounce` and `Speech.words`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

LOWEST_PITCH, HIGHEST_PITCH = -12.0, 12.0  # semitones
QUIETEST, LOUDEST = -60.0, 12.0  # decibels
SLOWEST_WORD, FASTEST_WORD = 0.2, 5.0  # times natural pace
LONGEST_BREAK = 60.0  # seconds


def check_range(name: str, value: float, low: float, high: float, unit: str) -> float:
    """Return the value of a control, or raise ValueError if it is out of range."""
    if not (math.isfinite(value) and low <= value <= high):
        raise ValueError(f"{name}: got {value:g}, expected {low:g} … {high:g} {unit}")
    return value


@dataclass(frozen=True)
class Prosody:
    """Prosody control: how words are spoken, relative to how the voice would speak them."""

    pace: float = 1.0  # 2 is twice as fast
    pitch: float = 0.0  # semitones
    energy: float = 0.0  # decibels

    def __post_init__(self) -> None:
        check_range("pace", self.pace, SLOWEST_WORD, FASTEST_WORD, "times natural speed")
        check_range("pitch", self.pitch, LOWEST_PITCH, HIGHEST_PITCH, "semitones")
        check_range("energy", self.energy, QUIETEST, LOUDEST, "decibels")

    def within(self, outer: Prosody) -> Prosody:
        """Combine with an outer prosody: paces multiply, semitones and decibels add up."""
        return Prosody(self.pace * outer.pace, self.pitch + outer.pitch, self.energy + outer.energy)


NEUTRAL = Prosody()


@dataclass(frozen=True)
class WordControl(Prosody):
    """The controls of one word: how it is spoken, and how long it lasts."""

    duration: float | str | None = None  # seconds, "0.8s" or "800ms"


@dataclass(frozen=True)
class Stretch:
    """Duration control: words first … stop last exactly this many seconds together, silences included."""

    first: int
    stop: int
    seconds: float


@dataclass(frozen=True)
class Mark:
    """Mark control: a named position before a word (at the end of the text, `word` is the number of words)."""

    word: int
    name: str
    before_break: bool = False  # at the end of the previous word, not at the beginning of this one

    @property
    def shown_with(self) -> int:
        """The word whose time the mark takes."""
        return self.word - (self.before_break and self.word > 0)


def first_word(stretch: Stretch) -> int:
    """Sort key for duration controls: the first word of a stretch."""
    return stretch.first


def shown_word(mark: Mark) -> int:
    """Sort key for mark controls: the word that a mark is shown with."""
    return mark.shown_with


@dataclass(frozen=True)
class Controls:
    """All controls of one text; stretches are nested or disjoint."""

    prosody: Mapping[int, Prosody] = field(default_factory=dict)
    stretches: tuple[Stretch, ...] = ()
    breaks: Mapping[int, float] = field(default_factory=dict)  # exact seconds of silence before a word
    marks: tuple[Mark, ...] = ()  # in order

    @cached_property
    def timed(self) -> bool:
        """Whether anything other than pitch, energy and marks is requested."""
        return bool(self.stretches or self.breaks) or any(prosody.pace != 1 for prosody in self.prosody.values())

    @cached_property
    def neutral(self) -> bool:
        return not self.timed and all(prosody == NEUTRAL for prosody in self.prosody.values())

    def of(self, first: int, stop: int, *, closes: bool) -> Controls:
        """The controls of words first … stop; `closes`: the text ends with these words.

        A break before the first word or after the last one belongs to both neighbours; a mark belongs to the word after
        it.
        """
        near, far = (bisect_left(self._stretches, word, key=first_word) for word in (first, stop))
        shown = bisect_left(self.marks, first, key=shown_word)
        shown_until = len(self.marks) if closes else bisect_left(self.marks, stop, key=shown_word)
        return Controls(
            {word: self.prosody[word] for word in range(first, stop) if word in self.prosody},
            tuple(stretch for stretch in self._stretches[near:far] if stretch.stop <= stop),
            {word: self.breaks[word] for word in range(first, stop + 1) if word in self.breaks},
            self.marks[shown:shown_until],
        )

    @cached_property
    def _stretches(self) -> list[Stretch]:
        return sorted(self.stretches, key=first_word)

    def check(self, words: int) -> None:
        """Reject controls for words that the text does not have."""
        asked = [*self.prosody, *(stretch.stop - 1 for stretch in self.stretches)]
        wrong = next((word for word in asked if not 0 <= word < words), None)
        if wrong is not None:
            raise ValueError(f"word {wrong}: the text has {words} words, numbered 0 … {words - 1}")


UNCONTROLLED = Controls()
