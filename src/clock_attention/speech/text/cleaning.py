"""Free text → clean English text, sentences and phrases. Reading aloud (phonemes) is in `phonemes.py`.

What happens to unusual characters is documented behaviour, not an accident:

- typographic quotes, dashes, spaces and ligatures become their plain forms; accents are removed (`naïve` → `naive`);
- brackets become commas, since a reader pauses there;
- anything else that English spelling does not use (emoji, other scripts, control characters) is dropped, and
  `clean` returns what was dropped so that the caller can tell the user;
- digit runs too long to be a number are read digit by digit.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

PLAIN_FORMS = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′ʼ`´", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒−", "-"),
        **dict.fromkeys("–―", "—"),
        **dict.fromkeys("[]{}⟨⟩", ","),
        **dict.fromkeys("\t\n\r\u2028\u2029", " "),
        "⁄": "/",
        "×": " times ",
        "÷": " divided by ",
        "æ": "ae",
        "Æ": "Ae",
        "œ": "oe",
        "Œ": "Oe",
        "ø": "o",
        "Ø": "O",
        "ß": "ss",
        "ð": "th",
        "þ": "th",
        "ł": "l",
        "Ł": "L",
        "•": ",",
        "|": ",",
        "\\": " ",
        "_": " ",
    }
)
SPOKEN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 '\"-—.,;:!?…()/&%$£€¥₹¢°#@+=<>~*²³")
LONGEST_NUMBER = 15
RE_LONG_DIGITS = re.compile(rf"(?:\d[,.]?){{{LONGEST_NUMBER},}}\d")
RE_SENTENCE_END = re.compile(r"[.!?…]+[\"')\]”’»]*\s+(?=[\"'(\[“‘«—–\s]*([^\W_]))")  # before a capital or a digit
RE_INITIALS = re.compile(r"(?:[A-Z]\.)*[A-Z]")
RE_NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)*(?:st|nd|rd|th)?(?:'?s)?(?![\w])")
ENDING = frozenset({"etc", "inc", "ltd", "co", "jr", "sr", "a.m", "p.m"})  # abbreviations that may close a sentence
RE_CLAUSE_END = re.compile(r"(?<=[,;:.!?…—])\s+|(?<=[—])")


def hibari_reader(part: str) -> Any:
    """A module of hibari's reader: numbers, or normalize. They bring SciPy along: half a second that can wait."""
    return import_module(f"hibari.g2p.{part}")


@cache
def continuing() -> frozenset[str]:
    """Abbreviations after which a capital letter usually continues the sentence."""
    known = hibari_reader("normalize")
    words = [*known.TITLES, *known.ABBREV, "Messrs", "e.g", "i.e", "no", "v", "viz"]
    return frozenset(word.lower().rstrip(".") for word in words) - ENDING


def clean(text: str) -> tuple[str, str]:
    """Plain characters only. Returns (text, the characters that had to be dropped, in order and without repeats)."""
    text = text.translate(PLAIN_FORMS)
    decomposed = unicodedata.normalize("NFKD", text.replace("²", " squared ").replace("³", " cubed "))
    kept, dropped = [], dict[str, None]()
    for character in decomposed.translate(PLAIN_FORMS):
        if character in SPOKEN:
            kept.append(character)
        elif character.isspace():
            kept.append(" ")
        elif not unicodedata.combining(character):
            dropped[character] = None
            kept.append(" ")
    plain = RE_LONG_DIGITS.sub(lambda digits: " ".join(re.findall(r"\d", digits.group())), "".join(kept))
    plain = re.sub(r"--+|\s-\s", " — ", plain)
    return re.sub(r"\s+", " ", plain).strip(), "".join(dropped)


def normalize(text: str) -> str:
    """Clean text with times, dates, units, currencies, titles and abbreviations in words.

    Plain numbers stay as digits: their reading depends on the grammar around them and belongs to the phonemizer
    (`spell_numbers` writes them out for those that need it).
    """
    return str(hibari_reader("normalize").normalize(clean(text)[0]))


def spell_numbers(text: str) -> str:
    """Cardinals, ordinals, years, decimals and amounts of money in words."""
    ones = hibari_reader("numbers").ONES
    text = re.sub(r"([$£€])\s?(\d[\d,]*)(?:\.(\d\d))?(?!\d)", _money, text)
    text = re.sub(r"(\d)\s?%", r"\1 percent", text)
    text = RE_NUMBER.sub(lambda match: f" {_number(match.group())} ", text)
    text = re.sub(r"\d", lambda digit: f" {ones[int(digit.group())]} ", text)
    return re.sub(r"\s+([,.;:!?])", r"\1", re.sub(r"\s+", " ", text)).strip()


