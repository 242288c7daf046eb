"""Chapters to files, continued where a run stopped."""

import json

import pytest
import soundfile

from clock_attention.speech.text.books import Chapter
from clock_attention.speech.voice.audiobook import contents, slug, speak_book
from clock_attention.speech.voice.voice import Voice
from tests.speech.voice.test_synthesis import Hum
from tests.speech.voices import tiny_aligned_voice

BOOK = [Chapter("One: a/b", "One.\n\nIt began."), Chapter("Été", "Two. It ended.")]


class Broken(Exception):
    pass


def test_chapters_are_files_and_finished_ones_are_kept(tmp_path):
    voice = Voice.load(tiny_aligned_voice(tmp_path / "voice"))
    hum = Hum(voice.language.mel)
    seen = []

    def stop_in_the_second(number, done, sentences):
        seen.append((number, done, sentences))
        if number == 2:
            raise Broken

    with pytest.raises(Broken):
        speak_book(voice, BOOK, tmp_path / "book", vocoder=hum, progress=stop_in_the_second)
    assert not list((tmp_path / "book").glob("002*"))
    seen.clear()
    spoken = speak_book(voice, BOOK, tmp_path / "book", vocoder=hum, progress=lambda *at: seen.append(at))
    assert {number for number, *_ in seen} == {2}
    assert [chapter.file for chapter in spoken] == ["001-one-a-b.wav", "002-ete.wav"]
    assert spoken[1].start == spoken[0].seconds == soundfile.info(tmp_path / "book" / spoken[0].file).duration
    assert json.loads((tmp_path / "book" / "chapters.json").read_text())["chapters"][1]["title"] == "Été"
    words = json.loads((tmp_path / "book" / spoken[1].timestamps).read_text())["tiers"]["words"]
    assert [word["label"] for word in words] == ["Two", "It", "ended"]
    seen.clear()
    speak_book(voice, BOOK, tmp_path / "book", vocoder=hum, pace=1.5, progress=lambda *at: seen.append(at))
    assert {number for number, *_ in seen} == {1, 2}


def test_titles_become_file_names():
    assert slug("Chapter 1: “Ærø”!") == "chapter-1-aero"
    assert slug("…") == "chapter"


@pytest.mark.parametrize("content", ['{"chapters": 5}', "[" * 10**5, '{"chapters": [5, {}]}', "\xff"])
def test_a_damaged_list_of_chapters_is_none(tmp_path, content):
    (tmp_path / "chapters.json").write_text(content, "latin-1")
    assert list(contents(tmp_path)) == []
    entry = {"number": "1", "title": "", "file": "", "timestamps": "", "start": 0, "seconds": 1, "key": "x"}
    (tmp_path / "chapters.json").write_text(json.dumps({"chapters": [entry, {**entry, "number": 2}]}))
    assert [one["number"] for one in contents(tmp_path)] == [2]
