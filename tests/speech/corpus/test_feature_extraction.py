"""From an item to its row and mel frames."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from clock_attention.files import temporary_name
from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.corpus.feature_extraction import (
    Settings,
    Worker,
    read_shard,
    save_atomically,
    shard_path,
)
from clock_attention.speech.corpus.recording_checks import Recording, Rejected


@pytest.fixture
def worker(tmp_path):
    (tmp_path / "shards").mkdir()
    return Worker(tmp_path, Settings(mel=MelConfig.preset("hifigan"), dtype="float32"))


def recording(folder, name="a", text="A few words here.", seconds=1.2):
    wave = 0.1 * np.random.default_rng(0).normal(size=int(seconds * 22050)).clip(-3, 3)
    soundfile.write(folder / f"{name}.wav", wave, 22050)
    return Recording(name, text, str(folder / f"{name}.wav"))


def test_a_row_says_what_its_frames_are(worker, tmp_path):
    row, mel = worker.utterance(recording(tmp_path))
    assert (row["frames"], 80) == mel.shape
    assert len(row["tokens"]) == len(row["word_index"])
    assert list(row["words"]) == ["A", "few", "words", "here"]
    assert row["speed"] == 1.0


def test_a_shard_holds_what_is_good_and_lists_the_rest(worker, tmp_path):
    items = [recording(tmp_path), Recording("b", "No sound.", ""), recording(tmp_path, "c", "Other words here.")]
    progress = worker.shard(3, items)
    assert (progress.items, progress.rejected, progress.resumed) == (3, 1, False)
    table = read_shard(tmp_path, 3)
    assert [row["id"] for row in table["utterances"]] == ["a", "c"]
    assert [(row["id"], row["reason"]) for row in table["rejected"]] == [("b", "missing")]
    frames = np.load(shard_path(tmp_path, 3, "npy"))
    assert len(frames) == sum(row["frames"] for row in table["utterances"])
    assert progress.seconds == table["seconds"] == pytest.approx(len(frames) * 256 / 22050)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [("../a", "Words.", "bad id"), ("a", "half \ud800 of it", "bad text"), ("a", "…", "no phonemes")],
)
def test_bad_items_are_rejected_before_audio_is_read(worker, name, text, reason):
    with pytest.raises(Rejected) as found:
        worker.utterance(Recording(name, text, "/nowhere"))
    assert found.value.reason == reason


def test_settings_are_written_completely():
    settings = Settings(mel=MelConfig.preset("paper"), hours=2.0)
    written = json.loads(json.dumps(settings.to_json()))
    assert written["mel"] == MelConfig.preset("paper").model_dump()
    assert written["limits"]["longest"] == 20.0
    assert written["hours"] == 2.0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path):
    path = tmp_path / "000000.npy"
    temporary_name(path).symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"000000\.npy: cannot be written \(.*is the disk full\?"):
        save_atomically(path, np.zeros((1000, 80)))
    assert list(tmp_path.iterdir()) == []
