"""Abbreviations, read according to their context: "Dr. Elm" and "Elm Dr.", "No. 5" and "I said no."."""

from __future__ import annotations

import re

from clock_attention.speech.text.rules.sentence_endings import STARTERS, with_stop
from clock_attention.speech.text.tokens import (
    Kind,
    Reading,
    Rule,
    after,
    after_closely,
    before_closely,
    left_of,
    right_of,
    word_set,
)

# Before a name. Those in BARE also without a stop.
TITLES = {
    **{"Mr": "mister", "Mrs": "missus", "Ms": "miz", "Dr": "doctor", "Prof": "professor", "St": "saint", "Mt": "mount"},
    **{"Ft": "fort", "Gen": "general", "Gov": "governor", "Sen": "senator", "Rep": "representative", "Capt": "captain"},
    **{"Lt": "lieutenant", "Col": "colonel", "Sgt": "sergeant", "Cmdr": "commander", "Rev": "reverend"},
    **{"Hon": "honorable", "Pres": "president", "Supt": "superintendent", "Cpl": "corporal", "Maj": "major"},
    **{
        "Adm": "admiral",
        "Fr": "father",
        "Msgr": "monsignor",
        "Messrs": "messieurs",
        "Mme": "madame",
        "Atty": "attorney",
    },
    **{"Amb": "ambassador", "Sec": "secretary", "Pvt": "private", "Det": "detective", "Insp": "inspector"},
}
BARE = frozenset({"Mr", "Mrs", "Ms", "Dr", "Prof", "St", "Mt", "Ft"})
# After a name.
STREETS = {"St": "street", "Dr": "drive"}
# Anywhere, with a stop; they may end a sentence.
CLOSING = {
    **{"Ave": "avenue", "Blvd": "boulevard", "Rd": "road", "Ln": "lane", "Hwy": "highway", "Pkwy": "parkway"},
    **{"Pl": "place", "Sq": "square", "Bldg": "building", "Inc": "incorporated", "Ltd": "limited"},
    **{"Corp": "corporation", "Co": "company", "Bros": "brothers", "Jr": "junior", "Sr": "senior", "Esq": "esquire"},
    **{"etc": "etcetera", "dept": "department", "Dept": "department", "misc": "miscellaneous", "Misc": "miscellaneous"},
    **{"approx": "approximately", "asst": "assistant", "Asst": "assistant", "Univ": "university", "univ": "university"},
    **{"Attn": "attention", "attn": "attention", "Assn": "association", "assn": "association", "Govt": "government"},
    **{"govt": "government", "intl": "international", "Intl": "international", "natl": "national", "max": "maximum"},
    **{
        "avg": "average",
        "incl": "including",
        "excl": "excluding",
        "assoc": "associate",
        "gen": "general",
        "co": "company",
    },
    **{
        "Tel": "telephone",
        "tel": "telephone",
        "doz": "dozen",
        "orig": "original",
        "cont": "continued",
        "Approx": "approximately",
    },
    **{"bldg": "building", "pkg": "package", "Fl": "floor", "ea": "each"},
    **{"temp": "temperature", "Temp": "temperature", "ret": "retired", "med": "medium"},
}
# Those of them that are expanded only in a suitable context.
DOUBTFUL = word_set("max gen co Co Pl Sq Corp temp Temp Fl ea ret med")
# Also expanded without a stop.
STOPLESS = {
    "Ave": "avenue",
    "Blvd": "boulevard",
    "Rd": "road",
    "Hwy": "highway",
    "Ltd": "limited",
    "Jr": "junior",
    "Sr": "senior",
}
STOPLESS |= {
    "vs": "versus",
    "aka": "also known as",
    "AKA": "also known as",
    "ctrl": "control",
    "Ctrl": "control",
    "approx": "approximately",
    **{"YoY": "year over year", "QoQ": "quarter over quarter", "MoM": "month over month"},
    **{"WWI": "World War One", "WWII": "World War Two", "WW1": "World War One", "WW2": "World War Two"},
    **{"Utd": "United", "mtg": "meeting", "Mtg": "meeting"},
    # As in chats and text messages.
    **{"pls": "please", "Pls": "please", "plz": "please", "thx": "thanks", "Thx": "thanks", "btw": "by the way"},
}
# Only before a number: singular, and plural if there is one.
REFERENCES = {
    **{
        "no": "number",
        "nos": "numbers",
        "fig": "figure",
        "figs": "figures",
        "p": "page",
        "pp": "pages",
        "vol": "volume",
    },
    **{"vols": "volumes", "ch": "chapter", "chs": "chapters", "sec": "section", "secs": "sections", "eq": "equation"},
    **{"eqs": "equations", "art": "article", "para": "paragraph", "rm": "room", "apt": "apartment", "ext": "extension"},
    **{
        "ste": "suite",
        "hwy": "highway",
        "rte": "route",
        "op": "opus",
        "est": "established",
        "c": "circa",
        "ca": "circa",
    },
    **{"tab": "table", "ver": "version", "bk": "book", "pt": "part", "sect": "section"},
}
LATIN = {"e.g.": "for example", "i.e.": "that is", "cf.": "compare", "Cf.": "compare", "vs.": "versus", "Vs.": "versus"}
LATIN |= {
    "et al.": "et al",
    "viz.": "namely",
    "a.k.a.": "also known as",
    "A.k.a.": "also known as",
    "A.K.A.": "also known as",
}
LATIN |= {"q/q": "quarter over quarter", "y/y": "year over year", "m/m": "month over month", "TL;DR": "T.L.D.R."}
LATIN |= {"Sec.-Gen.": "secretary general"}
LATIN |= {"w/o": "without", "w/": "with", "b/c": "because", "E.g.": "for example", "I.e.": "that is", "ca.": "circa"}
RE_STREET_BEFORE = re.compile(r"(?:[A-Z][a-z]+(?:'s)?|\d{1,3}(?:st|nd|rd|th)) $")
RE_NUMBERED_STREET = re.compile(r"\d{1,5} (?:[A-Z][a-z]+ ){1,3}$")
RE_SENTENCE_START = re.compile(r"(?:^|[.!?\n\"']\s*)[A-Z][a-z]+ $")


