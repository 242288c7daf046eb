from pathlib import Path

import pytest

from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.corpus.feature_extraction import Settings
from clock_attention.speech.corpus.ljspeech import AudioFiles, read_folder
from clock_attention.speech.corpus.prepare import prepare


def test_folder_is_read_in_order_with_the_normalized_column(ljspeech_folder: Path) -> None:
    recordings, rejected = read_folder(ljspeech_folder)
    assert [recording.id for recording in recordings[:2]] == ["good0", "good1"]
    assert recordings[0].text == "This is sentence number 0."
    assert recordings[1].path.endswith("good1.flac")
    assert {recording.id: recording.text for recording in recordings}["short"] == "A few words here."
    assert [(row.id, row.reason) for row in rejected] == [
        ("good0", "duplicate id"),
        ("only one column", "malformed row"),
        ("a", "malformed row"),
    ]


def test_every_fault_is_listed_with_its_reason(ljspeech_folder: Path, tmp_path: Path) -> None:
    recordings, rejected = read_folder(ljspeech_folder)
    store = prepare(
        recordings, tmp_path / "store", Settings(mel=MelConfig.preset("paper")), rejected=rejected, workers=1
    )
    assert {utterance.id for utterance in store.utterances} == {f"good{number}" for number in range(8)}
    reasons = {row.id: row.reason for row in store.rejected if row.reason != "duplicate id"}
    assert reasons == {
        "missing": "missing",
        "empty": "empty",
        "silent": "silent",
        "clipped": "clipped",
        "short": "too short",
        "long": "too long",
        "broken": "unreadable",
        "wordless": "no phonemes",
        "mismatch": "text mismatch",
        "only one column": "malformed row",
        "a": "malformed row",
    }
    assert all(row.detail for row in store.rejected)
    # Nothing is dropped silently: every row of the metadata is either in the store or in the list.
    rows = [line for line in (ljspeech_folder / "metadata.csv").read_text().splitlines() if line]
    assert len(store) + len(store.rejected) == len(rows)


def test_every_rate_gives_the_same_number_of_frames(ljspeech_folder: Path, tmp_path: Path) -> None:
    recordings, _ = read_folder(ljspeech_folder)
    store = prepare(recordings[:8], tmp_path / "store", Settings(mel=MelConfig.preset("paper")), workers=1)
    expected = 1.2 * store.mel_config.frames_per_second
    assert all(abs(utterance.frames - expected) < 3 for utterance in store.utterances)


def test_nothing_usable_is_an_error_that_says_why(ljspeech_folder: Path, tmp_path: Path) -> None:
    recordings, _ = read_folder(ljspeech_folder)
    bad = [recording for recording in recordings if recording.id in ("missing", "silent")]
    with pytest.raises(ValueError, match="missing: missing; silent: silent"):
        prepare(bad, tmp_path / "store", Settings(mel=MelConfig()), workers=1)


def test_missing_metadata_says_what_a_corpus_looks_like(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"id\|text"):
        read_folder(tmp_path)


def test_metadata_in_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "metadata.csv").write_bytes("a|café".encode("latin1"))
    with pytest.raises(ValueError, match="not UTF-8"):
        read_folder(tmp_path)


def test_audio_is_found_by_id_or_suffix(tmp_path: Path) -> None:
    for name in ("wavs/a.flac", "b.wav", "wavs/d.x.wav"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in ("a", "b", "b.wav", "d.x"):
        assert Path(AudioFiles(tmp_path).match([name])[name]).is_file()
    assert AudioFiles(tmp_path).match(["d"]) == {}
    assert list(AudioFiles(tmp_path).match(["a", "A", "B", "b"])) == ["a", "b"]
    assert list(AudioFiles(tmp_path).match(["b.wav", "b"])) == ["b"]
    (tmp_path / "a.flac.wav").touch()  # and not the file of "a"
    found = AudioFiles(tmp_path).match(["a.flac", "a"])
    assert {name: Path(path).name for name, path in found.items()} == {"a.flac": "a.flac.wav", "a": "a.flac"}


def test_ids_are_found_as_people_and_systems_spell_them(tmp_path: Path) -> None:
    (tmp_path / "wavs").mkdir()
    for name in ("A.WAV", "cafe\u0301.wav", "c.m4a", ".a.wav"):
        (tmp_path / "wavs" / name).touch()
    (tmp_path / "metadata.csv").write_text("file|text\nwavs/a.wav|One.\rcaf\u00e9|Two.\rc|Three.".replace("\n", "\r"))
    recordings, rejected = read_folder(tmp_path)
    assert not rejected
    assert [Path(row.path).name for row in recordings] == ["A.WAV", "cafe\u0301.wav", "c.m4a"]


def test_utf_16_is_named(tmp_path: Path) -> None:
    (tmp_path / "metadata.csv").write_bytes("a|One.".encode("utf-16"))
    with pytest.raises(ValueError, match="iconv -f utf-16"):
        read_folder(tmp_path)


def test_a_fourth_column_names_the_speaker(tmp_path: Path) -> None:
    (tmp_path / "metadata.csv").write_text("a|Dr. Bell|Doctor Bell|ann\nb|Two.||bob\nc|Three.||\nd|Four.\n")
    recordings, rejected = read_folder(tmp_path)
    assert [(row.id, row.text, row.speaker) for row in recordings] == [
        ("a", "Doctor Bell", "ann"),
        ("b", "Two.", "bob"),
    ]
    assert [(row.id, row.reason) for row in rejected] == [("c", "no speaker"), ("d", "malformed row")]
    recordings, _ = read_folder(tmp_path, "cleo")
    assert [row.speaker for row in recordings] == ["ann", "bob", "cleo"]


def test_a_name_for_all_where_the_metadata_has_none(tmp_path: Path) -> None:
    (tmp_path / "metadata.csv").write_text("a|One.\nb|Two.|Two.\nc|a stray|pipe|here\n")
    recordings, rejected = read_folder(tmp_path, "ann")
    assert [row.speaker for row in recordings] == ["ann", "ann"]
    assert [row.reason for row in rejected] == ["malformed row"]


def test_a_header_may_call_the_third_column_the_speaker(tmp_path: Path) -> None:
    (tmp_path / "metadata.csv").write_text("audio_file|text|speaker_name\na|One.|ann\nwavs/b.wav|Two.|bob\nc|Three.\n")
    for name in "abc":
        (tmp_path / f"{name}.wav").touch()
    recordings, rejected = read_folder(tmp_path)
    assert [(row.id, row.text, row.speaker) for row in recordings] == [("a", "One.", "ann"), ("b.wav", "Two.", "bob")]
    assert [(row.id, row.reason) for row in rejected] == [("c", "malformed row")]
