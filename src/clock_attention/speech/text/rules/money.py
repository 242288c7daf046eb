"""Amounts of money. The currency is spoken after the amount, wherever it is written."""

from __future__ import annotations

import re

from clock_attention.speech.text.number_words import cardinal, decimal
from clock_attention.speech.text.tokens import (
    Kind,
    Part,
    Reading,
    Rule,
    after_closely,
    before_closely,
    left_of,
    word_set,
)

# sign or code: one, several, a hundredth, hundredths
CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "", ""),
    "¢": ("cent", "cents", "", ""),
    "USD": ("U.S. dollar", "U.S. dollars", "cent", "cents"),
    "CAD": ("Canadian dollar", "Canadian dollars", "cent", "cents"),
    "AUD": ("Australian dollar", "Australian dollars", "cent", "cents"),
    "EUR": ("euro", "euros", "cent", "cents"),
    "GBP": ("pound", "pounds", "penny", "pence"),
    "JPY": ("yen", "yen", "", ""),
    "CHF": ("Swiss franc", "Swiss francs", "centime", "centimes"),
    "INR": ("rupee", "rupees", "paisa", "paise"),
    "CNY": ("yuan", "yuan", "", ""),
}
COUNTRIES = {
    "US": "U.S.",
    "C": "Canadian",
    "CA": "Canadian",
    "A": "Australian",
    "AU": "Australian",
    "NZ": "New Zealand",
}
COUNTRIES |= {"HK": "Hong Kong", "S": "Singapore"}
SCALES = {"k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion"}
SCALES |= {"t": "trillion", "tn": "trillion"}
AMOUNT = r"(?:\d{1,3}(?:,\d{3}){1,5}|\d{1,15})(?:\.\d{1,9})?|\.\d{1,9}"
SCALE = r"(?: ?(?P<scale>hundred|thousand|million|billion|trillion)\b|(?P<short>[kKmMbBT]|[mbt]n|Bn|BN)(?!\w))?"
ARTICLES = word_set("a an the this that my your his her our their one each every another")
NO_NOUN = word_set(
    "a an and are as at because but by for from had has have i if in into is it more of off on or per so than "
    "that the then there they to was we were when which who will with you each apiece"
)


def described(match: re.Match[str]) -> bool:
    """Whether an amount of money describes a noun, as in "a $5 bill", where the currency is in the singular."""
    noun = after_closely(match)
    return before_closely(match).lower() in ARTICLES and bool(noun) and noun.lower() not in NO_NOUN


def amount(written: str, currency: str, country: str, singular: bool) -> str:
    """An amount of money in words: units and hundredths."""
    one, several, hundredth, hundredths = CURRENCIES[currency]
    if country:
        one, several = f"{country} {one}", f"{country} {several}"
    whole, _, fraction = written.replace(",", "").partition(".")
    if fraction and (len(fraction) != 2 or not hundredth) and fraction.strip("0"):
        return f"{decimal(written)} {several}"
    units, cents = int(whole or 0), int(fraction or 0)
    parts = [f"{cardinal(units)} {one if units == 1 or singular else several}"] if units or not cents else []
    if cents:
        parts.append(f"{cardinal(cents)} {hundredth if cents == 1 or singular else hundredths}")
    return " and ".join(parts)


def read_money(match: re.Match[str]) -> Reading:
    """Money with the sign before the amount: $5, -€3.50, US$2 million."""
    written, sign = match["amount"], match["sign"]
    country = COUNTRIES.get(match["country"] or "", "")
    minus = "minus " if match["minus"] else ""
    scale = match["scale"] or SCALES.get((match["short"] or "").lower(), "")
    one, several = CURRENCIES[sign][:2]
    name = f"{country} {one if described(match) else several}".strip()
    head = match.group()[: match.end("amount") - match.start()]
    if match["scale"]:
        return [Part(head, minus + decimal(written)), Part(match["scale"], f"{scale} {name}")]
    if scale:
        return f"{minus}{decimal(written)} {scale} {name}"
    return minus + amount(written, sign, country, described(match))


def read_money_range(match: re.Match[str]) -> Reading:
    """A range of money: $5–10 million."""
    one, several = CURRENCIES[match["sign"]][:2]
    scale = match["scale"] or SCALES.get((match["short"] or "").lower(), "")
    name = one if described(match) else several
    last = match.group()[match.start("last") - match.start() :]
    return [
        Part(match["sign"] + match["first"], decimal(match["first"])),
        Part(match["dash"], "to", Kind.RANGE),
        Part(last, " ".join(filter(None, [decimal(match["amount"]), scale, name]))),
    ]


def read_money_after(match: re.Match[str]) -> Reading:
    """Money with the currency after the amount: 10 €, 50¢, 100 USD."""
    return amount(match["amount"], match["sign"], "", described(match))


def read_per(match: re.Match[str]) -> Reading:
    """The slash after money or a measure: $20/hr, 10 km/day."""
    return "per" if re.search(r"[\w%]$", left_of(match, 1)) and re.search(r"[$£€¥\d]", left_of(match, 16)) else None


SIGN = "[$£€¥₹₩]"
CODES = "USD|CAD|AUD|EUR|GBP|JPY|CHF|INR|CNY"
PERIODS = (
    "hr|hour|h|day|wk|week|mo|month|yr|year|person|night|kg|lb|oz|g|gal|gallon|bbl|barrel|mile|km|unit|piece|ft|foot|"
    "min|sec|s"
)
RULES = [
    Rule(
        Kind.MONEY,
        "s",
        re.compile(
            rf"(?P<sign>{SIGN})(?P<first>{AMOUNT})(?P<dash> ?[-–—] ?)"
            rf"(?P<last>{SIGN}?)(?P<amount>{AMOUNT}){SCALE}(?![\d-])"
        ),
        read_money_range,
    ),
    Rule(
        Kind.MONEY,
        "ls",
        re.compile(rf"(?P<minus>-?)(?P<country>US|CA|C|AU|A|NZ|HK|S)?(?P<sign>{SIGN}) ?(?P<amount>{AMOUNT}){SCALE}"),
        read_money,
    ),
    Rule(
        Kind.MONEY,
        "l",
        re.compile(rf"(?P<minus>)(?P<country>)\b(?P<sign>{CODES}) ?(?P<amount>{AMOUNT}){SCALE}"),
        read_money,
    ),
    Rule(Kind.MONEY, "ds", re.compile(rf"(?P<amount>{AMOUNT}) ?(?P<sign>[¢€£])(?![\d])"), read_money_after),
    Rule(Kind.MONEY, "ds", re.compile(rf"(?P<amount>{AMOUNT}) (?P<sign>{CODES})(?!\w)"), read_money_after),
    Rule(Kind.MONEY, "s", re.compile(rf"/(?=(?:{PERIODS})(?!\w))"), read_per),
]
