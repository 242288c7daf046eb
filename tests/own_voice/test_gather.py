"""Recordings of any kind become clips of one rate and loudness, and nothing disappears without a reason."""

import json
import shutil
import subprocess

import numpy as np
import pytest
import soundfile

from clock_attention.own_voice.gather import Gathering, read_gathered, why_left_out
from clock_attention.speech.audio.loudness import LOUDNESS, loudness
from clock_attention.speech.audio.wave import resample
from clock_attention.speech.corpus.cutting import TimedWord
from clock_attention.speech.corpus.ljspeech import read_folder
from clock_attention.speech.corpus.sources import Source, find_sources

RATE = 22050


def tone(seconds, rate, level=0.1):
    time = np.arange(round(seconds * rate)) / rate
    return level * np.sin(2 * np.pi * 220 * time) * (time % 1.0 < 0.7)


class Recognizer:
    name = "parrot"

    def __init__(self, text="Hello there.", fingerprint="1"):
        self.text, self.fingerprint = text, fingerprint

    def transcribe(self, wave, sample_rate):
        return self.text


def test_rates_and_levels_become_one(tmp_path):
    for name, rate, level in (("a", 44100, 0.02), ("b", 16000, 0.7)):
        soundfile.write(tmp_path / f"{name}.wav", tone(3, rate, level), rate)
        (tmp_path / f"{name}.txt").write_text("One | two.")
    sources, rejected = find_sources(tmp_path)
    result = Gathering(tmp_path / "clips", RATE).run(sources, rejected)
    recordings, bad = read_folder(tmp_path / "clips")
    assert not bad
    assert [row.text for row in recordings] == ["One , two."] * 2
    for row in recordings:
        wave, rate = soundfile.read(row.path)
        assert rate == RATE
        assert loudness(wave, rate) == pytest.approx(LOUDNESS, abs=0.3)
    assert result.clips == 2
    assert result.loudness[2] - result.loudness[0] > 25
    assert read_gathered(tmp_path / "clips") == result


def test_recordings_of_a_telephone_are_counted_whatever_the_rate_of_their_files(tmp_path):
    noise = np.random.default_rng(0).normal(scale=0.05, size=3 * RATE).astype(np.float32)
    telephone = resample(resample(noise, RATE, 8000), 8000, RATE)
    for name, wave in (("microphone", noise), ("telephone", telephone)):
        soundfile.write(tmp_path / f"{name}.wav", wave, RATE)
        (tmp_path / f"{name}.txt").write_text("One two.")
    assert Gathering(tmp_path / "clips", RATE).run(*find_sources(tmp_path)).narrowband == [1, 3.0]


def test_a_long_recording_is_cut_between_its_words_and_all_of_it_is_used(tmp_path):
    words = [TimedWord(float(i), i + 0.7, f"word{i}") for i in range(40)]
    text = ", ".join(word.text for word in words) + "."
    soundfile.write(tmp_path / "long.wav", tone(40, RATE), RATE)
    source = Source("long", str(tmp_path / "long.wav"), text)
    result = Gathering(tmp_path / "clips", RATE, find_words=lambda *_: words).run([source])
    recordings, _ = read_folder(tmp_path / "clips")
    assert " ".join(row.text for row in recordings) == text
    assert result.seconds == pytest.approx(40)
    assert result.cut == 1
    assert max(soundfile.info(row.path).duration for row in recordings) <= 12


def test_a_long_recording_without_one_of_its_words_is_left_out_and_counted(tmp_path):
    soundfile.write(tmp_path / "music.wav", tone(40, RATE), RATE)
    source = Source("music", str(tmp_path / "music.wav"), "What nobody says.")
    result = Gathering(tmp_path / "clips", RATE, find_words=lambda *_: []).run([source])
    assert result.left_out == {"not cut": [1, pytest.approx(40)]}
    assert "none of the words" in why_left_out(tmp_path / "clips")


