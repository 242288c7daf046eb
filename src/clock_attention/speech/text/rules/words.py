"""Plain words, the punctuation marks between them, and the ends of lines."""

from __future__ import annotations

import re

from clock_attention.speech.text.characters import fold
from clock_attention.speech.text.rules.abbreviations import BARE, STOPLESS
from clock_attention.speech.text.rules.dates import DAYS, MONTHS, SHORT_MONTHS
from clock_attention.speech.text.rules.sentence_endings import begins_sentence
from clock_attention.speech.text.rules.unit_names import UNITS
from clock_attention.speech.text.tokens import Kind, Part, Reading, Rule, left_of, right_of

LONGEST_WORD = 40  # letters; the longest in English dictionaries has 45, but reading a long run of letters is costly
CLIPPED = "tis|twas|twere|twill|em|n|cause|bout|til|till|round|cuz|nuff|ere|er|im|s"
RE_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
RE_DRAWN_OUT = re.compile(r"([aeiouys])\1{2,}$")  # sooo, yesss
LETTERS = rf"[^\W\d_]{{1,{LONGEST_WORD}}}"


def read_break(match: re.Match[str]) -> Reading:
    """The end of a line or of a paragraph."""
    paragraph = match.group().count("\n") > 1
    return [Part(match.group(), "\n\n" if paragraph else "\n", Kind.BREAK, ends_sentence=True)]


def read_word(match: re.Match[str]) -> Reading:
    """A word, split at changes of case if there are more of them than in a name: thisIsSomeIdentifier."""
    word = RE_DRAWN_OUT.sub(r"\1", fold(match.group()))
    pieces = RE_CAMEL.sub(" ", word)
    return pieces if pieces.count(" ") > 2 else word or None


def read_common(match: re.Match[str]) -> Reading:
    """A word that no other rule reads, which is most of a text: a shortcut for speed."""
    word = match.group()
    if word in SPECIAL or RE_MAYBE_ROMAN.fullmatch(word):
        return None
    return RE_DRAWN_OUT.sub(r"\1", word) if word[-1] == word[-2] else word


def read_optional_plural(match: re.Match[str]) -> Reading:
    """A word with an optional plural: cat(s)."""
    return match[1] + match[2]


def read_clipped(match: re.Match[str]) -> Reading:
    """A clipped word: 'tis, rock 'n' roll; the apostrophe belongs to it."""
    if left_of(match, 1).isalnum():
        return None
    word = match[1]
    return word if word.lower() in ("n", "em") else f"'{word}"


def read_stop(match: re.Match[str]) -> Reading:
    """Punctuation marks that may end a sentence, with the quotes and brackets that close after them."""
    marks = match.group()
    ends = begins_sentence(match.string, match.end(), after_abbreviation=False)
    if "?" in marks:
        pause = "?"
    elif "!" in marks:
        pause = "!"
    elif "…" in marks or ".." in marks:
        pause = "." if ends else "…"
    else:
        pause = "."
    return [Part(marks, pause, Kind.MARK, ends_sentence=ends)]


def read_pause(match: re.Match[str]) -> Reading:
    """A punctuation mark that is a pause: comma, semicolon, colon."""
    return match.group()[0]


def read_dash(match: re.Match[str]) -> Reading:
    """A dash between words is a pause; any other hyphen is silent."""
    long = match.group().strip() != "-" or (left_of(match, 1) in ("", " ") and right_of(match, 1) in ("", " "))
    inside = match.group() == "–" and left_of(match, 1).isalnum() and right_of(match, 1).isalnum()
    return "—" if long and not inside else ""


def read_bracket(match: re.Match[str]) -> Reading:
    """A bracket: a pause like a comma."""
    return ","


def read_nothing(match: re.Match[str]) -> Reading:
    """A punctuation mark that is not spoken."""
    return ""


# Words that other rules read even where a space or comma follows.
SPECIAL = frozenset(
    {*UNITS, *MONTHS, *SHORT_MONTHS, *DAYS, *BARE, *STOPLESS, *("am", "pm", "Am", "Pm", "sq", "et", "Ph")}
    | {form for word in ("apt", "rmt", "ext") for form in (word, word.capitalize())}
)
RE_MAYBE_ROMAN = re.compile("[ivxlc]+")
COMMON = [Rule(Kind.WORD, "l", re.compile(rf"[A-Za-z][a-z]{{1,{LONGEST_WORD}}}(?=[ ,;!?\n]|$)"), read_common)]
BREAKS = [Rule(Kind.BREAK, "s", re.compile(r"[ \n]*\n[ \n]*"), read_break)]
RULES = [
    Rule(Kind.WORD, "l", re.compile(rf"({LETTERS})\((e?s)\)(?!\w)"), read_optional_plural),
    Rule(Kind.WORD, "s", re.compile(rf"'({CLIPPED})(?![\w])'?", re.I), read_clipped),
    Rule(
        Kind.WORD,
        "l",
        re.compile(rf"{LETTERS}(?:'[^\W\d_]{{1,20}}){{0,2}}(?:-{LETTERS}(?:'[^\W\d_]{{1,20}})?){{0,3}}"),
        read_word,
    ),
    Rule(Kind.MARK, "s", re.compile(r"[.!?…](?:[.!?…\"')\]]*[\"')\].!?…])?"), read_stop),
    Rule(Kind.MARK, "s", re.compile(r"[,;:]+"), read_pause),
    Rule(Kind.MARK, "s", re.compile(r"[-–—]+"), read_dash),
    Rule(Kind.MARK, "s", re.compile(r"[()\[\]{}|•·]+"), read_bracket),
    Rule(Kind.MARK, "s", re.compile(r"[\"'*_/\\~^#<>°©®™&+=%]+"), read_nothing),
]
