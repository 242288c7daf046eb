"""Timestamps: what is written must come back, tile the recording, and be readable by the programs it is for."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clock_attention.timestamps import (
    FORMATS,
    Alignment,
    Interval,
    save_timestamps,
    to_ctm,
    to_json,
    to_lab,
    to_srt,
    to_textgrid,
    to_vtt,
)

FRAME = 256 / 22050


def read_textgrid(text):
    """Praat reads free-standing numbers and quoted strings and ignores the rest; so does this."""
    tokens = re.findall(r'"((?:[^"]|"")*)"|(?<![\w\[])(-?\d[\d.e+-]*)(?![\w\]])|<(exists)>', text)
    values = iter([float(n) if n else e or s.replace('""', '"') for s, n, e in tokens])
    assert (next(values), next(values)) == ("ooTextFile", "TextGrid")
    assert next(values) == 0
    xmax = next(values)
    assert next(values) == "exists"
    tiers = {}
    for _ in range(int(next(values))):
        assert next(values) == "IntervalTier"
        name = next(values)
        assert (next(values), next(values)) == (0, xmax)
        tiers[name] = [Interval(next(values), next(values), next(values)) for _ in range(int(next(values)))]
    assert next(values, None) is None
    return xmax, tiers


def assert_tiles(intervals, xmax):
    assert intervals[0].start == 0
    assert intervals[-1].end == xmax
    assert all(interval.end > interval.start for interval in intervals)
    assert all(left.end == right.start for left, right in pairwise(intervals))


@st.composite
def alignments(draw):
    labels = draw(st.lists(st.text(max_size=5), min_size=1, max_size=8))
    counts = draw(st.lists(st.integers(0, 40), min_size=len(labels), max_size=len(labels)).filter(sum))
    return Alignment(labels, counts, draw(st.sampled_from([FRAME, 0.01, 1.0, 1 / 3])))


@settings(deadline=None)
@given(alignments())
def test_tokens_follow_each_other_and_end_with_the_target(alignment):
    assert alignment.starts[0] == 0
    assert alignment.ends[-1] == alignment.durations.sum()
    np.testing.assert_array_equal(alignment.starts[1:], alignment.ends[:-1])
    intervals = alignment.intervals()
    assert [interval.label for interval in intervals] == list(alignment.labels)
    assert intervals[-1].end == alignment.seconds
    assert all(left.end == right.start for left, right in pairwise(intervals))


@settings(deadline=None)
@given(alignments(), st.text(max_size=6), st.sampled_from([0.0, 0.25, 7.0]))
def test_textgrid_comes_back_and_tiles_the_recording(alignment, name, silence):
    seconds = alignment.seconds + silence
    tiers = {name: alignment.intervals(), name + "2": alignment.grouped([("all", 0, len(alignment.labels))])}
    xmax, back = read_textgrid(to_textgrid(tiers, seconds))
    assert xmax == seconds
    assert list(back) == list(tiers)
    for tier in back.values():
        assert_tiles(tier, xmax)
    expected = [interval for interval in alignment.intervals() if interval.end > interval.start]
    assert back[name][: len(expected)] == expected
    assert [interval.label for interval in back[name][len(expected) :]] == ([""] if silence else [])


def test_textgrid_of_a_small_case_is_written_as_praat_writes_it():
    text = to_textgrid({"words": [Interval(0.5, 1.25, 'say "hi"')]}, seconds=2)
    assert text == (
        'File type = "ooTextFile"\nObject class = "TextGrid"\n\nxmin = 0\nxmax = 2.0\ntiers? <exists>\nsize = 1\n'
        'item []:\n    item [1]:\n        class = "IntervalTier"\n        name = "words"\n        xmin = 0\n'
        "        xmax = 2.0\n        intervals: size = 3\n"
        '        intervals [1]:\n            xmin = 0.0\n            xmax = 0.5\n            text = ""\n'
        '        intervals [2]:\n            xmin = 0.5\n            xmax = 1.25\n            text = "say ""hi"""\n'
        '        intervals [3]:\n            xmin = 1.25\n            xmax = 2.0\n            text = ""\n'
    )


def test_textgrid_closes_gaps_that_are_only_rounding():
    tier = [Interval(0, 0.1 + 0.2, "a"), Interval(0.3, 0.7, "b"), Interval(0.7, 0.7, "skipped")]
    _, back = read_textgrid(to_textgrid({"t": tier}, seconds=0.7 + 1e-9))
    assert [interval.label for interval in back["t"]] == ["a", "b"]
    assert_tiles(back["t"], 0.7 + 1e-9)


@settings(deadline=None)
@given(alignments())
def test_json_comes_back_with_skipped_tokens(alignment):
    content = json.loads(to_json({"phones": alignment.intervals()}))
    assert content["seconds"] == alignment.seconds
    assert [Interval(**interval) for interval in content["tiers"]["phones"]] == alignment.intervals()


