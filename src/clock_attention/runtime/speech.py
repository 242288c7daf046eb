"""Spoken text without torch: sound and when each word and phone is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from clock_attention.speech.audio.sound_file import save_sound
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.text.phonemes import NO_WORD, PAUSES, WORD_BOUNDARY, Phonemes, joined
from clock_attention.timestamps import Alignment, Interval, save_timestamps


@dataclass(frozen=True)
class RuntimeSpeech:
    """One sentence of a stream, or all of it; as `Speech` of the torch package, without mel and clocks."""

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
        """When each written word is spoken."""
        spans: dict[int, tuple[int, int]] = {}
        for token, word in enumerate(self.phonemes.word_index):
            if word != NO_WORD:
                spans[word] = (spans.get(word, (token,))[0], token + 1)
        return self.alignment.grouped((self.phonemes.words[word], *span) for word, span in spans.items())

    def tiers(self) -> dict[str, list[Interval]]:
        """Sentences, words and phones in seconds; pauses and word boundaries are phones without a label."""
        phones = [
            replace(phone, label="") if phone.label in PAUSES or phone.label == WORD_BOUNDARY else phone
            for phone in self.alignment.intervals()
        ]
        return {"sentences": list(self.sentences), "words": self.words, "phones": phones}

    def save(self, path: str | Path) -> None:
        """Write the audio as .wav or .flac, 16 bit."""
        save_sound(path, self.audio, self.sample_rate)

    def save_timestamps(self, path: str | Path) -> None:
        """Write sentences, words and phones, in a format by the path's ending."""
        save_timestamps(path, self.tiers(), seconds=self.seconds, cue_tier="sentences")


def join(pieces: Sequence[RuntimeSpeech], text: str) -> RuntimeSpeech:
    """Pieces of a stream as one."""
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
