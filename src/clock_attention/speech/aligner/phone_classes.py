"""The phone classes of the aligner, and the substitutes that are accepted for a phoneme of the text.

One class per American English phoneme, without stress: the r-coloured vowels of "her" and "letter" are one sound (ɜ),
though the phonemizer writes two tokens for it. Each class has two halves, so that a boundary lies between the end of
one sound and the beginning of the next, and a stop's closure and release are distinct. Silence has one class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clock_attention.speech.text.ipa import CONSONANTS, REDUCED, STRESSABLE
from clock_attention.speech.text.phonemes import PAUSES, WORD_BOUNDARY

SILENCE = ""
VOWELS = (*STRESSABLE, "ə")
CLASSES = (SILENCE, *CONSONANTS, *VOWELS)
PLACE = {name: place for place, name in enumerate(CLASSES)}
HALVES = 2
STATES = 1 + HALVES * (len(CLASSES) - 1)
BOUNDARIES = frozenset((WORD_BOUNDARY, *PAUSES.values()))
# fmt: off
FROM_ARPABET = {
    "aa": "ɑ", "ae": "æ", "ah": "ʌ", "ao": "ɔ", "aw": "W", "ax": "ə", "ay": "I", "eh": "ɛ", "er": "ɜ", "ey": "A",
    "ih": "ɪ", "iy": "i", "ow": "O", "oy": "Y", "uh": "ʊ", "uw": "u", "axr": "ɜ", "ix": "ɪ", "ux": "u", "dx": "T",
    "b": "b", "ch": "ʧ", "d": "d", "dh": "ð", "f": "f", "g": "ɡ", "hh": "h", "jh": "ʤ", "k": "k", "l": "l", "m": "m",
    "n": "n", "ng": "ŋ", "p": "p", "r": "ɹ", "s": "s", "sh": "ʃ", "t": "t", "th": "θ", "v": "v", "w": "w", "y": "j",
    "z": "z", "zh": "ʒ", "pau": SILENCE, "ssil": SILENCE, "h#": SILENCE,
}
# Common substitutes for a phoneme, with their cost (nats per state).
ALSO = {
    "t": {"T": 0.5, "d": 1.0}, "d": {"T": 0.5, "t": 1.0}, "T": {"d": 0.3, "t": 0.5}, "z": {"s": 0.7}, "s": {"z": 1.0},
    "ð": {"d": 1.0, "θ": 1.0, "n": 1.5}, "θ": {"ð": 1.0}, "ʒ": {"ʃ": 1.0, "ʤ": 1.0}, "ʃ": {"ʒ": 1.0}, "v": {"f": 1.0},
    "f": {"v": 1.0}, "b": {"p": 1.0}, "p": {"b": 1.0}, "ɡ": {"k": 1.0}, "k": {"ɡ": 1.0}, "ʤ": {"ʧ": 1.0, "ʒ": 1.0},
    "ʧ": {"ʤ": 1.0, "ʃ": 1.0}, "ŋ": {"n": 0.7}, "n": {"ŋ": 1.0, "m": 1.0},
    "ɑ": {"ɔ": 0.2, "ʌ": 1.0, "ə": 1.5}, "ɔ": {"ɑ": 0.2, "O": 1.0, "ə": 1.5}, "ʌ": {"ə": 0.2, "ɑ": 1.0, "ɪ": 1.0},
    "ə": {"ʌ": 0.2, "ɪ": 0.3, "ɛ": 1.0, "ʊ": 1.0, "ɜ": 1.0, "i": 1.0}, "ɪ": {"ə": 0.3, "i": 0.7, "ɛ": 1.0},
    "i": {"ɪ": 0.5, "ə": 1.0}, "ɛ": {"ɪ": 0.8, "ə": 1.0, "æ": 1.0, "A": 1.0}, "æ": {"ɛ": 0.8, "ə": 1.0, "ʌ": 1.0},
    "ʊ": {"ə": 0.5, "u": 0.8, "ɪ": 1.0}, "u": {"ʊ": 0.7, "ə": 1.0, "ɪ": 1.0, "i": 1.5}, "ɜ": {"ɹ": 0.7, "ə": 1.0},
    "ɹ": {"ɜ": 0.5}, "A": {"ɛ": 1.0, "ɪ": 1.2}, "O": {"ɔ": 1.0, "ə": 1.0, "ʌ": 1.0},
    "I": {"ɑ": 1.0, "ə": 1.5, "æ": 1.5}, "W": {"æ": 1.0, "ɑ": 1.0}, "Y": {"ɔ": 1.0, "O": 1.0},
    "l": {"O": 1.5, "ə": 1.5},
    "j": {"i": 1.0}, "w": {"u": 1.0},
}
# fmt: on


def plain(token: str) -> str:
    """The phone class of a phoneme token, without stress and with a single reduced vowel."""
    symbol = token[-1]
    if symbol == "ᵻ":
        return "ɪ"
    return "ə" if symbol in REDUCED else symbol


def is_boundary(token: str) -> bool:
    """Whether a token is a boundary or pause, which has no phone class."""
    return token in BOUNDARIES


@dataclass(frozen=True)
class Sound:
    """The phone class expected for one token, and its halves (both, or one for part of an r-coloured vowel)."""

    name: str
    halves: tuple[int, ...] = (0, 1)

    @property
    def states(self) -> tuple[int, ...]:
        return tuple(state(self.name, half) for half in self.halves)


def state(name: str, half: int) -> int:
    """The column of the emission matrix for one half of a phone class."""
    place = PLACE[name]
    return 0 if place == 0 else 1 + HALVES * (place - 1) + half


def sounds(tokens: Sequence[str], word_index: Sequence[int]) -> list[Sound | None]:
    """The phone class expected for each token; None for boundaries between words.

    ɜ + ɹ, and ə + ɹ unless a stressed vowel follows, are the two halves of one r-coloured vowel.
    """
    found: list[Sound | None] = []
    coloured = False
    for place, token in enumerate(tokens):
        if is_boundary(token):
            found.append(None)
        elif coloured:
            found.append(Sound("ɜ", (1,)))
            coloured = False
        else:
            name = plain(token)
            following = tokens[place + 1] if place + 1 < len(tokens) else WORD_BOUNDARY
            if name in ("ɜ", "ə") and following == "ɹ" and word_index[place] == word_index[place + 1]:
                after = tokens[place + 2] if place + 2 < len(tokens) else WORD_BOUNDARY
                coloured = name == "ɜ" or after[0] not in "ˈˌ"
            found.append(Sound("ɜ", (0,)) if coloured else Sound(name))
    return found
