"""Speech of the runtime: audio with the times of words and phones, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clock_attention.speech.audio.sound_writing import save_sound
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.text.phonemes import Phonemes, joined
from clock_attention.speech.text.timestamp_tiers import save_speech_timestamps, spoken_tiers, word_intervals
from clock_attention.timestamps import Alignment, Interval


@dataclass(frozen=True)
class RuntimeSpeech:
    """Speech of the runtime: one sentence of a stream, or a whole text; like `Speech`, without mel and clocks."""

    text: str
    audio: Wave
    sample_rate: int
    phonemes: Phonemes
    alignment: Alignment
    sentences: tuple[Interval, ...]

    @property
    def seconds(self) -> float:
        return len(self.audio) / self.sample_rate

    @property
    def words(self) -> list[Interval]:
        """Times of the written words."""
        return word_intervals(self.phonemes, self.alignment)

    def tiers(self) -> dict[str, list[Interval]]:
        """Sentences, words, phones and visemes in seconds; pauses and word boundaries are phones without a label."""
        return spoken_tiers(self.phonemes, self.alignment, self.sentences)

    def save(self, path: str | Path) -> None:
        """Write the audio as .wav or .flac, 16 bit."""
        save_sound(path, self.audio, self.sample_rate)

    def save_timestamps(self, path: str | Path) -> None:
        """Write sentences, words, phones and visemes as .TextGrid or .json, or .srt and .vtt subtitles."""
        save_speech_timestamps(path, self.tiers(), self.seconds)


def join(pieces: Sequence[RuntimeSpeech], text: str) -> RuntimeSpeech:
    """Join the sentences of a runtime stream into one speech."""
    phonemes = joined(piece.phonemes for piece in pieces)
    durations = np.concatenate([piece.alignment.durations for piece in pieces])
    sentences: list[Interval] = []
    reached = 0.0
    for piece in pieces:
        sentences += [sentence.shifted(reached) for sentence in piece.sentences]
        reached += piece.seconds
    return RuntimeSpeech(
        text=text,
        audio=np.concatenate([piece.audio for piece in pieces]),
        sample_rate=pieces[0].sample_rate,
        phonemes=phonemes,
        alignment=Alignment(phonemes.tokens, durations, pieces[0].alignment.frame_seconds),
        sentences=tuple(sentences),
    )
