"""`clock-attention align` for many recordings: what it writes, how it goes on, and mistakes."""

from __future__ import annotations

import csv

import pytest

from tests.commands.coded_recordings import OTHER, TEXT, files, printed, record
from tests.speech.aligner.coded import CodedAligner


@pytest.fixture
def folder(tmp_path):
    """Speakers in folders, as MFA wants them: three that can be aligned, and one of every kind that cannot."""
    for name, text in (("ann/1", TEXT), ("ann/2", OTHER), ("bob/1", "Good morning.")):
        record(tmp_path / "corpus" / f"{name}.wav", text)
        (tmp_path / "corpus" / f"{name}.{'lab' if name == 'bob/1' else 'txt'}").write_text(text)
    record(tmp_path / "corpus" / "bob" / "2.flac")
    (tmp_path / "corpus" / "bob" / "2.txt").write_text(OTHER)
    record(tmp_path / "corpus" / "bob" / "3.wav")
    (tmp_path / "corpus" / "bob" / "lonely.txt").write_text("nobody said this")
    return tmp_path / "corpus"


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return {row["recording"]: row for row in csv.DictReader(file)}


def test_a_folder_is_aligned_as_far_as_it_can_be_and_the_rest_is_listed(align, folder, tmp_path):
    result = align("corpus", "-o", "out", "--format", "TextGrid", "--format", "json", "--plot", "pictures")
    assert result.exit_code == 1
    good = ["ann/1", "ann/2", "bob/1"]
    assert files(tmp_path / "out") == sorted(
        ["alignment.csv", "ann", "bob", *(f"{name}.{ending}" for name in good for ending in ("TextGrid", "json"))]
    )
    assert files(tmp_path / "pictures") == ["ann", "ann/1.png", "ann/2.png", "bob", "bob/1.png"]
    table = rows(tmp_path / "out" / "alignment.csv")
    assert {name: row["status"] for name, row in table.items()} == {
        **dict.fromkeys(good, "aligned"),
        "bob/2": "failed",
        "bob/3": "failed",
    }
    assert "does not fit" in table["bob/2"]["reason"]
    assert "no transcript beside it" in table["bob/3"]["reason"]
    assert float(table["ann/1"]["score"]) > -1
    assert "3 aligned, 2 failed" in printed(result)
    assert "bob/2: the text does not fit" in printed(result)
    assert "1 transcripts without a recording: lonely.txt" in printed(result)


def test_a_run_goes_on_where_it_stopped_and_repeats_what_has_changed(align, folder, tmp_path, monkeypatch):
    aligned = []
    whole = CodedAligner.align

    def counted(self, audio, *arguments, **options):
        aligned.append(audio[-9:])
        return whole(self, audio, *arguments, **options)

    monkeypatch.setattr(CodedAligner, "align", counted)
    assert align("corpus", "-o", "out").exit_code == 1
    assert len(aligned) == 4
    aligned.clear()
    result = align("corpus", "-o", "out")
    assert aligned == ["ob/2.flac"]  # what failed is tried again
    assert "3 aligned (3 of them earlier), 2 failed" in printed(result)
    (folder / "bob" / "2.txt").write_text(TEXT)
    (folder / "bob" / "3.txt").write_text(TEXT)
    (folder / "ann" / "2.txt").write_text(OTHER + " ")  # the same text
    (tmp_path / "out" / "ann" / "1.TextGrid").unlink()
    aligned.clear()
    assert align("corpus", "-o", "out").exit_code == 0
    assert aligned == ["ann/1.wav", "ob/2.flac", "bob/3.wav"]
    aligned.clear()
    assert align("corpus", "-o", "out", "--overwrite").exit_code == 0
    assert len(aligned) == 5


@pytest.mark.parametrize("option", [["--adapt"], ["--lexicon", "words.toml"], ["--cues", "words"]])
def test_what_was_aligned_with_other_options_is_aligned_again(align, tmp_path, monkeypatch, option):
    record(tmp_path / "corpus" / "1.wav")
    (tmp_path / "corpus" / "1.txt").write_text(TEXT)
    (tmp_path / "words.toml").write_text('blorptag = "/blˈɔːrptæɡ/"')
    monkeypatch.setattr(CodedAligner, "adapt", lambda self, recordings, **options: CodedAligner(), raising=False)
    assert "1 aligned, 0 failed" in printed(align("corpus", "-o", "out"))
    assert "1 aligned, 0 failed" in printed(align("corpus", "-o", "out", *option))
    assert "1 aligned (1 of them earlier), 0 failed" in printed(align("corpus", "-o", "out", *option))


def test_without_a_folder_files_are_written_next_to_the_recordings(align, folder):
    align("corpus")
    assert (folder / "ann" / "1.TextGrid").exists()
    assert (folder / "alignment.csv").exists()


def test_transcripts_are_not_overwritten_with_labels(align, folder):
    result = align("corpus", "--format", "lab")
    assert result.exit_code == 1
    assert "is a transcript, not labels" in printed(result)
    assert (folder / "bob" / "1.lab").read_text() == "Good morning."


def test_an_ljspeech_folder(align, tmp_path):
    record(tmp_path / "lj" / "wavs" / "a.wav")
    record(tmp_path / "lj" / "wavs" / "b.wav", OTHER)
    (tmp_path / "lj" / "metadata.csv").write_text(f"a|{TEXT}\nb|she had|{OTHER}\nc|missing\n", encoding="utf-8")
    result = align("lj", "-o", "out", "--format", "ctm")
    assert result.exit_code == 1
    assert files(tmp_path / "out") == ["a.ctm", "alignment.csv", "b.ctm"]
    assert "c: missing: no audio file" in printed(result)


def test_several_recordings_by_name(align, tmp_path):
    for name in "ab":
        record(tmp_path / f"{name}.wav", OTHER)
        (tmp_path / f"{name}.txt").write_text(OTHER)
    assert align("a.wav", "b.wav", "-o", "out").exit_code == 0
    assert files(tmp_path / "out") == ["a.TextGrid", "alignment.csv", "b.TextGrid"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["corpus", "--text", "hello"], "got a text and a folder"),
        (["corpus", "-o", "a.TextGrid"], "expected a folder for several recordings"),
        (["corpus", "-o", "a", "-o", "b"], "expected one folder"),
        (["nothing"], "nothing: no such file or folder"),
        (["empty"], "no recordings"),
    ],
)
def test_mistakes_with_folders(align, folder, tmp_path, arguments, message):
    (tmp_path / "empty").mkdir()
    before = files(tmp_path)
    result = align(*arguments)
    assert result.exit_code == 1
    assert message in printed(result)
    assert files(tmp_path) == before
