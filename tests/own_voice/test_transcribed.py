"""Texts that a recognizer wrote stay marked as such, also when a voice is made of them later."""

import json

import pytest

from clock_attention.own_voice.gather import Gathered, table_digest
from clock_attention.own_voice.transcribed import machine_made, marked, warnings_about_texts

TABLE = "a|Hello there.\nb|How are you?\n"


def transcribed_folder(folder, clips=2):
    folder.mkdir()
    (folder / "metadata.csv").write_text(TABLE)
    gathered = {"clips": 2, "transcribed_clips": clips, "transcribed_by": "moonshine" if clips else ""}
    (folder / "gathered.json").write_text(json.dumps(gathered | {"table": table_digest(TABLE.encode())}))
    return folder


def test_folders_of_people_are_not_marked(tmp_path):
    assert machine_made(tmp_path) is None
    assert machine_made(transcribed_folder(tmp_path / "clips", clips=0)) is None
    assert warnings_about_texts(marked(Gathered(clips=5), None)) == []


def test_a_transcribed_folder_is_marked_and_warned_about(tmp_path):
    gathered = marked(Gathered(clips=5), machine_made(transcribed_folder(tmp_path / "clips")))
    assert (gathered.transcribed_by, gathered.transcribed_clips) == ("moonshine", 2)
    (warning,) = warnings_about_texts(gathered)
    assert "2 of 5 texts were written by moonshine, a recognizer" in warning


def test_corrections_are_said_and_need_no_advice(tmp_path):
    folder = transcribed_folder(tmp_path / "clips")
    (folder / "metadata.csv").write_text(TABLE.replace("Hello", "Hallo"))
    assert warnings_about_texts(marked(Gathered(clips=1), machine_made(folder))) == [
        "1 of 1 texts were written by moonshine, corrected by hand"
    ]


@pytest.mark.parametrize("content", ["{", "[]", '{"clips": "many"}', "\x00"])
def test_a_file_that_does_not_say_who_wrote_the_texts_is_named(tmp_path, content):
    (tmp_path / "gathered.json").write_text(content)
    with pytest.raises(ValueError, match=r"gathered\.json is damaged or from another program; expected .*: restore it"):
        machine_made(tmp_path)


def test_the_mark_of_a_later_version_counts(tmp_path):
    folder = transcribed_folder(tmp_path / "clips")
    found = json.loads((folder / "gathered.json").read_text())
    (folder / "gathered.json").write_text(json.dumps(found | {"something": "new"}))
    assert machine_made(folder) == ("moonshine", 2)