def _money(match: re.Match[str]) -> str:
    cardinal = hibari_reader("numbers").cardinal
    unit, cent = {"$": ("dollar", "cent"), "£": ("pound", "penny"), "€": ("euro", "cent")}[match.group(1)]
    whole, fraction = int(match.group(2).replace(",", "") or 0), int(match.group(3) or 0)
    cents = "pence" if cent == "penny" and fraction != 1 else cent + ("s" if fraction != 1 else "")
    parts = [f"{cardinal(whole)} {unit}{'' if whole == 1 else 's'}"] if whole or not fraction else []
    return " and ".join(parts + ([f"{cardinal(fraction)} {cents}"] if fraction else []))


def _number(written: str) -> str:
    numbers = hibari_reader("numbers")
    possessive = "s" if re.search(r"'?s$", written) and not written.endswith(("1st",)) else ""
    digits = re.sub(r"'?s$", "", written) if possessive else written
    ordinal = re.search(r"(st|nd|rd|th)$", digits)
    value = re.sub(r"(st|nd|rd|th)$", "", digits).replace(",", "")
    minus, value = ("minus ", value[1:]) if value.startswith("-") else ("", value)
    if ordinal:
        words = numbers.ordinal(int(value.partition(".")[0]))
    elif value.count(".") > 1:
        words = " point ".join(numbers.cardinal(int(part)) for part in value.split("."))
    elif "." in value:
        words = numbers.decimal(value)
    elif len(value) == 4 and "," not in written:
        words = numbers.year(int(value))
    else:
        words = numbers.cardinal(int(value))
    if possessive:
        words = words[:-1] + "ies" if words.endswith("y") else words + "s"
    return minus + words.replace(",", "")


def split_sentences(text: str) -> list[str]:
    """Sentences of a longer text; blank lines always separate. Titles, initials and abbreviations do not end one."""
    sentences = []
    for paragraph in re.split(r"\n\s*\n", text):
        paragraph = re.sub(r"\s+", " ", paragraph).strip()
        start = 0
        for match in RE_SENTENCE_END.finditer(paragraph):
            opens = match.group(1).isupper() or match.group(1).isdigit()
            if opens and _ends_sentence(paragraph[start : match.start()], match.group()):
                sentences.append(paragraph[start : match.end()].strip())
                start = match.end()
        sentences.append(paragraph[start:].strip())
    return [sentence for sentence in sentences if sentence]


def _ends_sentence(before: str, mark: str) -> bool:
    if not mark.startswith(".") or mark.startswith(".."):
        return True
    *earlier, last_word = [word.lstrip("(\"'“‘") for word in before.split()[-2:]] or [""]
    if last_word == "I":  # "Robert I. Bouck" goes on, "So did I. Then" does not
        return not (earlier and earlier[0][:1].isupper() and earlier[0].isalpha())
    is_initial = RE_INITIALS.fullmatch(last_word) is not None
    return not (is_initial or last_word.lower() in continuing())


def split_phrases(text: str, shortest: int, longest: int, seed: int | str = 0) -> Iterator[str]:
    """Cut text into phrases of varied length, at punctuation where possible and at word boundaries otherwise.

    Each phrase aims at a length drawn uniformly from shortest…longest letters, so that a corpus covers short and long
    utterances alike; only what is left at the end of a text may be shorter.
    """
    if not 0 < shortest <= longest:
        raise ValueError(f"phrase lengths must satisfy 0 < shortest <= longest, got {shortest} and {longest}")
    draw = random.Random(f"phrases:{seed}")
    clauses = [clause for clause in RE_CLAUSE_END.split(re.sub(r"\s+", " ", text).strip()) if clause]
    phrase, aim = "", draw.randint(shortest, longest)
    for piece in [piece for clause in clauses for piece in _pieces(clause, shortest, longest)]:
        joined = f"{phrase} {piece}".strip()
        if (phrase and len(joined) > max(aim, shortest) and len(phrase) >= shortest) or (
            len(joined) > longest and phrase
        ):
            yield phrase
            phrase, aim = piece, draw.randint(shortest, longest)
        else:
            phrase = joined
    if phrase:
        yield phrase


def _pieces(clause: str, shortest: int, longest: int) -> list[str]:
    """Equal parts of a clause that is too long, cut between words."""
    parts = -(-len(clause) // longest)
    if parts == 1:
        return [clause]
    words, pieces, current = clause.split(" "), [], ""
    target = max(shortest, len(clause) // parts)
    for word in words:
        if current and len(current) + 1 + len(word) > target + 5:
            pieces.append(current)
            current = word
        else:
            current = f"{current} {word}".strip()
    return [*pieces, current]
