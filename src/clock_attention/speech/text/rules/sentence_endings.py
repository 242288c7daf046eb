"""Where sentences end: what follows a stop decides; after an abbreviation, only a clear beginning counts."""

from __future__ import annotations

import re

from clock_attention.speech.text.tokens import NEARBY, Kind, Part, word_set

# Words that begin a sentence far more often than they follow an abbreviation inside one.
STARTERS = word_set(
    "a about after all also although an and another any are as at because before both but by can could did do "
    "does each even every few finally first for from had has have he her here his how however i if in instead is "
    "it its just last later let many maybe meanwhile more most much my neither never new next no nobody none "
    "nothing now of on once one only or other our out over perhaps please read several she should since so some "
    "someone something soon still such take that the their then there these they this those though thus to today "
    "tomorrow tonight two under unless until use was watch we well were what when where which while who whose why "
    "will with without would yes yesterday yet you your i'm i'll i've i'd it's he's she's that's there's they're "
    "we're you're don't"
)
RE_FOLLOWING = re.compile(
    r"[\"')\]]{0,4}(?P<space>\s{0,4})(?P<opening>[\"'(\[—–-]{0,4})\s?(?P<word>[^\W_][^\W_']{0,30}(?:'[a-z]+)?)?"
)


def begins_sentence(text: str, place: int, *, after_abbreviation: bool) -> bool:
    """Whether a stop that ends at `place` also ends its sentence."""
    rest = text[place : place + NEARBY]
    found = RE_FOLLOWING.match(rest)
    assert found is not None  # every part of the pattern may be empty
    if "\n" in found["space"] or (not rest[: found.end()].strip("\"')] ") and len(rest) < NEARBY and not found["word"]):
        return rest[found.end() :].strip() == "" or "\n" in found["space"]
    if not found["space"] or not found["word"]:
        return False
    word = found["word"]
    if after_abbreviation:
        return word[0].isupper() and (word.lower() in STARTERS or '"' in found["opening"])
    return word[0].isupper() or word[0].isdigit()


def with_stop(match: re.Match[str], spoken: str) -> list[Part]:
    """The parts of an abbreviation whose last character may be a stop that also ends the sentence."""
    written = match.group()
    if written.endswith(".") and begins_sentence(match.string, match.end(), after_abbreviation=True):
        return [Part(written[:-1], spoken), Part(".", ".", Kind.MARK, ends_sentence=True)]
    return [Part(written, spoken)]
