import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.text.number_words import as_roman, cardinal, decimal, digits, in_pairs, ordinal, roman, year


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (-5, "minus five"),
        (19, "nineteen"),
        (105, "one hundred five"),
        (1_000_001, "one million one"),
        (2_000_000_000, "two billion"),
        (10**16, "one" + " zero" * 16),
    ],
)
def test_cardinals(number: int, words: str) -> None:
    assert cardinal(number) == words


@pytest.mark.parametrize(
    ("number", "words"), [(1, "first"), (12, "twelfth"), (20, "twentieth"), (142, "one hundred forty second")]
)
def test_ordinals(number: int, words: str) -> None:
    assert ordinal(number) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1066, "ten sixty six"),
        (1900, "nineteen hundred"),
        (1905, "nineteen oh five"),
        (2000, "two thousand"),
        (2008, "two thousand eight"),
    ],
)
def test_years(number: int, words: str) -> None:
    assert year(number) == words


def test_other_ways_to_read_figures() -> None:
    assert in_pairs("747") == "seven forty seven"
    assert in_pairs("101") == "one oh one"
    assert in_pairs("2000") == "two thousand"
    assert digits("0-9") == "zero nine"
    assert decimal("1,000.50") == "one thousand point five zero"
    assert decimal(".5") == "point five"


@given(st.integers(0, 10**15 - 1))
def test_every_number_has_words_of_its_own(number: int) -> None:
    values = {"zero": 0}
    for value in range(1, 1000):
        values[cardinal(value)] = value
    scales = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
    total, group = 0, []
    for word in cardinal(number).split():
        if word in scales:
            total += values[" ".join(group)] * scales[word]
            group = []
        else:
            group.append(word)
    assert total + (values[" ".join(group)] if group else 0) == number


@given(st.integers(1, 3999))
def test_roman_numerals_go_both_ways(number: int) -> None:
    assert roman(as_roman(number)) == number


@pytest.mark.parametrize("written", ["IIII", "VX", "IC", "A", "", "MIX2"])
def test_what_is_no_roman_numeral_has_no_value(written: str) -> None:
    assert roman(written) == 0