def alternatives(words: object) -> str:
    """A pattern for any of these abbreviations, longest first."""
    return "|".join(re.escape(str(word)) for word in sorted(words, key=len, reverse=True))  # type: ignore[call-overload]


def read_title(match: re.Match[str]) -> Reading:
    """Abbreviations of titles and saints before a capital, and of streets (St., Dr.) after a name."""
    word, stop = match[1], match.group().endswith(".")
    following = after_closely(match)
    if not stop and word not in BARE:
        return None
    if word in STREETS and is_street(match, following):
        return with_stop(match, STREETS[word])
    if following[:1].isupper() or (stop and re.match(r" (?:and|&) (?:Mrs|Ms|Dr)", right_of(match))):
        return TITLES[word]
    if stop and word in CLOSING:
        return None
    return TITLES[word] if stop and word in ("Mr", "Mrs", "Ms", "Dr", "Prof") else None


def is_street(match: re.Match[str], following: str) -> bool:
    """Whether the abbreviation St. or Dr. means a street."""
    left = left_of(match, 48)
    if RE_NUMBERED_STREET.search(left):
        return True
    if not RE_STREET_BEFORE.search(left):
        return False
    if not following[:1].isupper():
        return True
    return following.lower() in STARTERS and not RE_SENTENCE_START.search(left)


def read_reference(match: re.Match[str]) -> Reading:
    """Abbreviations of references: "No. 5", "pp. 3–5"; "The answer is no. 5 people left." has none."""
    word = match[1].lower()
    if word == "no" and match[1] == "no":
        counted = re.match(r" ?\d{1,6} ([a-z]+)", right_of(match, 24))
        if counted and (
            (counted[1].endswith("s") and counted[1] not in ("is", "was", "has")) or counted[1] == "people"
        ):
            return None
        if re.match(r" ?[A-Za-z]{2}", right_of(match, 3)):
            return None
    if word in ("c", "ca") and not re.match(r" ?\d{3,4}(?!\d)", right_of(match)):
        return None
    return REFERENCES[word]


