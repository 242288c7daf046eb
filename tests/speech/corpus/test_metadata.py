"""Tables of utterances."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.corpus.metadata import check_row, id_fault, names_speakers, read_table, short, spoken_text


@given(st.text(st.characters(categories=("Ll", "Lu", "Nd")), min_size=1, max_size=40))
def test_letters_and_digits_are_an_id(name):
    assert id_fault(name) == ""


@pytest.mark.parametrize(
    "name", ["", ".hidden", " a", "a ", "a/b", "..\\b", "a:b", "a\nb", "a\x00", "a\u2028b", "é" * 101, "half \ud800"]
)
def test_names_that_a_file_system_could_misread_are_no_ids(name):
    fault = id_fault(name)
    assert fault
    assert fault.isprintable()


def test_rows_end_at_line_feeds_only(tmp_path):
    path = tmp_path / "metadata.csv"
    path.write_bytes("\ufeffa|one\u2028two|x\r\n\r\n b | three \r".encode())
    assert list(read_table(path)) == [(1, ["a", "one\u2028two", "x"]), (3, ["b", "three"])]


def test_each_fault_of_a_row_is_named():
    known = set()
    assert check_row(1, ["a", "text"], known) is None
    reasons = [
        check_row(2, ["a", "again"], known).reason,
        check_row(3, ["a", "b", "c", "d"], known).reason,
        check_row(4, ["x/y", "text"], known).reason,
        check_row(5, ["", "text"], known).reason,
    ]
    assert reasons == ["duplicate id", "malformed row", "bad id", "malformed row"]
    assert known == {"a"}
    assert short("n" * 100) == "n" * 60 + "…"


def test_a_fourth_column_names_speakers_where_the_first_row_has_one():
    assert names_speakers([(1, ["a", "text", "", "ann"])])
    assert not names_speakers([(1, ["a", "text"]), (2, ["b", "text", "", "ann"])])
    assert not names_speakers([])
    assert check_row(1, ["a", "text", "", "ann"], set(), True) is None
    assert check_row(2, ["b", "text"], set(), True).reason == "malformed row"
    assert check_row(3, ["c", "text", "", "../ann"], set(), True).reason == "bad speaker"
    assert [spoken_text(row) for row in (["a", "x"], ["a", "x", "y"], ["a", "x", "", "ann"])] == ["x", "y", "x"]
