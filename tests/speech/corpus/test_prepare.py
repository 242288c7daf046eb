import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from clock_attention.files import temporary_name
from clock_attention.speech.corpus import prepare as preparation
from clock_attention.speech.corpus.feature_extraction import Settings, Worker
from clock_attention.speech.corpus.ljspeech import read_folder
from clock_attention.speech.corpus.prepare import fingerprint_of, prepare
from clock_attention.speech.corpus.shards import Progress
from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.corpus.teacher import TeacherPhrase


def contents(store: FeatureStore) -> tuple[bytes, ...]:
    names = ("mel.npy", "utterances.jsonl", "rejected.jsonl", "store.json")
    return tuple((store.path / name).read_bytes() for name in names)


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "SHARD_ITEMS", 3)


@pytest.mark.usefixtures("small_shards")
def test_interrupted_preparation_continues_to_the_same_bytes(
    readings: list[TeacherPhrase],
    store: FeatureStore,
    store_settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finished: list[Progress] = []

    def stop_after_two(progress: Progress) -> None:
        finished.append(progress)
        if len(finished) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(readings, tmp_path / "store", store_settings, workers=1, report=stop_after_two)
    with pytest.raises(FileNotFoundError, match="has not finished"):
        FeatureStore.open(tmp_path / "store")
    finished.clear()
    resumed = prepare(readings, tmp_path / "store", store_settings, workers=1, report=finished.append)
    assert [progress.resumed for progress in finished] == [True, True, False, False]
    assert contents(resumed) == contents(store)
    assert not (tmp_path / "store" / "shards").exists()

    def never(*args: object) -> None:
        raise AssertionError("a finished store was prepared again")

    monkeypatch.setattr(Worker, "shard", never)
    assert contents(prepare(readings, tmp_path / "store", store_settings)) == contents(store)


@pytest.mark.usefixtures("small_shards")
def test_two_preparations_do_not_mix(
    readings: list[TeacherPhrase], store: FeatureStore, store_settings: Settings, tmp_path: Path
) -> None:
    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(readings, tmp_path / "store", store_settings, workers=1, report=interrupt)
    with pytest.raises(FileExistsError, match="unfinished preparation with other inputs"):
        prepare(readings[:-1], tmp_path / "store", store_settings, workers=1)
    with pytest.raises(FileExistsError, match="other inputs or settings"):
        prepare(readings, store.path, replace(store_settings, silence=0.1))


@pytest.mark.usefixtures("small_shards")
def test_hours_cut_at_an_utterance(readings: list[TeacherPhrase], store: FeatureStore, tmp_path: Path) -> None:
    settings = Settings(mel=store.mel_config, hours=6 / 3600)
    cut = prepare(readings, tmp_path / "store", settings, workers=1)
    assert [utterance.id for utterance in cut.utterances] == [u.id for u in store.utterances][: len(cut)]
    seconds = np.array([utterance.frames for utterance in cut.utterances]) / cut.mel_config.frames_per_second
    assert seconds.sum() >= 6 > seconds[:-1].sum()
    np.testing.assert_array_equal(cut.frames, store.frames[: len(cut.frames)])


def test_half_precision_is_close_and_audio_can_be_kept(
    readings: list[TeacherPhrase], store: FeatureStore, tmp_path: Path
) -> None:
    settings = Settings(mel=store.mel_config, dtype="float32", keep_audio=True)
    exact = prepare(readings[:2], tmp_path / "store", settings, workers=1)
    assert exact.frames.dtype == np.float32
    assert store.frames.dtype == np.float16
    assert 0 < (exact.mel(0) - store.mel(0)).abs().max() < 0.004
    # The kept audio is a corpus of its own: preparing it gives the same frames up to 16-bit rounding.
    recordings, rejected = read_folder(tmp_path / "store")
    again = prepare(recordings, tmp_path / "again", Settings(mel=store.mel_config, silence=1.0), workers=1)
    assert not rejected
    assert [utterance.tokens for utterance in again.utterances] == [u.tokens for u in exact.utterances]
    assert (again.mel(1) - exact.mel(1)).abs().mean() < 0.05


def test_nothing_to_prepare_is_an_error(store_settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to prepare"):
        prepare([], tmp_path / "store", store_settings)


SCRIPT = """
import pickle, sys
from clock_attention.speech.corpus import prepare as preparation
if __name__ == "__main__":
    preparation.SHARD_ITEMS = 2
    items, settings = pickle.load(open(sys.argv[1], "rb"))
    preparation.prepare(items, sys.argv[2], settings, workers=2)
"""


@pytest.mark.slow
def test_killed_preparation_leaves_no_process_and_continues_to_the_same_bytes(
    readings: list[TeacherPhrase], store: FeatureStore, store_settings: Settings, tmp_path: Path
) -> None:
    import pickle

    (tmp_path / "run.py").write_text(SCRIPT)
    (tmp_path / "plan.pickle").write_bytes(pickle.dumps((readings, store_settings)))
    command = [sys.executable, str(tmp_path / "run.py"), str(tmp_path / "plan.pickle"), str(tmp_path / "store")]
    shards = tmp_path / "store" / "shards"
    process = subprocess.Popen(command)
    for _ in range(2400):
        if list(shards.glob("0*.json")):
            break
        time.sleep(0.05)
    children = descendants(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "store" / "store.json").exists()
    assert children
    for _ in range(200):
        if not any(Path(f"/proc/{child}").exists() for child in children):
            break
        time.sleep(0.05)
    else:
        pytest.fail("workers outlived their killed parent")
    subprocess.run(command, check=True)
    assert contents(FeatureStore.open(tmp_path / "store")) == contents(store)


def descendants(pid: int) -> list[int]:
    if not Path("/proc").is_dir():
        pytest.skip("needs /proc to find the worker processes")
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]


def test_speakers_are_kept_apart(readings: list[TeacherPhrase], store_settings: Settings, tmp_path: Path) -> None:
    items = [replace(reading, speaker="ann" if place % 3 else "bob") for place, reading in enumerate(readings)]
    store = prepare(items, tmp_path / "store", replace(store_settings, keep_audio=True), workers=1)
    assert [speaker.name for speaker in store.speakers] == ["bob", "ann"]
    for place, speaker in enumerate(store.speakers):
        own = [index for index in store.split("train") if store.speaker(index) == place]
        frames = np.concatenate([store.mel(index).numpy() for index in own])
        np.testing.assert_allclose(speaker.mean, frames.mean(0), rtol=1e-4, atol=1e-4)
        assert speaker.mpr == pytest.approx(len(frames) / sum(len(store.utterances[index].tokens) for index in own))
    recordings, rejected = read_folder(store.path)
    assert not rejected
    assert [row.speaker for row in recordings] == [row.speaker for row in store.utterances]


def test_items_without_a_speaker_have_the_fingerprint_they_always_had(
    readings: list[TeacherPhrase], store_settings
) -> None:
    rows = [{key: value for key, value in asdict(item).items() if key != "speaker"} for item in readings]
    plan = json.dumps([store_settings.to_json(), rows], default=str, sort_keys=True)
    assert fingerprint_of(readings, store_settings) == hashlib.sha256(plan.encode()).hexdigest()
    assert fingerprint_of([replace(readings[0], speaker="ann")], store_settings) != fingerprint_of(
        readings[:1], store_settings
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_disk_that_is_full_at_the_end_is_an_error_and_the_same_call_continues(
    readings: list[TeacherPhrase], store: FeatureStore, store_settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "store").mkdir()
    temporary_name(tmp_path / "store" / "mel.npy").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"mel\.npy: cannot be written \(.*is the disk full\?"):
        prepare(readings, tmp_path / "store", store_settings, workers=1)
    assert contents(prepare(readings, tmp_path / "store", store_settings, workers=1)) == contents(store)


def test_joined_frames_are_the_file_that_numpy_would_write(store: FeatureStore, tmp_path: Path) -> None:
    np.save(tmp_path / "mel.npy", np.load(store.path / "mel.npy"))
    assert (tmp_path / "mel.npy").read_bytes() == (store.path / "mel.npy").read_bytes()