def read_closing(match: re.Match[str]) -> Reading:
    """Abbreviations that end a name or amount, such as Inc., Co. and approx."""
    word = match[1]
    if word in DOUBTFUL and not closing_fits(match, word):
        return None
    return with_stop(match, CLOSING[word])


def closing_fits(match: re.Match[str], word: str) -> bool:
    """Whether an ambiguous abbreviation, such as Co. or max., can be meant here."""
    if word in ("Co", "Pl", "Sq", "Corp"):
        return before_closely(match)[:1].isupper() or before_closely(match) == "and" or left_of(match, 2) == "& "
    if word in ("Fl", "ea"):
        return re.search(r"\d(?:st|nd|rd|th)? $", left_of(match, 4)) is not None
    if word == "med":
        return after_closely(match) in ("heat", "flame", "high", "low")
    if word == "ret":
        return left_of(match, 1) == "(" or left_of(match, 2) == ", "
    return after_closely(match).islower() or (word == "max" and re.match(r" \d", right_of(match, 2)) is not None)


def read_stopless(match: re.Match[str]) -> Reading:
    """Abbreviations without a stop."""
    word = match[1]
    if word in CLOSING and not before_closely(match)[:1].isupper() and not re.match(r" \d", right_of(match, 2)):
        return None
    return STOPLESS[word]


def read_latin(match: re.Match[str]) -> Reading:
    """Latin abbreviations and others of several letters: e.g., i.e., etc., w/."""
    written = match.group()
    if written.startswith("w/") and written == "w/" and not re.match(r"\s?\w", right_of(match, 2)):
        return None
    return LATIN.get(written) or LATIN.get(written.replace(" ", ""))


def read_versus(match: re.Match[str]) -> Reading:
    """The abbreviations for contests: Roe v. Wade, Williams def. Osaka."""
    between_names = before_closely(match)[:1].isupper() and after(match)[:1].isupper()
    return {"v": "V.", "def": "defeated"}[match[1]] if between_names else None


def read_mail_header(match: re.Match[str]) -> Reading:
    """The abbreviations RE: and FW: before the subject of a message."""
    return "re" if match[1].lower() == "re" else "forward"


RULES = [
    Rule(Kind.ABBREVIATION, "l", re.compile(rf"\b(?:{alternatives(LATIN)}|[ei]\. [ge]\.)(?![\w])"), read_latin),
    Rule(Kind.ABBREVIATION, "l", re.compile(r"\b(v|def)\.(?= )"), read_versus),
    Rule(Kind.ABBREVIATION, "l", re.compile(r"\b(RE|Re|FWD?|Fwd?)(?=: )"), read_mail_header),
    Rule(
        Kind.ABBREVIATION,
        "l",
        re.compile(rf"\b({alternatives(REFERENCES)})\.(?= ?[A-Z]{{0,3}}\d)", re.I),
        read_reference,
    ),
    Rule(
        Kind.ABBREVIATION,
        "l",
        re.compile(r"\b(vols?|chs?|figs?|secs?|art|bk|pt|tab|eqs?|pp?)\.(?= (?:[IVXL]{2,6}|[VX])\b)", re.I),
        read_reference,
    ),
    Rule(Kind.ABBREVIATION, "l", re.compile(r"\b((?:ap|rm|ex)t)\b(?= \d)", re.I), read_reference),
    Rule(Kind.ABBREVIATION, "l", re.compile(rf"\b({alternatives(TITLES)})(?:\.|(?= [A-Z]))"), read_title),
    Rule(Kind.ABBREVIATION, "l", re.compile(rf"\b({alternatives(CLOSING)})\.(?!\w)"), read_closing),
    Rule(Kind.ABBREVIATION, "l", re.compile(rf"\b({alternatives(STOPLESS)})(?![\w'-]|\.\w)"), read_stopless),
]