def test_what_has_no_text_is_written_down_and_flagged(tmp_path):
    soundfile.write(tmp_path / "a.wav", tone(30, RATE), RATE)
    sources, _ = find_sources(tmp_path)
    result = Gathering(tmp_path / "clips", RATE, recognizer=Recognizer).run(sources)
    assert result.transcribed_by == "parrot"
    assert result.transcribed_clips == result.clips >= 3
    assert json.loads((tmp_path / "clips" / "gathered.json").read_text())["transcribed_by"] == "parrot"
    silent = Gathering(tmp_path / "none", RATE, recognizer=lambda: Recognizer("…")).run(sources)
    assert silent.left_out["no words"][1] == pytest.approx(30, abs=0.1)


def test_nothing_is_left_out_without_a_reason(tmp_path):
    soundfile.write(tmp_path / "silent.wav", np.zeros(RATE), RATE)
    (tmp_path / "broken.wav").write_bytes(b"RIFF nothing")
    soundfile.write(tmp_path / "long.wav", tone(30, RATE), RATE)
    (tmp_path / "long.txt").write_text("A text.")
    soundfile.write(tmp_path / "untold.wav", tone(3, RATE), RATE)
    soundfile.write(tmp_path / "latin.wav", tone(3, RATE), RATE)
    (tmp_path / "latin.txt").write_bytes("Café.".encode("latin1"))
    sources, rejected = find_sources(tmp_path)
    result = Gathering(tmp_path / "clips", RATE).run(sources, rejected)
    assert {reason: count for reason, (count, _) in result.left_out.items()} == {
        "silent": 1,
        "unreadable": 1,
        "not cut": 1,
        "no text": 1,
        "unreadable text": 1,
    }
    assert result.left_out["unreadable text"][1] == pytest.approx(3)
    assert len((tmp_path / "clips" / "left_out.jsonl").read_text().splitlines()) == 5


def test_every_second_beside_a_table_is_used_or_has_a_reason(tmp_path):
    lengths = {
        "wavs/a.wav": 2.0,
        "wavs/b.wav": 3.0,
        "wavs/c.wav": 5.0,
        "wavs/a.flac": 2.0,
        "session2/a.wav": 7.0,
        "d.wav": 11.0,
    }
    for name, seconds in lengths.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        soundfile.write(tmp_path / name, tone(seconds, RATE), RATE)
    (tmp_path / "metadata.csv").write_text("a|One.\nb|Two.|with|an extra|column\nsession2/a|Four.\nnobody|Five.\n")
    result = Gathering(tmp_path / "clips", RATE).run(*find_sources(tmp_path))
    assert result.left_out == {
        "malformed row": [1, pytest.approx(3)],
        "bad id": [1, pytest.approx(7)],
        "duplicate id": [1, pytest.approx(2)],
        "not in metadata.csv": [2, pytest.approx(5 + 11)],
        "missing": [1, 0],
    }
    assert result.seconds == pytest.approx(2)
    assert result.seconds_found == pytest.approx(sum(lengths.values()))


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")
def test_seconds_of_files_that_only_ffmpeg_reads_are_counted(tmp_path, monkeypatch):
    from clock_attention.own_voice import gather

    folder = tmp_path / "mine"
    folder.mkdir()
    for name, seconds in (("a.m4a", 2), ("b.wv", 3), ("c.m4a", 5)):
        soundfile.write(tmp_path / "tone.wav", tone(seconds, RATE), RATE)
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", tmp_path / "tone.wav", folder / name], check=True)
    (folder / "metadata.csv").write_text("a|One.\nc|Three.\n")
    monkeypatch.setattr(gather, "LONGEST_SOURCE", 4.0)
    result = Gathering(tmp_path / "clips", RATE).run(*find_sources(folder))
    assert result.left_out["not in metadata.csv"] == [1, pytest.approx(3, abs=0.1)]
    assert result.left_out["unreadable"] == [1, pytest.approx(5, abs=0.1)]
    assert result.seconds_found == pytest.approx(2 + 3 + 5, abs=0.2)
    lost = sum(seconds for _, seconds in result.left_out.values())
    assert result.seconds + lost == pytest.approx(result.seconds_found)


def test_pieces_of_a_recording_with_a_long_name_have_names_that_can_be_read(tmp_path):
    soundfile.write(tmp_path / f"{'a' * 220}.wav", tone(30, RATE), RATE)
    sources, rejected = find_sources(tmp_path)
    assert not rejected
    result = Gathering(tmp_path / "clips", RATE, recognizer=Recognizer).run(sources)
    recordings, rejected = read_folder(tmp_path / "clips")
    assert result.clips == len(recordings) >= 3
    assert not rejected


