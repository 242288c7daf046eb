"""Any text: read in bounded time, to symbols of the inventory, every time the same; or refused as unreadable."""

from __future__ import annotations

import logging
import random
import string
from pathlib import Path

from clock_attention.speech.text.phonemes import UnreadableTextError
from clock_attention.speech.voice.request import well_formed
from clock_attention.speech.voice.voice import Voice
from tests.fuzz.runner import DifferenceError, Fuzzer
from tests.speech.voices import tiny_voice

SAMPLES = (
    "the birch canoe slid on smooth planks Dr. Mr. St. U.S. e.g. No. 1,234.5 $3.50 £7m 12:30 3rd 1990s 10/2/1999 "
    "http://a.b/c?d=e me@here.org C++ I II XIV don't o'clock can't naïve café 50% 5°C ½ 3×4 a.m. p.m. -7 --- … "
    "“quoted” (in brackets) [1] & @ # ~ = <b> </b> {x} \\n |pipe| under_score CamelCase ALLCAPS x86 4K 2nd 1e10 "
    "0x1F 192.168.0.1 #tag "
)
WORDS = tuple(SAMPLES.split())
CHARACTERS = (
    string.printable,
    string.digits + ".,:/-$%",
    ".!?…\"')]}»”",
    "".join(map(chr, range(0x20))) + "\x7f\x80\x85\u2028\u2029\ufeff\u200b\u200d\u202e",
    "".join(map(chr, range(0xA0, 0x250))),
    "αβγдежאבג中文字漢かなㄱ한글ไทยहिन्दी",
    "😀👩‍👩‍👧🇩🇪\U0001f469\U0001f3fd❤️",
    "\ud800\udc00\udfff\ud83d",
    "áàâäãåāéêëǆﬁﬂ①²³½ⅫΩ㎏",
)


def a_text(chance: random.Random) -> str:
    length = chance.choice([1, 3, 10, 30, 30, 100, 100, 300, chance.choice([1000, 3000])])
    kind = chance.randrange(5)
    if kind == 0:
        return " ".join(chance.choice(WORDS) for _ in range(1 + length // 6))
    if kind == 1:
        letters = chance.choice(CHARACTERS)
        return "".join(chance.choice(letters) for _ in range(length))
    if kind == 2:  # the same thing again and again, which is what slow rules stumble over
        unit = chance.choice([*WORDS, "1/", "9", ".", ". ", "a", "A.", "' ", "($", "-", "\n", "1,"])
        return (unit * length)[: length * 2]
    if kind == 3:
        return "".join(chr(chance.randrange(0x110000)) for _ in range(length))
    parts = []
    while sum(map(len, parts)) < length:
        letters = chance.choice(CHARACTERS)
        parts.append(
            chance.choice(WORDS) if chance.random() < 0.6 else chance.choice(letters) * chance.choice([1, 1, 5])
        )
        parts.append(chance.choice([" ", " ", " ", "", ". ", "\n\n"]))
    return "".join(parts)


class Texts(Fuzzer):
    name = "texts"
    chunk = 1000

    def start(self, folder: Path) -> None:
        self.voice = Voice.load(tiny_voice(folder / "voice"))
        self.symbols = set(self.voice.language.symbols)

    def case(self, chance: random.Random) -> str:
        logger = logging.getLogger("clock_attention")
        level = logger.level
        logger.setLevel(logging.ERROR)  # thousands of characters that are not read aloud
        try:
            return self.read_twice(chance)
        finally:
            logger.setLevel(level)  # other tests look at what is logged

    def read_twice(self, chance: random.Random) -> str:
        text = well_formed(a_text(chance))
        found = self.read(text)
        if chance.random() < 0.05 and found != self.read(text):
            raise DifferenceError(f"{text!r} is read in two ways")
        for tokens in found:
            if not tokens or not set(tokens) <= self.symbols:
                raise DifferenceError(f"{text!r}: tokens outside of the inventory: {set(tokens) - self.symbols}")
        return "read" if found else "unreadable"

    def read(self, text: str) -> list[tuple[str, ...]]:
        """All at once, as the corpus and `utter` do, which is the harder way; speaking goes sentence by sentence."""
        try:
            return [self.voice.phonemizer(text).tokens]
        except UnreadableTextError:
            return []
