"""Web and mail addresses, file names and handles: dots, slashes and signs are read by name."""

from __future__ import annotations

import re

from clock_attention.speech.text.number_words import cardinal, digits, in_pairs
from clock_attention.speech.text.rules.letters import named, read_letters
from clock_attention.speech.text.tokens import Kind, Rule, left_of, word_set

DOMAINS = "com|org|net|edu|gov|mil|int|io|ai|co|uk|de|fr|ca|au|jp|cn|ru|eu|nl|ch|se|br|info|biz|tv|ly|app|dev|xyz|gg|fm"
FILES = (
    "py|md|html?|js|ts|css|json|toml|ya?ml|txt|pdf|docx?|xlsx?|pptx?|csv|zip|tar|gz|exe|dll|jpe?g|png|gif|svg|mp3|mp4|"
    "wav|flac|sh|cpp|hpp|rs|go|java|rb|php|xml|log|ini|cfg|bat|iso|apk|ipynb|tex|srt|vtt"
)
LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,40}[A-Za-z0-9])?"
PATH = r"(?:/[\w~%&=?+.#-]{0,60}(?<![.?])){0,12}"
SIGNS = {".": "dot", "/": "slash", "-": "dash", "_": "underscore", "~": "tilde", "%": "percent", "&": "and"}
SIGNS |= {"=": "equals", "?": "question mark", "+": "plus", "#": "hash", ":": "colon", "@": "at", "\\": "backslash"}
SPELLED = frozenset(FILES.replace("?", "").split("|")) | word_set(
    "uk de fr ca au jp cn ru eu nl ch se br io ai tv ly gg fm mil bbc cnn ibm mit nyu www http https ftp api cdn "
    "faq id htm yml doc xls ppt jpg"
)
SAID = word_set("com org net edu gov int info biz app dev zip tar log go java toml json jpeg gif png jpg bat co ini")
RE_LABEL_PIECE = re.compile(r"[A-Z]?[a-z]{1,60}|[A-Z]{1,60}|\d{1,60}|[^\W\d_]{1,60}|.", re.DOTALL)


def read_address(written: str) -> str:
    """A web or mail address: "jane_doe99@example.com" → "jane underscore doe ninety nine at example dot com"."""
    words = []
    for piece in RE_LABEL_PIECE.findall(written):
        if piece.isdecimal():
            words.append(cardinal(int(piece)) if len(piece) < 3 and piece[0] != "0" else digits(piece))
        elif piece in SIGNS:
            words.append(SIGNS[piece])
        elif piece.isalpha():
            words.append(read_label(piece))
    return " ".join(words)


def read_label(piece: str) -> str:
    """One part of a web address: a word, or letters spelled out."""
    lower = piece.lower()
    if lower in SAID:
        return {"jpg": "jpeg"}.get(lower, lower)
    if len(piece) == 1 or lower in SPELLED or not re.search("[aeiouy]", lower):
        return named(piece)
    return piece if not piece.isupper() else read_letters(piece)


def read_url(match: re.Match[str]) -> str:
    """A web address, read without its scheme."""
    return read_address(re.sub(r"^(?:https?|ftp)://", "", match.group(), flags=re.IGNORECASE).rstrip("/"))


def read_file_name(match: re.Match[str]) -> str:
    """A file name, read like a web address: report_v2.pdf."""
    return read_address(match.group())


def read_path(match: re.Match[str]) -> str:
    r"""The path of a file, such as /etc/hosts or C:\Users."""
    return read_address(match.group())


def read_option(match: re.Match[str]) -> str | None:
    """A command-line option: --seed=42."""
    return "dash dash" if left_of(match, 1) in ("", " ", '"') else None


def read_suffix(match: re.Match[str]) -> str | None:
    """The suffix of a file or web address, ".com", ".NET", ".pdf", only if nothing precedes the dot."""
    if left_of(match, 1).isalnum() or left_of(match, 1) == ".":
        return None
    name = match[1]
    return f"dot {name.lower()}" if name.lower() in {*SAID, "net"} else f"dot {read_label(name)}"


def read_four_numbers(match: re.Match[str]) -> str | None:
    """An IP address: four numbers."""
    parts = match.group().split(".")
    if any(int(part) > 255 for part in parts):
        return None
    return " dot ".join(
        in_pairs(part) if len(part) == 3 else digits(part) if part[0] == "0" else cardinal(int(part)) for part in parts
    )


def read_version(match: re.Match[str]) -> str:
    """A version number: v2.0.1."""
    numbers = [cardinal(int(part)) if part == "0" or part[0] != "0" else digits(part) for part in match[2].split(".")]
    return ("version " if match[1] else "") + " point ".join(numbers)


def read_handle(match: re.Match[str]) -> str | None:
    """A social-media handle or hashtag: @someone, #topic."""
    if left_of(match, 1).isalnum():
        return None
    return ("at " if match.group()[0] == "@" else "hashtag ") + read_address(match.group()[1:])


RULES = [
    Rule(
        Kind.EMAIL,
        "dl",
        re.compile(rf"[A-Za-z0-9][\w.+-]{{0,40}}@{LABEL}(?:\.{LABEL}){{1,4}}"),
        lambda match: read_address(match.group()),
    ),
    Rule(
        Kind.URL, "l", re.compile(rf"(?:https?|ftp)://{LABEL}(?:\.{LABEL}){{0,5}}(?::\d{{1,5}})?{PATH}", re.I), read_url
    ),
    Rule(Kind.URL, "l", re.compile(rf"www\.{LABEL}(?:\.{LABEL}){{1,5}}(?::\d{{1,5}})?{PATH}", re.I), read_url),
    Rule(
        Kind.URL,
        "dl",
        re.compile(rf"(?:{LABEL}\.){{1,4}}(?:{DOMAINS})(?![\w-]|\.\w)(?::\d{{1,5}})?{PATH}"),
        read_url,
    ),
    Rule(Kind.URL, "s", re.compile(r"(?<![\w/.)])~?(?:/[A-Za-z][\w-]{0,40}(?:\.\w{1,10})?){2,12}/?"), read_path),
    Rule(Kind.URL, "l", re.compile(r"\b[A-Za-z]:(?:\\[\w-]{1,40}(?:\.\w{1,10})?){1,12}"), read_path),
    Rule(Kind.CODE, "s", re.compile(r"--(?=[a-z][\w-]{0,40}=)"), read_option),
    Rule(Kind.URL, "l", re.compile(rf"[A-Za-z][\w-]{{0,40}}\.(?:{FILES})(?!\w)"), read_file_name),
    Rule(Kind.URL, "s", re.compile(rf"\.((?:{DOMAINS}|{FILES}|NET))(?!\w)"), read_suffix),
    Rule(Kind.URL, "s", re.compile(r"[@#][A-Za-z]\w{0,40}"), read_handle),
]
VERSIONS = [
    Rule(Kind.CODE, "d", re.compile(r"()\d{1,3}(?:\.\d{1,3}){3}(?!\.?\d)"), read_four_numbers),
    Rule(Kind.CODE, "dl", re.compile(r"(?:\b([vV])\.? ?)(\d{1,4}(?:\.\d{1,4}){1,4})(?!\w)"), read_version),
    Rule(Kind.CODE, "d", re.compile(r"()(\d{1,4}(?:\.\d{1,4}){2,4})(?!\w)"), read_version),
]
