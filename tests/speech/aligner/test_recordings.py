"""Recordings and transcripts as people keep them."""

from __future__ import annotations

import pytest

from clock_attention.speech.aligner.recordings import find_recordings, read_transcript


@pytest.fixture
def folder(tmp_path):
    for name in ("ann/1.wav", "ann/2.FLAC", "bob/deep/1.mp3", "bob/call.m4a", ".hidden/1.wav", "ann/.x.wav"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "ann/1.txt").write_text("one\n")
    (tmp_path / "ann/2.lab").write_text("two")
    (tmp_path / "bob/deep/1.txt").write_text("three")
    (tmp_path / "bob/call.txt").write_text("four")
    (tmp_path / "README.txt").write_text("about")
    return tmp_path


def test_folders_of_speakers_are_searched_and_hidden_files_left_alone(folder):
    found = find_recordings([folder])
    expected = [("ann/1", "one"), ("ann/2", "two"), ("bob/call", "four"), ("bob/deep/1", "three")]
    assert [(r.id, r.text) for r in found.recordings] == expected
    assert found.rejected == ()
    assert [path.name for path in found.without_audio] == ["README.txt"]


def test_a_text_wins_over_labels_of_the_same_name(folder):
    (folder / "ann/1.lab").write_text("0 100000 sil\n100000 2000000 w\n")
    assert find_recordings([folder]).recordings[0].text == "one"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b" \n", "is empty"),
        (b"caf\xe9", "not UTF-8"),
        (b"0 1000000 sil\n1000000 2000000 w\n", "holds labels with times"),
    ],
)
def test_a_transcript_that_is_none_is_a_reason(folder, content, message):
    (folder / "ann/2.lab").write_bytes(content)
    found = find_recordings([folder])
    assert [r.id for r in found.recordings] == ["ann/1", "bob/call", "bob/deep/1"]
    assert message in found.rejected[0].detail


def test_the_same_name_twice_is_a_reason(folder):
    found = find_recordings([folder / "ann/1.wav", folder / "bob/deep/1.mp3"])
    assert [r.id for r in found.recordings] == ["1"]
    assert [r.reason for r in found.rejected] == ["duplicate id"]


def test_sample_numbers_at_the_start_of_timit_texts_are_removed(tmp_path):
    path = tmp_path / "sa1.txt"
    path.write_text("0 46797 She had your dark suit.\n")
    assert read_transcript(path) == "She had your dark suit."
    path.write_text("0 to 100 in five seconds")
    assert read_transcript(path) == "0 to 100 in five seconds"
