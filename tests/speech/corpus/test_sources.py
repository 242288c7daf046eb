"""Folders of recordings as people have them."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.files import visible_files
from clock_attention.speech.corpus import sources as module
from clock_attention.speech.corpus.metadata import id_fault
from clock_attention.speech.corpus.sources import find_sources, plain_id


@pytest.fixture
def sound(tmp_path):
    def write(name):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, np.zeros(100), 8000)
        return path

    return write


def test_every_sound_file_counts_with_the_text_file_of_the_same_name(sound, tmp_path):
    sound("b.wav").with_suffix(".txt").write_text("Two\n lines.\n")
    sound("day one/a.flac")
    sound(".trash/c.wav")
    (tmp_path / "d.txt").write_text("no audio")
    sources, rejected = find_sources(tmp_path)
    assert [(source.id, source.text) for source in sources] == [("b", "Two lines."), ("day_one_a", None)]
    assert not rejected


def test_an_ljspeech_folder_is_read_by_its_table(sound, tmp_path):
    sound("wavs/a.wav")
    (tmp_path / "metadata.csv").write_text("a|Hello.\nb|Nobody.\na|Again.\n")
    sources, rejected = find_sources(tmp_path)
    assert [(source.id, source.text) for source in sources] == [("a", "Hello.")]
    assert sorted(row.reason for row in rejected) == ["duplicate id", "missing"]


def test_two_files_of_one_name_are_not_taken_for_one(sound, tmp_path):
    sound("a.wav")
    (tmp_path / "a.aac").touch()
    (good, other), rejected = find_sources(tmp_path)
    assert (good.path, good.fault) == (str(tmp_path / "a.wav"), "")
    assert (other.path, other.reason) == (str(tmp_path / "a.aac"), "duplicate id")
    assert other.fault == "it has the name of a.wav, so it counts as the same recording in another format"
    assert not rejected


def test_a_second_format_is_no_text(sound, tmp_path):
    for name in ("a.wav", "a.flac"):
        sound(name)
    (tmp_path / "script.txt").write_text("One.")
    with pytest.raises(ValueError, match="no recording has a text"):
        find_sources(tmp_path)


def test_a_text_that_cannot_be_read_does_not_stop_the_others(sound, tmp_path):
    sound("a.wav").with_suffix(".txt").write_bytes(b"caf\xe9")
    sound("b.wav").with_suffix(".txt").write_text("Two.")
    bad, good = find_sources(tmp_path)[0]
    assert bad.text is None
    assert "a.txt is not UTF-8" in bad.fault
    assert (good.text, good.fault) == ("Two.", "")


def test_texts_are_found_however_their_names_are_spelled(sound, tmp_path):
    (tmp_path / "A.TXT").write_text("One.")
    (tmp_path / "b.wav.txt").write_text("Two.")
    for name in ("a.WAV", "b.wav"):
        sound(name)
    assert [(source.id, source.text) for source in find_sources(tmp_path)[0]] == [("a", "One."), ("b", "Two.")]


@pytest.mark.parametrize("name", ["script.txt", "set/metadata.csv", "metadata.tsv"])
def test_texts_that_belong_to_nothing_are_not_replaced_by_a_recognizers(sound, tmp_path, name):
    sound("set/a.wav")
    (tmp_path / "readme.txt").write_text("My recordings.")
    assert find_sources(tmp_path)[0][0].text is None
    (tmp_path / name).write_text("One.")
    with pytest.raises(ValueError, match=rf"no recording has a text, but there are files that may hold texts: {name}"):
        find_sources(tmp_path)


def test_a_text_of_the_very_name_comes_first(sound, tmp_path):
    for folder, text in (("A", "Upper."), ("a", "Lower.")):
        sound(f"{folder}/1.wav").with_suffix(".txt").write_text(text)
    sources, _ = find_sources(tmp_path)
    assert {source.path.split("/")[-2]: source.text for source in sources} == {"A": "Upper.", "a": "Lower."}


def test_an_empty_text_is_no_text(sound, tmp_path):
    sound("a.wav").with_suffix(".txt").write_text("")
    assert find_sources(tmp_path)[0][0].text is None


def test_names_that_become_alike_are_numbered(sound, tmp_path):
    for name in ("take 1.wav", "Take_1.wav", "take(1.wav"):
        sound(name)
    sources, rejected = find_sources(tmp_path)
    assert not rejected
    assert len({source.id.casefold() for source in sources}) == 3


def test_recordings_that_the_table_does_not_name_are_counted(sound, tmp_path):
    long = "c" * 100
    for name in ("wavs/a.wav", "wavs/a.mp3", "wavs/b.wav", f"wavs/{long}.wav"):
        sound(name)
    (tmp_path / "metadata.csv").write_text(f"a|One.\n{long}|too|many|columns|here\na.wav|The same file.\n")
    (good, *left_out), rejected = find_sources(tmp_path)
    assert (good.id, good.fault) == ("a", "")
    assert [(source.id[0], Path(source.path).name, source.reason) for source in left_out] == [
        ("c", f"{long}.wav", "malformed row"),
        ("a", "a.mp3", "duplicate id"),
        ("b", "b.wav", "not in metadata.csv"),
    ]
    assert left_out[0].fault.startswith("line 2: 5 columns, expected")
    assert [(row.id, row.reason) for row in rejected] == [("a.wav", "missing")]


def test_files_below_a_table_are_counted(sound, tmp_path):
    for name in ("wavs/a.wav", "day 2/a.wav", "wavs/more/c.wav", ".trash/d.wav"):
        sound(name)
    (tmp_path / "day 2" / "b.m4b").touch()
    (tmp_path / "metadata.csv").write_text("a|One.\nday 2/B|Two.\nwavs/more/c.wav|Three.\nday 2/e|Four.\n")
    (_, *left_out), rejected = find_sources(tmp_path)
    assert [(source.id, Path(source.path).name, source.reason) for source in left_out] == [
        ("day 2/B", "b.m4b", "bad id"),
        ("more/c.wav", "c.wav", "bad id"),
        ("day_2_a", "a.wav", "not in metadata.csv"),
    ]
    assert left_out[-1].fault == "metadata.csv can only name files next to it and in wavs/"
    assert [(row.id, row.reason) for row in rejected] == [("day 2/e", "bad id")]


def test_a_rejected_row_keeps_its_file_unless_another_row_has_it(sound, tmp_path):
    for name in ("wavs/a.wav", "wavs/b.wav"):
        sound(name)
    (tmp_path / "metadata.csv").write_text("a|too|many|columns|here\na|One.\nb|too|many|columns|here\nb|a|b|c|d\n")
    sources, rejected = find_sources(tmp_path)
    assert [(source.id, source.text, source.fault[:6]) for source in sources] == [
        ("a", "One.", ""),
        ("b", None, "line 3"),
    ]
    assert [row.detail[:6] for row in rejected] == ["line 1", "line 4"]


def test_a_link_to_the_folder_of_the_recordings_leads_to_nothing_new(sound, tmp_path):
    sound("takes/a.wav")
    (tmp_path / "wavs").symlink_to(tmp_path / "takes")
    (tmp_path / "metadata.csv").write_text("a|One.\n")
    sources, rejected = find_sources(tmp_path)
    assert [source.text for source in sources] == ["One."]
    assert not rejected


FILES = st.tuples(
    st.sampled_from(["a", "b", "wavs/a", "wavs/b", "wavs/c d", "day/a", "day/b"]),
    st.sampled_from([".wav", ".mp3", ".wv"]),
)
ROWS = st.tuples(
    st.sampled_from(["", "a", "A", "b", "b.wav", "c d", "day/a", "../a"]), st.sampled_from(["One.", "x|y|z|w"])
)


@given(st.sets(FILES, max_size=10), st.lists(ROWS, max_size=6))
def test_every_file_beside_a_table_is_a_source_once_and_so_is_every_row(tmp_path_factory, files, rows):
    folder = tmp_path_factory.mktemp("mine")
    paths = [folder / "wavs" / "good.wav", *(folder / (name + suffix) for name, suffix in files)]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    lines = ["good|Good.", *(f"{name}|{text}" for name, text in rows)]
    (folder / "metadata.csv").write_text("\n".join(lines))
    sources, rejected = find_sources(folder)
    assert sorted(source.path for source in sources) == sorted(map(str, paths))
    assert all(bool(source.text) != bool(source.fault) for source in sources)
    of_rows = [source for source in sources if source.text or source.reason in ("malformed row", "bad id")]
    assert len(of_rows) + len(rejected) == len(lines)


@pytest.mark.parametrize("table", ["", "a|One.\nc|too|many|columns|here\n"])
def test_the_order_of_sources_is_not_that_of_the_disk(table, sound, tmp_path, monkeypatch):
    for name in ("wavs/a.wav", "wavs/A.wav", "wavs/a.WAV", "wavs/a.mp3", "b.wav", "c.wav", "day/c.wav"):
        sound(name)
    if table:
        (tmp_path / "metadata.csv").write_text(table)
    found, files = find_sources(tmp_path), list(visible_files(tmp_path))
    monkeypatch.setattr(module, "visible_files", lambda folder: reversed(files))
    assert find_sources(tmp_path) == found


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("a\tOne.\n", "its first row: malformed row, line 1: 1 columns"),
        ('"a","One."\n', "its first row: malformed row, line 1: 1 columns"),
        ("b|Two.\n", "its first row: missing, no audio file named b"),
        ("", "it is empty; expected lines"),
        (" \n\n", "it is empty; expected lines"),
    ],
)
def test_a_table_that_names_nothing_is_an_error(sound, tmp_path, table, why):
    sound("wavs/a.wav")
    (tmp_path / "metadata.csv").write_text(table)
    with pytest.raises(ValueError, match=rf"metadata\.csv yields no usable recording; {why}"):
        find_sources(tmp_path)


def test_wrong_folders_get_a_sentence(sound, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        find_sources(tmp_path / "nowhere")
    with pytest.raises(NotADirectoryError, match="is a file; name the folder"):
        find_sources(sound("a.wav"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no recordings in it; expected sound files"):
        find_sources(tmp_path / "empty")


def test_ids_are_plain_names():
    assert plain_id("Day 1/take|2: über") == "Day_1_take_2_über"
    assert plain_id("...") == "recording"


@given(st.text(st.characters(), max_size=300))
def test_any_name_of_a_file_becomes_an_id_without_a_fault(name):
    assert id_fault(plain_id(name)) == ""


def test_a_table_of_several_speakers_is_refused_and_of_one_is_not(sound, tmp_path):
    for name in ("a", "b"):
        sound(f"wavs/{name}.wav")
    (tmp_path / "metadata.csv").write_text("a|One.||ann\nb|Two.||bob\n")
    with pytest.raises(ValueError, match=r"names 2 speakers \(ann, bob\)"):
        find_sources(tmp_path)
    (tmp_path / "metadata.csv").write_text("a|One.||ann\nb|Two.||ann\n")
    assert [source.text for source in find_sources(tmp_path)[0]] == ["One.", "Two."]
