"""The list in tests/readings: what people write, and what has to be said."""

from functools import cache

import pytest

from clock_attention.speech.text.ipa import phones
from clock_attention.speech.text.phonemizers import phonemizer
from clock_attention.speech.text.sentences import sentences
from tests.readings.cases import NAMES, SENTENCES, Case, cases, kinds, known_failures, normalized, same_sound


def is_right(case: Case) -> bool:
    if case.kind == NAMES:
        read_aloud = same_sound("".join(phonemizer()(case.written).tokens))
        return read_aloud in {same_sound("".join(map("".join, phones(ipa)))) for ipa in case.readings}
    joint = " / " if case.kind == SENTENCES else " "
    read_aloud = joint.join(normalized(sentence.spoken) for sentence in sentences(case.written))
    return read_aloud in {normalized(reading) for reading in case.readings}


@cache
def failures() -> frozenset[str]:
    return frozenset(case.key for case in cases() if not is_right(case))


def test_the_list_is_long_and_has_no_duplicates() -> None:
    keys = [case.key for case in cases()]
    assert len(keys) >= 500
    assert len(set(keys)) == len(keys)
    assert len(kinds()) >= 18


def test_at_least_98_percent_are_read_right() -> None:
    assert len(failures()) <= 0.02 * len(cases()), sorted(failures())


def test_what_is_read_wrong_is_exactly_what_is_listed() -> None:
    assert failures() == known_failures()


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("I said no.", "i said no"),
        ('"I\'m sorry," he said.', "i'm sorry he said"),
        ("“Don’t,” she said.", "don't she said"),
        ('"She\'ll go."', "she'll go"),
        ("Call 911.", "call nine one one"),
        ("(555) 010-4477", "five five five zero one zero four four seven seven"),
        ("She lives on Elm Dr.", "she lives on elm drive"),
        ("CO2", "c o two"),
        ("www.example.com", "w w w dot example dot com"),
        ("me@example.com", "me at example dot com"),
        ("C#", "c sharp"),
        ("5–10", "five to ten"),
        ("10^6", "ten to the sixth"),
        ("<b>bold</b>", "bold"),
    ],
)
def test_what_new_users_ran_into(written: str, spoken: str) -> None:
    assert normalized(" ".join(sentence.spoken for sentence in sentences(written))) == spoken


@pytest.mark.parametrize(
    ("quoted", "plain"), [("\"I'm", "I'm"), ('"Don\'t"', "Don't"), ("“She'll", "She'll"), ('"Again', "Again")]
)
def test_a_quote_before_a_word_leaves_it_as_it_is(quoted: str, plain: str) -> None:
    assert phonemizer()(quoted).tokens == phonemizer()(plain).tokens
