"""The audio behind a feature store: kept in it, in the folder of recordings, or read again by the teacher."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from clock_attention.speech.audio.mel import MelSpectrogram
from clock_attention.speech.audio.wave import Wave, resample, trim_silence
from clock_attention.speech.corpus.feature_extraction import Settings
from clock_attention.speech.corpus.ljspeech import AudioFiles
from clock_attention.speech.corpus.recording_checks import Recording, Rejected, load_recording
from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.corpus.teacher import TEACHER_RATE, Teacher, TeacherPhrase

MOST_DIFFERENCE = 0.2  # mean over the mel of an utterance, in nat: half precision and 16-bit samples stay below 0.05


class StoreAudio:
    """Audio of a feature store's utterances: waveforms at its sample rate, trimmed as in the preparation."""

    def __init__(self, store: FeatureStore, folder: Path | None = None) -> None:
        self.store, self.mel = store, MelSpectrogram(store.mel_config)
        self.settings = store.header.get("settings", {})
        self.folder = folder
        self.kept = False
        if folder is None and (store.path / "wavs").is_dir() and self.settings.get("keep_audio"):
            self.folder, self.kept = store.path, True
        elif folder is None and "folder" in store.header:
            self.folder = Path(store.header["folder"])
        self.teacher: Teacher | None = None
        if self.folder is None:
            if "reading_seed" not in store.header and not str(store.header.get("source")).startswith("hibari-tts"):
                raise ValueError(
                    f"{store.path} keeps no audio and does not say where its recordings are: name their folder"
                )
            self.teacher = Teacher()
        elif not self.folder.is_dir():
            raise ValueError(f"the recordings of {store.path} are not in {self.folder} any more: name their folder")
        else:
            self.files = AudioFiles(self.folder).match(row.id for row in store.utterances)

    def __call__(self, index: int) -> Wave:
        """The waveform of an utterance; `Rejected` if it is missing or differs from the store's audio."""
        row, rate = self.store.utterances[index], self.store.mel_config.sample_rate
        if self.teacher is not None:
            seed = self.store.header.get("reading_seed", 0)
            wave = resample(
                self.teacher(TeacherPhrase(row.id, row.group, row.text, row.speed, seed)), TEACHER_RATE, rate
            )
        else:
            wave = load_recording(Recording(row.id, row.text, self.files.get(row.id, "")), rate)
        if not self.kept:
            silence = self.settings.get("silence", Settings.silence)
            wave = trim_silence(wave, rate, silence, self.settings.get("silence_db", Settings.silence_db))
        self.check(index, wave)
        return wave

    def check(self, index: int, wave: Wave) -> None:
        expected = self.store.mel(index).numpy()
        if self.store.mel_config.frames(len(wave)) != len(expected):
            found = self.store.mel_config.frames(len(wave))
            raise Rejected("other audio", f"{found} frames of audio, {len(expected)} in the store")
        difference = float(np.abs(self.mel(wave).numpy() - expected).mean())
        if difference > MOST_DIFFERENCE:
            raise Rejected("other audio", f"its mel differs by {difference:.2f} nat from the one in the store")

    def check_first(self) -> None:
        """Raise one clear error before hours of work if the audio of the whole store is the wrong one."""
        try:
            self(0)
        except Rejected as rejection:
            where = "hibari's reading" if self.teacher else str(self.folder)
            raise ValueError(
                f"{self.store.path}: the audio of {self.store.utterances[0].id} is not found in {where} "
                f"({rejection.reason}: {rejection.detail}): name the folder that the store was prepared from, or "
                "prepare it again"
            ) from None
