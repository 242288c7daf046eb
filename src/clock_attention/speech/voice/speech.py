"""Spoken text: audio, mel, phonemes and timestamps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from clock_attention.speech.audio.sound_writing import save_sound
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.text.phonemes import Phonemes, joined
from clock_attention.speech.text.timestamp_tiers import save_speech_timestamps, spoken_tiers, word_intervals
from clock_attention.speech.voice.utterance import Utterance
from clock_attention.timestamps import Alignment, Interval


@dataclass(frozen=True)
class Speech:
    """Spoken text: audio, mel, phonemes and timestamps of one sentence of a stream, or of all of it."""

    text: str
    audio: Wave  # exactly frames · hop samples
    sample_rate: int
    mel: Tensor  # log-mel (S, M); pauses between sentences are digital silence
    phonemes: Phonemes  # of the whole text; alignment.labels are its tokens
    alignment: Alignment
    utterances: tuple[Utterance, ...] = field(repr=False)  # the phrases of the speech, with weights and clocks
    offsets: tuple[int, ...] = field(repr=False)  # first mel frame of each
    sentences: tuple[Interval, ...] = field(repr=False)
    marks: tuple[Interval, ...] = field(default=(), repr=False)  # SSML marks, without duration

    @property
    def seconds(self) -> float:
        return len(self.audio) / self.sample_rate

    @property
    def words(self) -> list[Interval]:
        """When each written word is spoken."""
        return word_intervals(self.phonemes, self.alignment)

    def tiers(self) -> dict[str, list[Interval]]:
        """Sentences, words, phones and visemes in seconds, and marks, if any.

        Pauses and word boundaries are phones without a label; marks have no duration.
        """
        return spoken_tiers(self.phonemes, self.alignment, self.sentences, self.marks)

    def save(self, path: str | Path) -> None:
        """Write the audio as .wav or .flac, 16 bit."""
        save_sound(path, self.audio, self.sample_rate)

    def save_timestamps(self, path: str | Path) -> None:
        """Write sentences, words, phones, visemes and marks as .TextGrid or .json, or .srt and .vtt subtitles."""
        save_speech_timestamps(path, self.tiers(), self.seconds)

    def plot(self, path: str | Path) -> None:
        """Draw clocks, attention and mel as .png, .svg or .pdf."""
        from clock_attention.speech.voice.speech_figure import save_figure

        save_figure(self, path)


def join(pieces: Sequence[Speech], text: str) -> Speech:
    """Join the pieces of a stream of speech into one."""
    if len(pieces) == 1:
        return replace(pieces[0], text=text)
    phonemes = joined(piece.phonemes for piece in pieces)
    offsets: list[int] = []
    sentences: list[Interval] = []
    marks: list[Interval] = []
    reached = 0
    frame_seconds = pieces[0].alignment.frame_seconds
    for piece in pieces:
        offsets += [reached + offset for offset in piece.offsets]
        sentences += [sentence.shifted(reached * frame_seconds) for sentence in piece.sentences]
        marks += [mark.shifted(reached * frame_seconds) for mark in piece.marks]
        reached += len(piece.mel)
    return Speech(
        text=text,
        audio=np.concatenate([piece.audio for piece in pieces]),
        sample_rate=pieces[0].sample_rate,
        mel=torch.cat([piece.mel for piece in pieces]),
        phonemes=phonemes,
        alignment=Alignment(
            phonemes.tokens, np.concatenate([piece.alignment.durations for piece in pieces]), frame_seconds
        ),
        utterances=tuple(utterance for piece in pieces for utterance in piece.utterances),
        offsets=tuple(offsets),
        sentences=tuple(sentences),
        marks=tuple(marks),
    )
