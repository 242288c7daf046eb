"""Books in chapters, and files that are none."""

import time
import zipfile

import pytest

from clock_attention.speech.text import books
from clock_attention.speech.text.books import read_book

CONTAINER = '<?xml version="1.0"?><container><rootfiles><rootfile full-path="OEBPS/b.opf"/></rootfiles></container>'
PACKAGE = (
    '<package xmlns:opf="x"><manifest><opf:item id="nav" href="nav.xhtml" properties="nav"/>'
    '<item id="a" href="text/a%20b.xhtml"/><item id="b" href="b.xhtml"/></manifest>'
    '<spine><itemref idref="nav"/><itemref idref="b"/><itemref idref="a"/><itemref idref="gone"/></spine></package>'
)


def epub(path, **changes):
    parts = {
        "META-INF/container.xml": CONTAINER,
        "OEBPS/b.opf": PACKAGE,
        "OEBPS/nav.xhtml": "<p>contents</p>",
        "OEBPS/text/a b.xhtml": "<html><head><title>x</title></head><body><h1>The <i>Second</i></h1><p>Fish &amp; chips"
        "</p><p>&nbsp;More<br/>text</p><script>no</script></body></html>",
        "OEBPS/b.xhtml": "<!DOCTYPE html><body><h2>First</h2><p>Once.</p></body>",
        **changes,
    }
    with zipfile.ZipFile(path, "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return path


def test_epub_chapters_are_in_the_order_of_the_spine(tmp_path):
    first, second = read_book(epub(tmp_path / "a.epub"))
    assert (first.title, first.text) == ("First", "First\n\nOnce.")
    assert (second.title, second.text) == ("The Second", "The Second\n\nFish & chips\n\nMore\ntext")


def test_markdown_is_cut_at_headings_and_code_is_left_out(tmp_path):
    (tmp_path / "a.md").write_text("# Book\n\nIntro.\n\n## One\nText.\n### Detail\n```\n## no\n```\n## Two ##\nMore.\n")
    found = read_book(tmp_path / "a.md")
    assert [chapter.title for chapter in found] == ["Book", "One", "Two"]
    assert "no" not in found[1].text.split()


def test_plain_text_is_cut_at_chapter_lines_but_not_at_a_table_of_contents(tmp_path):
    contents = "My Book\n\nChapter 1\n\nChapter 2\n\n"
    (tmp_path / "a.txt").write_text(
        contents + "Chapter 1\n\nIt began.\n\nCHAPTER II. The End\n\nIt ended in chapter 1.\n"
    )
    assert [chapter.title for chapter in read_book(tmp_path / "a.txt")] == ["a", "Chapter 1", "CHAPTER II. The End"]
    (tmp_path / "b.txt").write_text("No chapters here.")
    assert [chapter.title for chapter in read_book(tmp_path / "b.txt")] == ["b"]


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.epub", b"no zip"), ("a.txt", b"\xff\xfe\x00"), ("a.md", b"  \n"), ("a.pdf", b"x"), ("missing.txt", None)],
)
def test_what_is_no_book_is_refused(tmp_path, name, content):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=name):
        read_book(tmp_path / name)


def test_damaged_and_swollen_epubs_are_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="damaged"):
        read_book(epub(tmp_path / "a.epub", **{"META-INF/container.xml": "<x/>"}))
    monkeypatch.setattr(books, "LARGEST_PART", 1000)
    with pytest.raises(ValueError, match="larger"):
        read_book(epub(tmp_path / "b.epub", **{"OEBPS/b.xhtml": "x" * 1001}))


def test_lines_of_any_kind_are_read_in_linear_time(tmp_path):
    began = time.process_time()
    line = "#" + " " * 2000 + "x" * 400
    (tmp_path / "a.md").write_text(f"{line}\n# {'x' * 200}{' ' * 5000}{'#' * 5000}y\n## Title ##\nText.\n")
    (chapter,) = read_book(tmp_path / "a.md")[1:]
    assert chapter.title == "Title"
    hostile = epub(tmp_path / "a.epub", **{"OEBPS/b.xhtml": "<p>Once.</p>" + "<!--x>" * 500_000})
    assert read_book(hostile)[0].text.startswith("Once.")
    assert time.process_time() - began < 20


def test_a_spine_that_repeats_and_other_compressions_are_refused(tmp_path):
    package = PACKAGE.replace("</spine>", '<itemref idref="b"/>' * 10_001 + "</spine>")
    with pytest.raises(ValueError, match="chapters, expected at most"):
        read_book(epub(tmp_path / "a.epub", **{"OEBPS/b.opf": package}))
    with zipfile.ZipFile(tmp_path / "b.epub", "w", compression=zipfile.ZIP_LZMA) as file:
        file.writestr("META-INF/container.xml", CONTAINER)
    with pytest.raises(ValueError, match="compressed in a way"):
        read_book(tmp_path / "b.epub")
