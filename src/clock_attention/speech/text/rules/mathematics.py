"""Mathematical signs and other symbols that have a name."""

from __future__ import annotations

import re
import unicodedata

from clock_attention.speech.text.number_words import cardinal, ordinal
from clock_attention.speech.text.rules.letters import named
from clock_attention.speech.text.tokens import Kind, Reading, Rule, left_of, right_of

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
OPERATORS = {
    **{"=": "equals", "<": "is less than", ">": "is greater than", "≤": "is less than or equal to", "×": "times"},
    **{"≥": "is greater than or equal to", "≠": "is not equal to", "÷": "divided by", "±": "plus or minus"},
    **{"≈": "approximately", "→": "to", "+": "plus", "∞": "infinity", "&": "and", "@": "at", "%": "percent"},
    **{"§": "section", "√": "the square root of", "¢": "cents", "£": "pounds", "€": "euros", "$": "dollars"},
    **{"¥": "yen", "₹": "rupees", "₩": "won", "¶": "paragraph"},
    **{">=": "is greater than or equal to", "<=": "is less than or equal to", "!=": "is not equal to"},
    **{"==": "equals", "&&": "and"},
}
RE_DIALED = re.compile(r"\b(?:[Dd]ial|[Pp]ress)\b[^.!?]*$")


def power(exponent: int) -> str:
    """A mathematical exponent in words: "squared", "to the fourth"."""
    if exponent in (2, 3):
        return ("squared", "cubed")[exponent - 2]
    return f"to the minus {ordinal(-exponent)}" if exponent < 0 else f"to the {ordinal(exponent)}"


def read_power(match: re.Match[str]) -> Reading:
    """The mathematical exponents "^6" and "²" after a number or a letter."""
    if not re.search(r"[\w)\]]$", left_of(match, 1)):
        return None
    return power(int(match[1].translate(SUPERSCRIPTS)))


def read_variable(match: re.Match[str]) -> Reading:
    """One or two letters with a mathematical exponent: x², mc²."""
    return named(match.group())


def read_lone_letter(match: re.Match[str]) -> Reading:
    """A letter in mathematics, next to an operator or between other letters: a + b = c."""
    left, right = left_of(match, 4), right_of(match, 4)
    operator = r"[=<>≤≥≠±≈+×÷→*]"
    beside = re.search(rf"{operator} ?$", left) or re.match(rf" ?{operator}", right)
    return named(match.group()) if beside else None


def read_operator(match: re.Match[str]) -> Reading:
    """A mathematical sign such as +, =, < or ≤."""
    sign = match.group()
    if sign in ("<", ">") and not (re.search(r"\w ?$", left_of(match, 2)) and re.match(r" ?[\w-]", right_of(match, 2))):
        return None
    return OPERATORS[sign]


def read_star(match: re.Match[str]) -> Reading:
    """The mathematical sign *: "times" between numbers, "star" where it is dialed."""
    if RE_DIALED.search(left_of(match, 40)):
        return "star"
    between = re.search(r"\d ?$", left_of(match, 2)) and re.match(r" ?\d", right_of(match, 2))
    return "times" if between else None


def read_slash(match: re.Match[str]) -> Reading:
    """The mathematical sign /: a division between numbers, silent between words."""
    if re.search(r"\d ?$", left_of(match, 2)) and re.match(r" ?\d", right_of(match, 2)):
        return "divided by"
    return None


def read_about(match: re.Match[str]) -> Reading:
    """The mathematical sign ~ before a number: "about"."""
    return "about" if re.match(r"\s?\$?\d", right_of(match, 3)) else None


def read_number_sign(match: re.Match[str]) -> Reading:
    """The symbol # before a number: "number"."""
    return "number"


def read_pound_key(match: re.Match[str]) -> Reading:
    """The symbol # where it is dialed: "pound"."""
    return "pound" if RE_DIALED.search(left_of(match, 40)) else None


def read_subtraction(match: re.Match[str]) -> Reading:
    """The minus sign in mathematics: x - 5, 3x - 5."""
    return "minus" if re.search(r"(?:(?:^|[\s(+*/=])[a-z]|\dx|\^\d|[²³]) $", left_of(match, 4)) else None


def read_function(match: re.Match[str]) -> Reading:
    """A function in mathematics: f(x)."""
    return f"{named(match[1])} of {named(match[2])}"


def read_greek(match: re.Match[str]) -> Reading:
    """The name of a Greek letter in mathematics."""
    name = unicodedata.name(match.group(), "").lower().split()
    return name[-1] if name[:1] == ["greek"] else None


def read_exponential(match: re.Match[str]) -> Reading:
    """Powers of ten in mathematics, such as 6e23."""
    return f"{cardinal(int(match[1]))} times ten {power(int(match[2]))}" if abs(int(match[2])) > 3 else None


RULES = [
    Rule(Kind.MATH, "d", re.compile(r"(\d{1,3})[eE]([+-]?\d{1,2})(?![\w.])"), read_exponential),
    Rule(Kind.MATH, "s", re.compile(r"\^\{?(-?\d{1,3})\}?(?!\w)"), read_power),
    Rule(Kind.MATH, "ds", re.compile(r"(⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3})"), read_power),
    Rule(Kind.MATH, "l", re.compile(r"\b[A-Za-z]{1,2}(?=[²³⁴⁵⁶⁷⁸⁹^])"), read_variable),
    Rule(Kind.MATH, "l", re.compile(r"\b[B-HJ-Zb-hj-zAa](?![\w'.])"), read_lone_letter),
    Rule(Kind.MATH, "s", re.compile(r"~"), read_about),
    Rule(Kind.MATH, "s", re.compile(r"#(?=\d)"), read_number_sign),
    Rule(Kind.MATH, "s", re.compile(r"#(?![\w#])"), read_pound_key),
    Rule(Kind.MATH, "s", re.compile(r"-(?= \d)"), read_subtraction),
    Rule(Kind.MATH, "l", re.compile(r"\b([a-zA-Z])\(([a-z])\)"), read_function),
    Rule(Kind.MATH, "s", re.compile(r"\*"), read_star),
    Rule(Kind.MATH, "s", re.compile(r"/"), read_slash),
    Rule(
        Kind.MATH,
        "s",
        re.compile("|".join(re.escape(sign) for sign in sorted(OPERATORS, key=len, reverse=True))),
        read_operator,
    ),
    Rule(Kind.MATH, "l", re.compile(r"[\u0370-\u03ff]"), read_greek),
]