def test_names_that_differ_in_capital_letters_get_files_of_their_own(tmp_path):
    (tmp_path / "wavs").mkdir()
    for name in ("a", "A"):
        soundfile.write(tmp_path / "wavs" / f"{name}.wav", tone(2, RATE), RATE)
    (tmp_path / "metadata.csv").write_text("a|lower.\nA|upper.\n")
    Gathering(tmp_path / "clips", RATE).run(find_sources(tmp_path)[0])
    recordings, _ = read_folder(tmp_path / "clips")
    assert [row.text for row in recordings] == ["lower.", "upper."]
    assert len({row.path.casefold() for row in recordings}) == 2


def test_clipped_and_very_short_recordings_are_left_out_by_name(tmp_path):
    loud = np.clip(tone(3, RATE, 3.0), -1, 1)
    soundfile.write(tmp_path / "clipped.wav", loud, RATE)
    soundfile.write(tmp_path / "yes.wav", tone(0.38, RATE), RATE)
    for name in ("clipped", "yes"):
        (tmp_path / f"{name}.txt").write_text("Yes.")
    result = Gathering(tmp_path / "clips", RATE).run(find_sources(tmp_path)[0])
    assert set(result.left_out) == {"clipped", "too short"}


def test_pieces_never_take_the_name_of_another_recording(tmp_path):
    soundfile.write(tmp_path / "talk.wav", tone(30, RATE), RATE)
    soundfile.write(tmp_path / "TALK_0000.wav", tone(2, RATE), RATE)
    result = Gathering(tmp_path / "clips", RATE, recognizer=Recognizer).run(find_sources(tmp_path)[0])
    recordings, rejected = read_folder(tmp_path / "clips")
    assert not rejected
    assert len({row.path.casefold() for row in recordings}) == result.clips
    assert sum(soundfile.info(row.path).duration for row in recordings) == pytest.approx(32, abs=0.1)


def test_transcripts_are_not_written_twice(tmp_path):
    soundfile.write(tmp_path / "a.wav", tone(3, RATE), RATE)
    sources, _ = find_sources(tmp_path)
    memory = tmp_path / "transcripts.jsonl"
    for text, half in (("Once.", '\n["abc'), ("Twice.", "")):
        Gathering(tmp_path / "clips", RATE, recognizer=lambda text=text: Recognizer(text), memory=memory).run(sources)
        memory.write_text(memory.read_text() + half)
        assert read_folder(tmp_path / "clips")[0][0].text == "Once."
    newer = Gathering(tmp_path / "clips", RATE, recognizer=lambda: Recognizer("Twice.", "2"), memory=memory)
    newer.run(sources)
    assert read_folder(tmp_path / "clips")[0][0].text == "Twice."


def test_recordings_too_large_for_memory_are_read_in_blocks(tmp_path, monkeypatch):
    from clock_attention.own_voice import gather
    from clock_attention.speech.audio import sound_reading

    soundfile.write(tmp_path / "a.wav", np.stack([tone(30, 48000)] * 2, 1), 48000)
    sources, _ = find_sources(tmp_path)
    monkeypatch.setattr(gather, "LONGEST", 20.0)
    monkeypatch.setattr(sound_reading, "MOST_SAMPLES", 48000)
    result = Gathering(tmp_path / "clips", RATE, recognizer=Recognizer).run(sources)
    assert result.seconds == pytest.approx(30, abs=0.01)
    monkeypatch.setattr(gather, "LONGEST", 900.0)  # not long, and many channels
    monkeypatch.setattr(gather, "MOST_SAMPLES", 48000)
    result = Gathering(tmp_path / "again", RATE, recognizer=Recognizer).run(sources)
    assert result.seconds == pytest.approx(30, abs=0.01)
    monkeypatch.setattr(gather, "LONGEST_SOURCE", 20.0)
    result = Gathering(tmp_path / "none", RATE, recognizer=Recognizer).run(sources)
    assert result.left_out["unreadable"] == [1, pytest.approx(30)]
    assert "split it" in (tmp_path / "none" / "left_out.jsonl").read_text()
