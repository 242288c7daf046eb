"""Recordings and tables that a stranger made: refused one by one, by name, without harm to the rest."""

import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from clock_attention.commands.main import app
from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.audio.sound_reading import load_audio
from clock_attention.speech.corpus.feature_extraction import Settings
from clock_attention.speech.corpus.ljspeech import read_folder
from clock_attention.speech.corpus.metadata import id_fault
from clock_attention.speech.corpus.prepare import prepare
from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.corpus.teacher import TeacherPhrase, read_lines

TEXT = "This is sentence number one."
SEPARATORS = "\u2028 \u0085 \x0b \x0c \x1c"


def noise(seconds: float, rate: int = 22050) -> np.ndarray:
    return 0.1 * np.random.default_rng(0).normal(size=round(seconds * rate)).clip(-3, 3).astype(np.float32)


def with_rate(path: Path, rate: int) -> None:
    """Change what the header says about the rate."""
    content = bytearray(path.read_bytes())
    content[24:28] = struct.pack("<I", rate)
    path.write_bytes(content)


def corpus(folder: Path, rows: list[str]) -> Path:
    (folder / "wavs").mkdir(parents=True, exist_ok=True)
    for number in range(3):
        soundfile.write(folder / "wavs" / f"good{number}.wav", noise(1.5), 22050)
    good = [f"good{number}|{TEXT}" for number in range(3)]
    (folder / "metadata.csv").write_bytes("\n".join([*good, *rows]).encode())
    return folder


@pytest.mark.parametrize("rate", [0, 1, 3999, 500_000, 2**31 - 1])
def test_absurd_rates_are_refused_before_anything_is_allocated(tmp_path, rate):
    soundfile.write(tmp_path / "x.wav", noise(3), 22050)
    with_rate(tmp_path / "x.wav", rate)
    with pytest.raises(ValueError, match=r"x\.wav"):
        load_audio(tmp_path / "x.wav", 22050)


def test_a_small_file_that_lasts_for_hours_is_refused(tmp_path):
    soundfile.write(tmp_path / "silence.flac", np.zeros(4000 * 1000, np.int16), 4000)
    assert (tmp_path / "silence.flac").stat().st_size < 100_000
    with pytest.raises(ValueError, match="expected at most 900 s"):
        load_audio(tmp_path / "silence.flac", 22050)


@pytest.mark.parametrize("suffix", ["wav", "flac"])
def test_files_that_are_cut_off_are_refused(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    soundfile.write(path, noise(2), 22050)
    load_audio(path, 22050)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ValueError, match=r"cut off|cannot read"):
        load_audio(path, 22050)


def test_a_wav_from_a_pipe_has_no_length_and_is_read_to_its_end(tmp_path):
    path = tmp_path / "x.wav"
    soundfile.write(path, noise(2), 22050)
    content = bytearray(path.read_bytes())
    place = content.index(b"data")
    content[place + 4 : place + 8] = content[4:8] = b"\xff" * 4
    path.write_bytes(content)
    assert len(load_audio(path, 22050)) == 2 * 22050


def test_one_recording_does_not_poison_a_corpus(tmp_path):
    folder = corpus(tmp_path / "c", [f"{name}|{TEXT}" for name in ("huge", "scaled", "nan", "slow", "cut")])
    soundfile.write(folder / "wavs" / "huge.wav", noise(1.5) * 1e31, 22050, subtype="FLOAT")
    soundfile.write(folder / "wavs" / "scaled.wav", noise(1.5) * 32768, 22050, subtype="FLOAT")
    soundfile.write(folder / "wavs" / "nan.wav", noise(1.5) * np.nan, 22050, subtype="FLOAT")
    soundfile.write(folder / "wavs" / "slow.wav", noise(3), 22050)
    with_rate(folder / "wavs" / "slow.wav", 1)
    soundfile.write(folder / "wavs" / "cut.wav", noise(1.5), 22050)
    (folder / "wavs" / "cut.wav").write_bytes((folder / "wavs" / "cut.wav").read_bytes()[:40000])
    recordings, rejected = read_folder(folder)
    store = prepare(recordings, tmp_path / "s", Settings(MelConfig.preset("hifigan")), rejected=rejected, workers=1)
    assert {row.id: row.reason for row in store.rejected} == {
        "huge": "too loud",
        "scaled": "too loud",
        "nan": "unreadable",
        "slow": "unreadable",
        "cut": "unreadable",
    }
    assert store.mean.isfinite().all()
    assert store.std.isfinite().all()
    assert len(store) == 3


@pytest.mark.parametrize(
    "name", ["../up", "/abs", "a/b", "a\\b", "..", ".", ".hidden", "C:x", "a\x00b", "a\u2028b", "x" * 201, "\ud800", ""]
)
def test_ids_that_are_no_plain_names_have_a_fault(name):
    assert id_fault(name)


@given(st.text())
def test_ids_without_a_fault_name_a_file_in_their_folder(name):
    if not id_fault(name):
        assert (Path("folder") / f"{name}.wav").parent == Path("folder")
        assert len(f"{name}.00@1.25.wav".encode()) <= 255
        assert name.splitlines() == [name]


def test_nothing_is_written_or_read_outside_the_folder(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    soundfile.write(outside / "secret.wav", noise(1.5), 22050)
    rows = [f"[/markup]|{TEXT}", f"../../outside/escaped|{TEXT}", f"{outside}/absolute|{TEXT}", f"{'é' * 150}|{TEXT}"]
    rows += [f"../../outside/secret|{TEXT}", f"fine|{TEXT.replace('sentence', SEPARATORS)}", "fine|again"]
    folder = corpus(tmp_path / "in" / "corpus", rows)
    recordings, rejected = read_folder(folder)
    assert [row.reason for row in rejected] == ["bad id"] * 5 + ["duplicate id"]
    assert [recording.id for recording in recordings] == ["good0", "good1", "good2", "fine"]
    lines, also = read_lines(folder / "metadata.csv")
    assert [(row.id, row.reason) for row in also] == [(row.id, row.reason) for row in rejected]
    assert lines[-1][0] == "fine"
    arguments = [
        "corpus",
        "synthesize",
        "--text",
        str(folder / "metadata.csv"),
        "--out",
        str(tmp_path / "in" / "store"),
    ]
    result = CliRunner().invoke(app, [*arguments, "--keep-audio", "--workers", "1"])
    assert result.exit_code == 0, result.output
    assert "[/markup]" in result.output
    assert [path.name for path in outside.iterdir()] == ["secret.wav"]
    store = FeatureStore.open(tmp_path / "in" / "store")
    assert [row.reason for row in store.rejected] == ["bad id"] * 5 + ["duplicate id"]
    # What was kept is a corpus again, separators and all.
    assert len(read_folder(tmp_path / "in" / "store")[0]) == len(store)


def test_items_made_by_a_program_are_checked_too(tmp_path):
    items = [
        TeacherPhrase(name, name, text, 1.0, 0)
        for name, text in (("../up", TEXT), ("half", TEXT + "\ud800"), ("\udfff", TEXT), ("good", TEXT), ("fine", TEXT))
    ]
    store = prepare(items, tmp_path / "s", Settings(MelConfig.preset("hifigan"), keep_audio=True), workers=1)
    assert {row.id: row.reason for row in store.rejected} == {"../up": "bad id", "half": "bad text", "\udfff": "bad id"}
    assert sorted(path.name for path in (tmp_path / "s" / "wavs").iterdir()) == ["fine.wav", "good.wav"]
