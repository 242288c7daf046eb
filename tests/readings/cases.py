"""The list of readings, and when a reading is right. Used by the test and by benchmarks/readings.py."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent
NAMES, SENTENCES, KNOWN_FAILURES = "names", "sentences", "known_failures"
NUMBER = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|"
    "eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|first|second|third|fifth|twelfth"
)
RE_AND = re.compile(rf"\b(hundred|thousand|million|billion) and (?=(?:{NUMBER}))")


@dataclass(frozen=True)
class Case:
    kind: str
    written: str
    readings: tuple[str, ...]  # the first is the one we would choose

    @property
    def key(self) -> str:
        return f"{self.kind}: {self.written}"


def load(name: str) -> list[list[str]]:
    return tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))["cases"]


def kinds() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem != KNOWN_FAILURES)


def cases() -> list[Case]:
    return [Case(kind, row[0], tuple(row[1:])) for kind in kinds() for row in load(kind)]


def known_failures() -> set[str]:
    return {row[0] for row in load(KNOWN_FAILURES)}


def normalized(words: str) -> str:
    """Words in lower case, with the differences removed that never count (see README.md)."""
    words = re.sub(r"(?<=\b[a-z])\.", " ", words.lower().replace("-", " "))
    words = re.sub(r"[^\w' /]", " ", words)
    words = re.sub(r"(?<!\w)'|'(?!\w)", "", words)
    words = re.sub(r"\boh\b", "zero", RE_AND.sub(r"\1 ", " ".join(words.split())))
    return words.strip()


def same_sound(phones: str) -> str:
    """Phones without stress, and with one symbol for the reduced vowels that readers do not distinguish."""
    phones = re.sub("[ˈˌː .ˑ]", "", phones)
    for variant, plain in (("ᵊ", "ə"), ("ɜ", "ə"), ("ᵻ", "ɪ"), ("T", "t"), ("ɾ", "t")):
        phones = phones.replace(variant, plain)
    return phones
