"""Checks of a folder of recordings, before anything is trained on it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clock_attention.evaluation.scoring.speaker_similarity import INSTALL, Embedding
from clock_attention.speech.audio.loudness import NOISY

FEWEST_SECONDS = 180.0  # below, there is hardly one of each sound
FEW_SECONDS = 600.0
# Frequent in any English text, and hardly a word of other languages with the same letters.
ENGLISH = frozenset(
    re.split(" ", "the of and to is that it his with had for on be you at by not are i this from they we have")
)
LEAST_ENGLISH = 0.08  # of the words; English prose has 0.2 to 0.4, German, French and Spanish below 0.04
FEWEST_WORDS = 40  # that say anything about the language
SAME_SPEAKER = 0.68  # cosine to the mean of the corpus; other people's lie around 0.55
MOST_OTHERS = 0.08  # of the clips; single ones may be odd


@dataclass(frozen=True)
class Clip:
    """A clip of one's own recordings to be checked."""

    id: str
    text: str
    seconds: float


def english_share(texts: Sequence[str]) -> tuple[float, int]:
    """Check of the language: share of words that are frequent in English and in no other, and the number of words."""
    words = [word for text in texts for word in re.findall(r"[^\W\d_]+", text.casefold())]
    return sum(word in ENGLISH for word in words) / max(1, len(words)), len(words)


def require_enough(clips: Sequence[Clip], folder: str) -> list[str]:
    """Check: enough speech, in English; returns what to be warned about."""
    seconds = sum(clip.seconds for clip in clips)
    if seconds < FEWEST_SECONDS:
        files = f"{len(clips)} clip" + "s" * (len(clips) != 1)
        raise ValueError(
            f"{folder}: {seconds:.0f} s of speech with text in {files}; a voice needs at least "
            f"{FEWEST_SECONDS / 60:.0f} minutes, and sounds better with 20 or more: record more sentences"
        )
    share, words = english_share([clip.text for clip in clips])
    if words >= FEWEST_WORDS and share < LEAST_ENGLISH:
        raise ValueError(
            f"{folder}: its texts are not English ({100 * share:.0f} % of {words} words are common English ones, "
            f"expected {100 * LEAST_ENGLISH:.0f} % or more), and the base voice reads English only: record English "
            "texts, or train a voice from nothing with a phonemizer for your language (guide: training)"
        )
    if seconds < FEW_SECONDS:
        return [f"{seconds / 60:.0f} minutes are little: expect slips; 20 minutes or more sound better"]
    return []


def require_quiet(above_noise: float) -> list[str]:
    """Check: warns where the room of the recordings is audible."""
    if above_noise >= NOISY:
        return []
    return [
        f"the room is audible: speech is {above_noise:.0f} dB above the noise, a quiet room gives {NOISY:.0f} dB or "
        "more; the voice will learn the noise too. Record closer to the microphone, in a room with soft furniture"
    ]


def require_one_speaker(ids: Sequence[str], embeddings: Sequence[Embedding] | None) -> list[str]:
    """Check: one person in all clips; returns warnings. None: no speaker encoder is installed."""
    if embeddings is None:
        return [f"it was not checked that one person speaks in all recordings, which needs `{INSTALL}`"]
    found = to_main_speaker(np.stack(list(embeddings)).astype(np.float64))
    others = [
        name for name, value in sorted(zip(ids, found, strict=True), key=lambda pair: pair[1]) if value < SAME_SPEAKER
    ]
    if len(others) > max(1, MOST_OTHERS * len(ids)):
        raise ValueError(
            f"more than one person seems to speak: {len(others)} of {len(ids)} clips that were compared do not "
            f"sound like the rest, for example {', '.join(others[:3])}; keep one speaker's recordings in the folder"
        )
    if others:
        return [f"does somebody else speak in {', '.join(others)}? It does not sound like the rest"]
    return []


def to_main_speaker(
    embeddings: np.ndarray[tuple[int, int], np.dtype[np.float64]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """For the check of speakers: cosine of each clip with the mean of the larger group, where there are two."""
    pairs = embeddings @ embeddings.T
    centre = embeddings[np.argmax(np.median(pairs, axis=1))]  # the clip most like the others
    for _ in range(5):
        group = embeddings[embeddings @ centre >= SAME_SPEAKER - 0.03]
        if not len(group):
            break
        centre = group.mean(0) / np.linalg.norm(group.mean(0))
    cosine: np.ndarray[tuple[int], np.dtype[np.float64]] = embeddings @ centre
    return cosine
