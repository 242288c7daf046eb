"""Folders of recordings as people have them."""

import numpy as np
import pytest
import soundfile

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
    sources, rejected = find_sources(tmp_path)
    assert [source.path for source in sources] == [str(tmp_path / "a.wav")]
    assert [row.reason for row in rejected] == ["duplicate id"]


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
    (good, left_out), rejected = find_sources(tmp_path)
    assert [(row.id[0], row.reason) for row in rejected] == [("c", "malformed row"), ("a", "missing")]
    assert (good.id, good.fault) == ("a", "")
    assert (left_out.id, left_out.reason) == ("b", "not in metadata.csv")


@pytest.mark.parametrize("table", ["a\tOne.\n", '"a","One."\n', "b|Two.\n", ""])
def test_a_table_that_names_nothing_is_an_error(sound, tmp_path, table):
    sound("wavs/a.wav")
    (tmp_path / "metadata.csv").write_text(table)
    with pytest.raises(ValueError, match=r"metadata\.csv yields no usable recording"):
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


def test_a_table_of_several_speakers_is_refused_and_of_one_is_not(sound, tmp_path):
    for name in ("a", "b"):
        sound(f"wavs/{name}.wav")
    (tmp_path / "metadata.csv").write_text("a|One.||ann\nb|Two.||bob\n")
    with pytest.raises(ValueError, match=r"names 2 speakers \(ann, bob\)"):
        find_sources(tmp_path)
    (tmp_path / "metadata.csv").write_text("a|One.||ann\nb|Two.||ann\n")
    assert [source.text for source in find_sources(tmp_path)[0]] == ["One.", "Two."]
