"""A page as Markdown and as one HTML file."""

from __future__ import annotations

from pathlib import Path

from clock_attention.evaluation.report.document import (
    AudioSamples,
    Heading,
    Picture,
    markdown_table,
    numeric,
    write_page,
)


def test_both_forms_hold_everything_and_escape_what_is_not_theirs(tmp_path: Path) -> None:
    (tmp_path / "my picture.png").write_bytes(b"picture")
    (tmp_path / "a.flac").write_bytes(b"sound")
    parts = [
        Heading("A < B"),
        "Less & more.",
        [["system", "WER"], ["a|b", "3.1 %"], ["<b>", "-2"]],
        Picture(tmp_path / "my picture.png", "What is seen."),
        AudioSamples("Heard:", (("clock, MPR 3", tmp_path / "a.flac"),)),
    ]
    markdown, page = write_page(parts, tmp_path, "Title")
    text, html = markdown.read_text("utf-8"), page.read_text("utf-8")
    assert "## A < B" in text
    assert "| a\\|b | 3.1 % |" in text
    assert "(my%20picture.png)" in text
    assert "[clock, MPR 3](a.flac)" in text
    assert "<h2>A &lt; B</h2>" in html
    assert "<p>Less &amp; more.</p>" in html
    assert "<td>&lt;b&gt;</td>" in html
    assert 'src="data:image/png;base64,cGljdHVyZQ=="' in html
    assert 'src="data:audio/flac;base64,c291bmQ="' in html
    assert "http" not in html


def test_columns_of_numbers_are_aligned_to_the_right() -> None:
    cells = [["a", "b", "c"], ["x", "1.5 [1, 2]", ""], ["2", "-3", ""]]
    assert numeric(cells) == [False, True, False]
    assert markdown_table(cells).splitlines()[1] == "| --- | ---: | --- |"
    assert numeric([["only", "header"]]) == [False, False]


def test_a_cell_of_several_lines_stays_in_its_row() -> None:
    assert (
        markdown_table([["", ""], ["consent", "I agree |\nto all"]]).splitlines()[2]
        == r"| consent | I agree \| to all |"
    )
