"""Timelines: every form they come in, and texts that they do not fit."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.voice.timeline import Timeline, textgrid_tiers
from clock_attention.timestamps import Interval, to_json, to_textgrid

WORDS = [Interval(0.1, 0.5, "Hello"), Interval(0.5, 0.7, ""), Interval(0.7, 1.2, 'wor"ld')]


def test_lists_tiers_and_files_say_the_same(tmp_path):
    tiers = {"words": WORDS}
    (tmp_path / "a.TextGrid").write_text(to_textgrid(tiers, 1.5))
    (tmp_path / "a.json").write_text(to_json(tiers, 1.5))
    (tmp_path / "praat.TextGrid").write_bytes(to_textgrid(tiers, 1.5).encode("utf-16"))
    expected = (WORDS[0], WORDS[2])
    for form in (tiers, tmp_path / "a.TextGrid", str(tmp_path / "a.json"), tmp_path / "praat.TextGrid"):
        assert Timeline.of(form).words == expected
    assert Timeline.of(tmp_path / "a.json").seconds == 1.5
    assert Timeline.of([("Hello", 0.1, 0.5), ('wor"ld', 0.7, 1.2)]).words == expected


def test_praats_short_format():
    text = (
        'File type = "ooTextFile"\nObject class = "TextGrid"\n\n0\n2\n<exists>\n1\n"IntervalTier"\n"words"\n0\n2\n2\n'
    )
    text += '0\n1.5\n"a ""b"" 3"\n1.5\n2\n""\n'
    assert textgrid_tiers(text, "x")[0]["words"][0] == Interval(0, 1.5, 'a "b" 3')


@pytest.mark.parametrize(
    ("form", "about"),
    [
        ([], "no words"),
        ([("a", 1, 0.5)], "expected"),
        ([("a", "x", 0.5)], "expected"),
        ([("a", 0, 1), ("b", 0.5, 1)], "before 'a' ends"),
        ({"tiers": {"words": [{"start": 0, "end": 2, "label": "a"}]}, "seconds": 1.0}, "lasts 1 s"),
        ({"tiers": {"words": [("a", 0, 1)]}, "seconds": float("nan")}, "lasts nan, expected seconds"),
        ({"tiers": {"words": [("a", 0, 1)]}, "seconds": 10**400}, "expected seconds, at most 86400"),
        ({"tiers": {"words": [("a", 0, 1)]}, "seconds": [1]}, "expected seconds"),
        ({"tiers": {"words": [("a", 0, 1)]}, "seconds": 80_000}, "79999 s of silence"),
        ([("a", 0, 10**400)], "expected (label, start, end)"),
        ([("a", 0, 1e300)], "'a' lasts 1e+300 s"),
        ([("a", 0, 1), ("b", 2000, 2001)], "1999 s of silence"),
        ({"words": 5}, "got 5 for words"),
        ({"tiers": [1]}, "expected tiers by name"),
        ({5: []}, "no words or phones in it (tiers: 5)"),
        (5, "got 5 for words"),
        ("nowhere.json", "cannot be read"),
        ("nowhere.txt", "TextGrid or .json"),
    ],
)
def test_what_is_no_timeline_is_refused(form, about):
    with pytest.raises(ValueError, match="timeline") as error:
        Timeline.of(form)
    assert about in str(error.value)


@given(st.text(alphabet='"<>exists0123456789.- \nTextGrid', max_size=80))
def test_damaged_files_are_refused(tail):
    with pytest.raises(ValueError, match="cut off"):
        textgrid_tiers('File type = "ooTextFile"\nObject class = "TextGrid"\n0 1 <exists> 3' + tail, "x")


@pytest.mark.parametrize("count", ["1e999", "1e18"])
def test_counts_that_no_file_holds_are_refused(count):
    with pytest.raises(ValueError, match="cut off"):
        textgrid_tiers(f'"ooTextFile" "TextGrid" 0 1 <exists> {count} "IntervalTier" "words" 0 1 {count}', "x")


def test_a_quote_that_stays_open_takes_no_more_memory_than_the_file():
    tracemalloc.start()
    with pytest.raises(ValueError, match="cut off"):
        textgrid_tiers('"' + "a" * 1_000_000, "x")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000
