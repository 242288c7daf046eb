"""Timestamp tiers of spoken text: sentences, words, phones, visemes, marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from clock_attention.speech.text.phonemes import NO_WORD, PAUSES, WORD_BOUNDARY, Phonemes
from clock_attention.speech.text.subtitle_cues import readable_cues
from clock_attention.speech.text.visemes import viseme_intervals
from clock_attention.timestamps import Alignment, Interval, save_timestamps


def word_intervals(phonemes: Phonemes, alignment: Alignment) -> list[Interval]:
    """The word tier: when each written word is spoken."""
    spans: dict[int, tuple[int, int]] = {}
    for token, word in enumerate(phonemes.word_index):
        if word != NO_WORD:
            spans[word] = (spans.get(word, (token,))[0], token + 1)
    return alignment.grouped((phonemes.words[word], *span) for word, span in spans.items())


def spoken_tiers(
    phonemes: Phonemes, alignment: Alignment, sentences: Sequence[Interval], marks: Sequence[Interval] = ()
) -> dict[str, list[Interval]]:
    """All timestamp tiers: sentences, words, phones and visemes in seconds, and marks if there are any.

    Pauses and word boundaries are phones without a label; marks have no length.
    """
    phones = [
        Interval(phone.start, phone.end, "" if phone.label in PAUSES or phone.label == WORD_BOUNDARY else phone.label)
        for phone in alignment.intervals()
    ]
    tiers = {"sentences": list(sentences), "words": word_intervals(phonemes, alignment), "phones": phones}
    tiers["visemes"] = viseme_intervals(phones)
    return {**tiers, "marks": list(marks)} if marks else tiers


def save_speech_timestamps(path: str | Path, tiers: Mapping[str, list[Interval]], seconds: float) -> None:
    """Write the timestamp tiers of speech to a file; subtitle files get cues of readable length."""
    if Path(path).suffix.lower() in (".srt", ".vtt"):
        tiers = {"cues": readable_cues(tiers["sentences"], tiers["words"])}
    save_timestamps(path, tiers, seconds=seconds)
