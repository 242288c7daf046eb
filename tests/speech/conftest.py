"""Small corpora, made once: a few readings of the teacher, and a folder of recordings with every kind of fault."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.corpus.feature_extraction import Settings
from clock_attention.speech.corpus.grammar import generate_sentences
from clock_attention.speech.corpus.prepare import prepare
from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.corpus.teacher import TeacherPhrase, plan_readings


@pytest.fixture(scope="session")
def readings() -> list[TeacherPhrase]:
    return plan_readings(generate_sentences(12), seed=3, speeds=(1.0, 1.6), longest=40, limit=12)


@pytest.fixture(scope="session")
def store_settings() -> Settings:
    return Settings(mel=MelConfig.preset("hifigan"), valid=0.2, test=0.2)


@pytest.fixture(scope="session")
def store(
    readings: list[TeacherPhrase], store_settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> FeatureStore:
    return prepare(readings, tmp_path_factory.mktemp("store") / "store", store_settings, workers=1)


@pytest.fixture(scope="session")
def ljspeech_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight usable recordings of noise at several rates and formats, and one of each fault."""
    folder = tmp_path_factory.mktemp("corpus") / "LJ-like"
    (folder / "wavs").mkdir(parents=True)
    noise = np.random.default_rng(0)

    def record(name: str, wave: np.ndarray, rate: int = 22050) -> None:
        soundfile.write(folder / "wavs" / name, wave, rate)

    def speech(seconds: float, rate: int = 22050) -> np.ndarray:
        return 0.1 * noise.normal(size=round(seconds * rate)).clip(-3, 3)

    rows = []
    for number in range(8):
        rate = (16000, 22050, 44100)[number % 3]
        record(f"good{number}.{'flac' if number % 2 else 'wav'}", speech(1.2, rate), rate)
        rows.append(f"good{number}|Sentence no. {number}|This is sentence number {number}.")
    record("empty.wav", np.zeros(0))
    record("silent.wav", np.zeros(22050))
    record("clipped.wav", np.sign(speech(1.0)))
    record("short.wav", speech(0.1))
    record("long.wav", speech(21.0))
    record("wordless.wav", speech(1.0))
    record("mismatch.wav", speech(8.0))
    (folder / "wavs" / "broken.wav").write_bytes(b"RIFF of nothing")
    rows += [f"{name}|A few words here." for name in ("missing", "empty", "silent", "clipped", "short", "broken")]
    rows += [
        "long|" + "many words " * 40,
        "wordless|😀 …",
        "mismatch|no",
        "good0|again|again",
        "only one column",
        "",
        "a|b|c|d",
    ]
    (folder / "metadata.csv").write_text("\ufeff" + "\n".join(rows) + "\n", encoding="utf-8")
    return folder
