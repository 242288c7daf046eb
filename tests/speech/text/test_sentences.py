import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.text.sentences import in_parts, sentences, split_sentences
from clock_attention.speech.text.tokens import Kind


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


def test_sentences_begin_with_any_capital_and_any_opening_mark() -> None:
    text = "He left. Émile came. «Non.» She said yes. — Then he ran. [Applause.] Done. and so on."
    assert split_sentences(text) == [
        *("He left.", "Émile came.", "«Non.»", "She said yes.", "— Then he ran.", "[Applause.]", "Done. and so on.")
    ]


def test_lines_end_sentences_and_blank_lines_end_paragraphs() -> None:
    found = sentences("A heading\nA line.\n\nA paragraph. It goes on.\n \nThe end")
    assert [(sentence.text, sentence.ends_paragraph) for sentence in found] == [
        ("A heading", False),
        ("A line.", True),
        ("A paragraph.", False),
        ("It goes on.", True),
        ("The end", False),
    ]


def test_lines_that_an_editor_broke_are_joined() -> None:
    text = (
        "The quick brown fox jumps over the lazy dog and runs away with\n"
        "John Smith, who has been waiting for it under the old apple tree\n"
        "since noon. Then it rests.\n"
        "A new line\n"
    )
    assert [sentence.text for sentence in sentences(text)] == [
        "The quick brown fox jumps over the lazy dog and runs away with John Smith, who has been waiting for it under "
        "the old apple tree since noon.",
        "Then it rests.",
        "A new line",
    ]


@given(st.text(alphabet=st.characters(exclude_characters="<>&[]()#*+-•\r"), max_size=200))
def test_splitting_into_sentences_loses_nothing(text: str) -> None:
    found = sentences(text)
    written = "".join("".join(sentence.text for sentence in found).split())
    if found:
        assert written == "".join(unicodedata.normalize("NFC", text).split())


@given(
    st.lists(st.sampled_from(["word", "1850", "Dr. Who", "a, b", "well-known", "9" * 80, "x" * 90, "."]), max_size=60)
)
def test_parts_of_a_long_sentence_have_all_its_tokens_and_a_bounded_length(pieces: list[str]) -> None:
    for sentence in sentences(" ".join(pieces)):
        parts = list(in_parts(sentence, 400))
        assert [token for part in parts for token in part.tokens] == list(sentence.tokens)
        assert all(len(part.spoken) <= 400 or len(part.tokens) == 1 for part in parts)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Call 555-0123 now", [Kind.WORD, Kind.TELEPHONE, Kind.MARK, Kind.TELEPHONE, Kind.WORD]),
        ("On May 5, 1999", [Kind.WORD, Kind.DATE, Kind.DATE, Kind.MARK, Kind.YEAR]),
        ("at 3:30 for $5", [Kind.WORD, Kind.TIME, Kind.WORD, Kind.MONEY]),
        ("the FBI and Dr. Who", [Kind.WORD, Kind.INITIALISM, Kind.WORD, Kind.ABBREVIATION, Kind.WORD]),
        (
            "5 km, 1/2, 3rd, 10^6",
            [*(Kind.NUMBER, Kind.UNIT, Kind.MARK, Kind.FRACTION, Kind.MARK, Kind.ORDINAL, Kind.MARK)]
            + [Kind.NUMBER, Kind.MATH],
        ),
        ("me@a.com on a.com", [Kind.EMAIL, Kind.WORD, Kind.URL]),
        (
            "B12, Henry VIII, 5–10",
            [Kind.CODE, Kind.MARK, Kind.WORD, Kind.ROMAN, Kind.MARK, Kind.NUMBER, Kind.RANGE, Kind.NUMBER],
        ),
    ],
)
def test_tokens_have_kinds(text: str, kinds: list[Kind]) -> None:
    assert [token.kind for token in sentences(text)[0].tokens] == kinds


@given(st.text(max_size=120))
def test_spoken_words_need_no_further_reading(text: str) -> None:
    for sentence in sentences(text):
        for token in sentence.tokens:
            spoken = "".join(token.spoken.split())
            if token.kind == Kind.MARK:
                assert spoken in set(",;:.!?…—")
            elif not token.pronunciation:
                assert spoken.replace("'", "").replace(".", "").replace("-", "").isalpha(), token
