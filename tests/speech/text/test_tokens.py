"""Reading takes work linear in the length of a text, whatever the text: counted here, not timed."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.text.hibari import HibariPhonemizer, hibari_g2p
from clock_attention.speech.text.rules import RULES
from clock_attention.speech.text.sentences import sentences
from clock_attention.speech.text.tokens import Kind, Token, scan

try:
    from re import _constants, _parser  # Python 3.11 and later
except ImportError:
    import sre_constants as _constants  # type: ignore[no-redef]
    import sre_parse as _parser  # type: ignore[no-redef]

HOSTILE = (
    *(
        "1/",
        "9",
        ".",
        "a-",
        "aB",
        "x'",
        "A.",
        "<",
        "<a ",
        "[a](",
        "http://",
        "no. ",
        "Dr. ",
        "1,234,",
        "1.",
        "$",
        "(5",
        "@a",
    ),
    *(
        "I. ",
        "IV ",
        "&amp",
        "\n",
        " \n",
        "-",
        "–1",
        "½",
        "²",
        "'",
        '"',
        "a@",
        "w/",
        "Mon-",
        "5 ft",
        "AB",
        "e.g.",
        "…",
        "_a",
    ),
    *("1-", "1:", "é", "😀", "U.S", "x" * 50 + " ", "a.b.", "#", "*", "//", "<!--", "<script>", "10^", "12/", "Ph.D"),
)


def repeats(parsed: object) -> Iterator[tuple[int, int]]:
    """Every repetition in a parsed pattern: at least, at most."""
    for operator, argument in parsed:  # type: ignore[attr-defined]
        if operator in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
            yield argument[:2]
        for part in argument if isinstance(argument, tuple | list) else ():
            for piece in part if isinstance(part, list) else (part,):
                if isinstance(piece, _parser.SubPattern):
                    yield from repeats(piece)


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.kind not in (Kind.MARK, Kind.BREAK)], ids=lambda r: r.kind
)
def test_no_rule_looks_at_an_unbounded_number_of_characters(rule) -> None:
    # Marks and line ends may be of any length: what they match is consumed, and never looked at again.
    assert all(most < 100 for _, most in repeats(_parser.parse(rule.pattern.pattern, rule.pattern.flags)))


class Counted:
    """A pattern that counts how often it is tried."""

    tries = 0

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern

    def match(self, text: str, place: int) -> re.Match[str] | None:
        Counted.tries += 1
        return self.pattern.match(text, place)


@pytest.mark.parametrize("piece", HOSTILE)
def test_rules_are_tried_a_bounded_number_of_times_per_character(piece: str) -> None:
    rules = [replace(rule, pattern=Counted(rule.pattern)) for rule in RULES]
    tries = []
    for length in (500, 1000):
        Counted.tries = 0
        list(scan((piece * length)[:length], rules))
        tries.append(Counted.tries)
    assert tries[1] <= len(RULES) * 1000
    assert tries[1] <= 2 * tries[0] + 5 * len(RULES)


class CountedLexicon:
    def __init__(self, lexicon) -> None:
        self.lexicon, self.calls = lexicon, 0

    def __call__(self, *arguments):
        self.calls += 1
        return self.lexicon(*arguments)

    def __getattr__(self, name):
        return getattr(self.lexicon, name)


@pytest.mark.parametrize("piece", HOSTILE)
def test_the_phonemizer_looks_up_a_bounded_number_of_words_per_character(piece: str, monkeypatch) -> None:
    counted = CountedLexicon(hibari_g2p().lexicon)
    monkeypatch.setattr(hibari_g2p(), "lexicon", counted)
    reader = HibariPhonemizer()
    calls = []
    for length in (200, 400):
        counted.calls = 0
        reader.units([token for sentence in sentences((piece * length)[:length]) for token in sentence.tokens])
        calls.append(counted.calls)
    assert calls[1] <= 12 * 400
    assert calls[1] <= 2 * calls[0] + 100


@given(st.text(alphabet="aBx019 .,-'/:$%&#@+()é", max_size=40))
def test_no_letter_or_digit_is_left_out(text: str) -> None:
    read = {place for token in scan(text, RULES) if token.spoken for place in range(token.start, token.end)}
    assert {place for place, character in enumerate(text) if character.isalnum()} <= read


def test_tokens_that_are_known_beforehand_are_kept_and_nothing_reaches_into_them() -> None:
    known = Token(Kind.WORD, "5", "quint", 6, 7)
    tokens = list(scan("April 5, 1999", RULES, fixed=[known]))
    assert [token.spoken for token in tokens] == ["April", "quint", ",", "nineteen ninety nine"]
    assert known in tokens
