"""Subtitle files as they are found."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clock_attention.speech.dubbing.subtitles import parse_subtitles, read_subtitles

SRT = "1\n00:00:01,000 --> 00:00:02,500\nHello.\n\n2\n00:00:03,000 --> 00:00:04,000\nSecond line\nof two.\n"


def texts(source):
    return [(cue.start, cue.end, cue.text) for cue in parse_subtitles(source)]


def test_plain_srt():
    assert texts(SRT) == [(1.0, 2.5, "Hello."), (3.0, 4.0, "Second line of two.")]


@pytest.mark.parametrize(
    "content",
    [
        SRT.encode("utf-8-sig"),
        SRT.replace("\n", "\r\n").encode(),
        SRT.encode("utf-16"),
        SRT.replace("\n", "\r").encode(),
        SRT.replace(",", ".").encode(),
    ],
)
def test_encodings_and_line_ends(tmp_path, content):
    (tmp_path / "a.srt").write_bytes(content)
    assert [(cue.start, cue.end) for cue in read_subtitles(tmp_path / "a.srt")] == [(1.0, 2.5), (3.0, 4.0)]


def test_windows_1252_is_read_with_a_warning(tmp_path, caplog):
    (tmp_path / "a.srt").write_bytes("1\n00:00:01,000 --> 00:00:02,000\ncafé\n".encode("cp1252"))
    assert read_subtitles(tmp_path / "a.srt")[0].text == "café"
    assert "Windows-1252" in caplog.text


def test_vtt_with_header_notes_styles_settings_and_short_times():
    source = (
        "WEBVTT - title\nKind: captions\n\nSTYLE\n::cue { color: red }\n\nNOTE 00:01.000 --> 00:02.000 is none\n\n"
        "intro\n00:01.500 --> 00:02.000 align:start position:10%\n<v Ann>Hi &amp; bye</v>\n\n"
        "01:00:00.000 --> 01:00:01.000\n<c.red>one <00:00:01.000>two</c>\n"
    )
    assert texts(source) == [(1.5, 2.0, "Hi & bye"), (3600.0, 3601.0, "one two")]


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ('<i>Hi</i> <font color="red">you</font>', "Hi you"),
        ("{\\an8}Up here", "Up here"),
        ("- Who?\n- Me.", "Who? Me."),
        ("[door slams] Run!", "Run!"),
        ("♪ la la ♪", "la la"),
        ("[music]", ""),
        ("", ""),
        ("5 < 6 and 7 > 3", "5 < 6 and 7 > 3"),
    ],
)
def test_which_text_of_a_cue_is_spoken(written, spoken):
    assert parse_subtitles(f"00:00:01,000 --> 00:00:02,000\n{written}\n")[0].text == spoken


def test_odd_times_are_reported(caplog):
    source = (
        "00:00:05,000 --> 00:00:04,000\nbackwards\n\n-00:00:01,000 --> 00:00:02,000\nearly\n\n"
        "999:00:00,000 --> 999:00:01,000\nlate\n\nsoon --> later\nnever\n\n"
        "00:00:01,000 --> 00:00:03,000\nout of order\n"
    )
    assert texts(source) == [(0.0, 2.0, "early"), (1.0, 3.0, "out of order")]
    assert [word in caplog.text for word in ("not after its start", "before 0", "24 hours", "is no time")] == [True] * 4


def test_a_missing_blank_line_does_not_swallow_the_next_cue():
    source = "1\n00:00:01,000 --> 00:00:02,000\nOne\n2\n00:00:03,000 --> 00:00:04,000\nTwo\n"
    assert [cue.text for cue in parse_subtitles(source)] == ["One", "Two"]


@pytest.mark.parametrize(("name", "content"), [("a.srt", b"nothing"), ("a.vtt", b""), ("a.txt", SRT.encode())])
def test_files_without_cues_are_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=name):
        read_subtitles(tmp_path / name)


LINES = st.sampled_from(
    [
        "1",
        "",
        "WEBVTT",
        "NOTE x",
        "00:00:01,000 --> 00:00:02,000",
        "-1:00 --> 1:00",
        "a --> b",
        "<i>",
        "{\\",
        "♪",
        "99:99:99,999 --> 9999:59:59.9",
    ]
)


@settings(max_examples=200)
@given(st.lists(st.one_of(LINES, st.text(max_size=20)), max_size=20))
def test_any_file_is_read_or_refused(lines):
    try:
        cues = parse_subtitles("\n".join(lines))
    except ValueError:
        return
    assert all(0 <= cue.start < cue.end and "\n" not in cue.text for cue in cues)


def test_references_do_not_make_a_cue_take_minutes_or_spoil_the_file():
    began = time.process_time()
    lines = parse_subtitles(SRT.replace("Hello.", "&#10;" * 300_000 + "- Hello."))
    assert lines[0].text == "Hello."
    assert time.process_time() - began < 10
    first, second = parse_subtitles(SRT.replace("Hello.", "&#" + "9" * 6000 + "; Hello."))
    assert (first.text, second.text) == ("\ufffd Hello.", "Second line of two.")
