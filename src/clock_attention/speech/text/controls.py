"""Controls of a text besides its words: prosody, exact durations, breaks and marks, by words counted from 0.

A word is a token of the front end that is no mark: what `clock-attention pronounce` lists, and `Speech.words`.
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
    """The value of a control, refused outside of its range."""
    if not (math.isfinite(value) and low <= value <= high):
        raise ValueError(f"{name}: got {value:g}, expected {low:g} … {high:g} {unit}")
    return value


@dataclass(frozen=True)
class Prosody:
    """A control of prosody: how words are said, relative to how the voice would say them."""

    pace: float = 1.0  # 2 is twice as fast
    pitch: float = 0.0  # semitones
    energy: float = 0.0  # decibels

    def __post_init__(self) -> None:
        check_range("pace", self.pace, SLOWEST_WORD, FASTEST_WORD, "times natural speed")
        check_range("pitch", self.pitch, LOWEST_PITCH, HIGHEST_PITCH, "semitones")
        check_range("energy", self.energy, QUIETEST, LOUDEST, "decibels")

    def within(self, outer: Prosody) -> Prosody:
        """Both at once: paces multiply, semitones and decibels add up."""
        return Prosody(self.pace * outer.pace, self.pitch + outer.pitch, self.energy + outer.energy)


NEUTRAL = Prosody()


@dataclass(frozen=True)
class WordControl(Prosody):
    """The controls of one word: how it is said, and how long it lasts."""

    duration: float | str | None = None  # seconds, "0.8s" or "800ms"


@dataclass(frozen=True)
class Stretch:
    """A control of duration: words first … stop last exactly so many seconds together, silences included."""

    first: int
    stop: int
    seconds: float


@dataclass(frozen=True)
class Mark:
    """A mark among the controls: a named place before a word (its number is the number of words at the end)."""

    word: int
    name: str
    before_break: bool = False  # at the end of the word before, not at the beginning of this one

    @property
    def shown_with(self) -> int:
        """The word whose time it takes."""
        return self.word - (self.before_break and self.word > 0)


def first_word(stretch: Stretch) -> int:
    """The first word of a stretch of controls, for sorting."""
    return stretch.first


def shown_word(mark: Mark) -> int:
    """The word that a mark of the controls is shown with, for sorting."""
    return mark.shown_with


@dataclass(frozen=True)
class Controls:
    """All controls of one text. Stretches are nested or apart."""

    prosody: Mapping[int, Prosody] = field(default_factory=dict)
    stretches: tuple[Stretch, ...] = ()
    breaks: Mapping[int, float] = field(default_factory=dict)  # exact seconds of silence before a word
    marks: tuple[Mark, ...] = ()  # in order

    @cached_property
    def timed(self) -> bool:
        """Whether anything but pitch, energy and marks is asked for."""
        return bool(self.stretches or self.breaks) or any(prosody.pace != 1 for prosody in self.prosody.values())

    @cached_property
    def neutral(self) -> bool:
        return not self.timed and all(prosody == NEUTRAL for prosody in self.prosody.values())

    def of(self, first: int, stop: int, *, closes: bool) -> Controls:
        """Those of words first … stop; `closes`: with these the text ends.

        A break before the first word or after the last belongs to both neighbours; a mark to the word after it.
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
        """Refuse requests for words that are not there."""
        asked = [*self.prosody, *(stretch.stop - 1 for stretch in self.stretches)]
        wrong = next((word for word in asked if not 0 <= word < words), None)
        if wrong is not None:
            raise ValueError(f"word {wrong}: the text has {words} words, numbered 0 … {words - 1}")


UNCONTROLLED = Controls()