def test_srt_times_text_and_numbers():
    cues = [
        Interval(0, 0.9996, "one\n\ntwo"),
        Interval(0.9996, 2, " "),
        Interval(2, 2, "gone"),
        Interval(3661.5, 360000.0004, "naïve"),
    ]
    assert to_srt(cues) == ("1\n00:00:00,000 --> 00:00:01,000\none two\n\n2\n01:01:01,500 --> 100:00:00,000\nnaïve\n")


@settings(deadline=None)
@given(alignments())
def test_srt_is_always_one_number_one_time_one_text(alignment):
    cues = [cue.split("\n") for cue in to_srt(alignment.intervals()).removesuffix("\n").split("\n\n") if cue]
    spoken = [i for i in alignment.intervals() if i.label.strip() and round(i.end * 1000) > round(i.start * 1000)]
    assert [cue[0] for cue in cues] == [str(n + 1) for n in range(len(spoken))]
    assert all(len(cue) == 3 for cue in cues)
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d,\d{3} --> \d\d:\d\d:\d\d,\d{3}", cue[1]) for cue in cues)


def test_vtt_has_a_header_points_and_no_markup():
    assert to_vtt([Interval(0, 1.5, "a <b> & c"), Interval(1.5, 2, "")]) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\na &lt;b&gt; &amp; c\n"
    )


def test_htk_labels_are_in_units_of_100_ns_and_tile_the_recording():
    tier = [Interval(0, 0.1, ""), Interval(0.1, 0.1, "skipped"), Interval(0.1, 0.35, "ˈæ"), Interval(0.35, 1, "a b")]
    assert to_lab(tier) == "0 1000000 sil\n1000000 3500000 ˈæ\n3500000 10000000 a_b\n"


def test_ctm_has_words_durations_and_confidences_where_there_are_any():
    @dataclass(frozen=True)
    class Sure(Interval):
        confidence: float = 1.0

    tier = [Interval(0, 0.5, ""), Interval(0.5, 0.75, "New York"), Sure(0.75, 1, "is", 0.25)]
    assert to_ctm(tier, "my talk") == "my_talk 1 0.500 0.250 New_York\nmy_talk 1 0.750 0.250 is 0.250\n"


def test_words_span_their_phonemes_and_later_sentences_are_shifted():
    alignment = Alignment(list("abcd"), [2, 0, 3, 1], frame_seconds=0.5)
    words = alignment.grouped([("ab", 0, 2), ("d", 3, 4)])
    assert words == [Interval(0, 1, "ab"), Interval(2.5, 3, "d")]
    assert [word.shifted(10) for word in words] == [Interval(10, 11, "ab"), Interval(12.5, 13, "d")]


def test_the_ending_chooses_the_format_and_nothing_else_is_left_behind(tmp_path):
    alignment = Alignment(["a", "b"], [1, 2], 0.5)
    tiers = {"phones": alignment.intervals(), "words": alignment.grouped([("ab", 0, 2)])}
    for ending in FORMATS:
        save_timestamps(tmp_path / f"x{ending}", tiers, facts={"score": 0.5})
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(f"x{ending}" for ending in FORMATS)
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8"))["score"] == 0.5
    assert (tmp_path / "x.lab").read_text(encoding="utf-8") == to_lab(tiers["phones"])
    assert (tmp_path / "x.ctm").read_text(encoding="utf-8") == to_ctm(tiers["words"], "x")
    assert read_textgrid((tmp_path / "x.TextGrid").read_text(encoding="utf-8"))[1] == tiers
    assert (tmp_path / "x.srt").read_text(encoding="utf-8") == to_srt(tiers["words"])
    save_timestamps(tmp_path / "x.srt", tiers, cue_tier="phones")
    assert (tmp_path / "x.srt").read_text(encoding="utf-8") == to_srt(tiers["phones"])


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        save_timestamps(path, {"t": [Interval(0, 1, "\ud800")]})
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Interval(2, 1, "a"), "0 ≤ start ≤ end"),
        (lambda: Interval(0, float("nan"), "a"), "0 ≤ start ≤ end"),
        (lambda: Alignment(["a"], [1, 2]), "each of 1 labels"),
        (lambda: Alignment(["a"], [0.5]), "each of 1 labels"),
        (lambda: Alignment(["a"], [-1]), "each of 1 labels"),
        (lambda: Alignment(["a"], [1], 0.0), "hop / sample rate"),
        (lambda: Alignment(["a"], [1]).grouped([("w", 0, 2)]), r"\('w', 0, 2\)"),
        (lambda: to_textgrid({"t": []}), "positive length"),
        (lambda: to_textgrid({"t": [Interval(0, 2, "a")]}, seconds=1), "up to 2.0"),
        (lambda: to_textgrid({"t": [Interval(0, 2, "a"), Interval(1, 3, "b")]}), "'t': .* in order of time"),
        (lambda: save_timestamps("x.txt", {"t": [Interval(0, 2, "a")]}), "ending in .TextGrid"),
        (lambda: save_timestamps("x.srt", {}), "at least one"),
        (lambda: save_timestamps("x.srt", {"t": [Interval(0, 1, "a")]}, cue_tier="words"), "expected one of 't'"),
    ],
)
def test_errors_say_what_was_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()
