import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.text.cleaning import SPOKEN, clean, normalize, spell_numbers, split_phrases, split_sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("“Don’t”—he said…", '"Don\'t"—he said...'),
        ("naïve café, Łódź", "naive cafe, Lodz"),
        ("a [quiet] word", "a ,quiet, word"),
        ("well -- perhaps - not", "well — perhaps — not"),
        ("tab\tand\nnewline  and   spaces", "tab and newline and spaces"),
        ("1,000,000,000,000,000,001.", "1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1."),
    ],
)
def test_typography_becomes_plain(text: str, expected: str) -> None:
    assert clean(text)[0] == expected


def test_clean_reports_what_it_drops() -> None:
    plain, dropped = clean("Hello 😀 world 日本 😀\x00")
    assert plain == "Hello world"
    assert dropped == "😀日本\x00"


@given(st.text(max_size=200))
def test_clean_leaves_only_characters_that_can_be_read(text: str) -> None:
    plain, _ = clean(text)
    assert set(plain) <= SPOKEN
    assert clean(plain) == (plain, "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Smith of St. Louis", "Dr Smith of Saint Louis"),
        ("at 3:45 p.m. sharp", "at three forty-five P.M. sharp"),
        ("it weighs 5kg", "it weighs 5 kilograms"),
        ("on 7/4/1976", "on July fourth, 1976"),
        ("Chapter IV", "Chapter 4"),
        ("Henry VIII", "Henry the eighth"),
        ("¥500", "500 yen"),
    ],
)
def test_normalize_reads_out_abbreviations_times_and_units(text: str, expected: str) -> None:
    assert normalize(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,234 men", "one thousand two hundred and thirty-four men"),
        ("the 21st of May", "the twenty-first of May"),
        ("in 1906.", "in nineteen oh-six."),
        ("the 1850s", "the eighteen fifties"),
        ("3.14", "three point one four"),
        ("-5", "minus five"),
        ("$3.50", "three dollars and fifty cents"),
        ("£1", "one pound"),
        ("50%", "fifty percent"),
        ("1.2.3", "one point two point three"),
        ("x9y", "x nine y"),
    ],
)
def test_spell_numbers(text: str, expected: str) -> None:
    assert spell_numbers(text) == expected


@given(st.text(alphabet="0123456789,.-'sthndr $£€%ab", max_size=60))
def test_no_digit_survives_spelling(text: str) -> None:
    assert not any(character.isdigit() for character in spell_numbers(normalize(text)))


def test_sentences_end_where_a_reader_would_stop() -> None:
    text = (
        "Dr. J. Smith went to the U.S. Embassy. It was 5 p.m. He left! “Why?” Robert I. Bell asked. So did I. "
        "See No. 5, e.g. Figure 3. Done\n\nNew paragraph without a stop\n\nLast"
    )
    assert split_sentences(text) == [
        "Dr. J. Smith went to the U.S. Embassy.",
        "It was 5 p.m.",
        "He left!",
        "“Why?”",
        "Robert I. Bell asked.",
        "So did I.",
        "See No. 5, e.g. Figure 3.",
        "Done",
        "New paragraph without a stop",
        "Last",
    ]


@given(st.text(max_size=300))
def test_splitting_into_sentences_loses_nothing(text: str) -> None:
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())


words = st.lists(st.from_regex(r"[a-z]{1,12}[,.;]?", fullmatch=True), max_size=60).map(" ".join)


@given(words, st.integers(5, 30), st.integers(0, 100), st.integers(0, 5))
def test_phrases_keep_every_word_and_the_length_limit(text: str, shortest: int, more: int, seed: int) -> None:
    longest = shortest + 20 + more
    phrases = list(split_phrases(text, shortest, longest, seed))
    assert " ".join(phrases).split() == text.split()
    assert all(len(phrase) <= longest for phrase in phrases)
    assert phrases == list(split_phrases(text, shortest, longest, seed))


def test_phrases_break_at_punctuation_and_vary() -> None:
    text = (
        "In being comparatively modern, it differs from most, if not from all, the arts and crafts on show here today."
    )
    lengths = {tuple(map(len, split_phrases(text, 15, 60, seed))) for seed in range(20)}
    assert len(lengths) > 2
    for phrase in split_phrases(text, 15, 60, 1):
        assert phrase.endswith((",", "."))


def test_phrase_lengths_must_make_sense() -> None:
    with pytest.raises(ValueError, match="shortest <= longest"):
        list(split_phrases("some text", 30, 20))


def test_sentences_begin_with_any_capital_and_any_opening_mark() -> None:
    text = "He left. Émile came. «Non.» She said yes. — Then he ran. [Applause.] Done. and so on."
    assert split_sentences(text) == [
        *("He left.", "Émile came.", "«Non.»", "She said yes.", "— Then he ran.", "[Applause.]", "Done. and so on.")
    ]
