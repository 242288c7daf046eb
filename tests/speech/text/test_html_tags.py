"""Tags and text of documents, whole and hostile."""

import time

import pytest

from clock_attention.speech.text.html_tags import Tag, tags_and_text, unescape


def test_tags_text_and_attributes_come_in_order():
    found = list(
        tags_and_text(
            "<?xml version='1.0'?><!DOCTYPE html [<!ELEMENT a>]><P Class=x id='a>b'>Fish &amp; <br/>chips</P>"
        )
    )
    start, fish, br, chips, end = found
    assert (start.name, start.attributes) == ("p", {"class": "x", "id": "a>b"})
    assert (fish, chips) == ("Fish & ", "chips")
    assert (br.name, br.empty, br.end) == ("br", True, False)
    assert end == Tag("p", end=True)


def test_comments_are_left_out_and_sections_are_text():
    assert "".join(tags_and_text("a<!-- <b> -->b<![CDATA[<c> &amp;]]>d")) == "ab<c> &amp;d"
    assert "".join(tags_and_text("1 < 2 <!-- open")) == "1 < 2 <!-- open"


def test_scripts_have_no_tags_inside():
    found = list(tags_and_text("<script>if (a<b) '<script>'</script>after<style>x"))
    assert [part for part in found if isinstance(part, str)] == ["after"]


OPEN = ["<!--x>", "<a ", '<a b="', "</", "</a", "<![CDATA[", "<![CDATA[>", "<?", "<!x[", "<", "&#", '<a "', "<script "]


@pytest.mark.parametrize("piece", [*OPEN, "<!--<a>"])
def test_nothing_that_stays_open_is_searched_for_twice(piece):
    """html.parser takes minutes for each of the first."""
    content = piece * (600_000 // len(piece))
    began = time.process_time()
    assert sum(len(part) for part in tags_and_text(content) if isinstance(part, str)) > 0
    assert time.process_time() - began < 10


def test_references_with_too_many_digits_are_one_unknown_character():
    assert unescape("&#65;&#x41;&lt;") == "AA<"
    assert unescape("a&#" + "9" * 6000 + ";b&#x" + "f" * 6000) == "a\ufffdb\ufffd"
