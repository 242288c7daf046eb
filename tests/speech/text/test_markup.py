import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.text.markup import Pronunciation, without_markup


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("This is <b>bold</b>.", "This is bold."),
        ('<a href="x">here</a>', "here"),
        ("one<br>two", "one\ntwo"),
        ("<p>one</p><p>two</p>", "\n\none\n\n\n\ntwo\n\n"),
        ("Dear <name>,", "Dear name,"),
        ("<x@y.org>", "x@y.org"),
        ("a < b and c > d", "a < b and c > d"),
        ("before <!-- not said --> after", "before   after"),
        ("<script>var a = 1;</script>Hi", " Hi"),
        ("Salt &amp; pepper &copy; &nonsense;", "Salt & pepper © &nonsense;"),
        ("[guide](https://example.com) ![photo](a.png)", "guide photo"),
        ("# Title\n- item\n* item\n> quote", "Title\nitem\nitem\nquote"),
        ("[sic] (really)", "[sic] (really)"),
    ],
)
def test_markup_is_removed_and_text_is_kept(text: str, expected: str) -> None:
    assert without_markup(text) == (expected, [])


def test_pronunciations_are_found_where_their_words_stand() -> None:
    text, pronunciations = without_markup("<i>Ask</i> [Siobhan](/ʃɪˈvɔːn/) &amp; [Xi](/ʃiː/).")
    assert text == "Ask Siobhan & Xi."
    assert pronunciations == [Pronunciation(4, 11, "ʃɪˈvɔːn"), Pronunciation(14, 16, "ʃiː")]


@given(st.text(alphabet="<>!-/abp[]()&;# \n", max_size=80))
def test_any_arrangement_of_marks_is_taken(text: str) -> None:
    shown, pronunciations = without_markup(text)
    assert all(0 <= given.start < given.end <= len(shown) for given in pronunciations)
