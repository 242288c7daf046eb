"""Tables of utterances."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.corpus.metadata import check_row, id_fault, read_table, short


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
