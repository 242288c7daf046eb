import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.corpus.feature_extraction import Settings
from clock_attention.speech.corpus.ljspeech import read_folder
from clock_attention.speech.corpus.prepare import prepare
from clock_attention.speech.corpus.recording_checks import Rejected
from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.corpus.store_audio import StoreAudio
from clock_attention.speech.corpus.teacher import TeacherPhrase


def test_the_teacher_reads_again(store: FeatureStore) -> None:
    audio = StoreAudio(store)
    audio.check_first()
    assert store.mel_config.frames(len(audio(3))) == store.utterances[3].frames


def test_kept_audio_is_read(readings: list[TeacherPhrase], store_settings: Settings, tmp_path: Path) -> None:
    kept = prepare(readings[:3], tmp_path / "store", replace(store_settings, keep_audio=True), workers=1)
    audio = StoreAudio(kept)
    assert audio.kept
    assert np.abs(audio.mel(audio(1)).numpy() - kept.mel(1).numpy()).mean() < 0.05


def test_recordings_are_found_again_and_others_are_refused(ljspeech_folder: Path, tmp_path: Path) -> None:
    recordings, _ = read_folder(ljspeech_folder)
    settings = Settings(mel=MelConfig.preset("hifigan"))
    store = prepare(recordings, tmp_path / "store", settings, workers=1, folder=ljspeech_folder)
    audio = StoreAudio(store)
    audio.check_first()
    header = json.loads((store.path / "store.json").read_text())
    assert header["folder"] == str(ljspeech_folder.resolve())
    (tmp_path / "empty").mkdir()
    with pytest.raises(Rejected):
        StoreAudio(store, tmp_path / "empty")(0)
    with pytest.raises(ValueError, match=r"is not found in .*empty.*missing"):
        StoreAudio(store, tmp_path / "empty").check_first()
    store.header["folder"] = str(tmp_path / "moved")
    with pytest.raises(ValueError, match="any more: name their folder"):
        StoreAudio(store)
    del store.header["folder"]
    with pytest.raises(ValueError, match="keeps no audio"):
        StoreAudio(store)


def test_other_audio_is_refused(store: FeatureStore) -> None:
    audio = StoreAudio(store)
    first = audio(0)
    with pytest.raises(Rejected, match="other audio"):
        audio.check(0, first[:-2000])
    with pytest.raises(Rejected, match="differs by"):
        audio.check(0, first[::-1].copy())
