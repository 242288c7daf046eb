"""Checks of a folder of recordings, run before any training."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clock_attention.evaluation.scoring.speaker_similarity import INSTALL, Embedding
from clock_attention.speech.audio.bandwidth import HIGH
from clock_attention.speech.audio.loudness import NOISY

FEWEST_SECONDS = 180.0  # with less, some phonemes hardly occur
FEW_SECONDS = 600.0
# Frequent in any English text, and not words of other languages: Danish has "for", Polish "to", Dutch "is" and "was".
ENGLISH = frozenset(
    re.split(
        " ",
        "the and that it with you this they from his which their were she there would could what when into your our "
        "has been",
    )
)
LEAST_ENGLISH = 0.04  # share of words; English prose has 0.15 to 0.25, other languages below 0.01
FEWEST_WORDS = 40  # needed to judge the language
MUCH_NARROWBAND = 0.05  # share of the recorded time
LISTENED = 48  # clips used to compare speakers
# Cosine between the mean embeddings of the two most different groups of clips. Halves of one reader's recordings:
# 0.94 or more (0.89 with 8 short clips); any two of ten speakers (TIMIT, LJSpeech, Kathleen): 0.83 or less.
SAME_SPEAKER = 0.86
FEWEST_OTHERS = 0.08  # share of clips; a few may be outliers
ODD_CLIP = 0.68  # cosine between a clip and the mean of the others; 0.79 or more for clips of the same speaker


@dataclass(frozen=True)
class Clip:
    """A clip of the recordings to check."""

    id: str
    text: str
    seconds: float


def english_share(texts: Sequence[str]) -> tuple[float, int]:
    """Language check: share of words that are frequent in English and in no other language, and the number of words."""
    words = [word for text in texts for word in re.findall(r"[^\W\d_]+", text.casefold())]
    return sum(word in ENGLISH for word in words) / max(1, len(words)), len(words)


def require_enough(clips: Sequence[Clip], folder: str, left_out: str = "") -> list[str]:
    """Check that there is enough speech, and that it is in English; returns warnings.

    `left_out`: description of what was left out, for the error message.
    """
    seconds = sum(clip.seconds for clip in clips)
    if seconds < FEWEST_SECONDS:
        files = f"{len(clips)} clip" + "s" * (len(clips) != 1)
        raise ValueError(
            f"{folder}: {seconds:.0f} s of speech with text in {files}; a voice needs at least "
            f"{FEWEST_SECONDS / 60:.0f} minutes, and sounds better with 20 or more: record more sentences"
            + (f", or first look at what was left out: {left_out}" if left_out else "")
        )
    share, words = english_share([clip.text for clip in clips])
    if words >= FEWEST_WORDS and share < LEAST_ENGLISH:
        raise ValueError(
            f"{folder}: its texts are not English ({100 * share:.0f} % of {words} words are common English ones, "
            f"expected {100 * LEAST_ENGLISH:.0f} % or more), and the base voice reads English only: record English "
            "texts, or train a voice from scratch with a phonemizer for your language (guide: training)"
        )
    if seconds < FEW_SECONDS:
        return [f"{seconds / 60:.0f} minutes is not much: expect mispronounced words; 20 or more sound better"]
    return []


def require_enough_left(seconds: float, left_out: Sequence[tuple[str, str]], folder: str) -> None:
    """Check that enough speech matches its text. `left_out`: names and reasons of the other clips."""
    if seconds < FEWEST_SECONDS:
        some = ", ".join(f"{name} ({reason})" for name, reason in left_out[:3])
        more = f" and {len(left_out) - 3} more" if len(left_out) > 3 else ""
        raise ValueError(
            f"{folder}: only {seconds:.0f} s of speech have a text that fits; a voice needs at least "
            f"{FEWEST_SECONDS / 60:.0f} minutes. Left out: {some}{more}; check that every text belongs to its recording"
        )


def require_quiet(above_noise: float) -> list[str]:
    """Check for background noise: warn if the room is audible in the recordings."""
    if above_noise >= NOISY:
        return []
    return [
        f"the room is audible: speech is {above_noise:.0f} dB above the noise, a quiet room gives {NOISY:.0f} dB or "
        "more; the voice will learn the noise too. Record closer to the microphone, in a room with soft furniture"
    ]


def require_high_frequencies(narrowband: Sequence[float], seconds: float) -> list[str]:
    """Check the bandwidth: warn if some of these seconds of recordings sound like a telephone.

    `narrowband`: number and seconds of the recordings without high frequencies.
    """
    count, muffled = narrowband
    if muffled < MUCH_NARROWBAND * seconds or not count:
        return []
    return [
        f"{muffled / 60:.1f} of {seconds / 60:.1f} minutes ({count:.0f} recordings) have no frequencies above "
        f"{HIGH[0] / 1000:g} kHz, as on a telephone, and the voice will sound as muffled as they do: leave them out, "
        "or record with a sample rate of 16,000 Hz or more"
    ]


def compared(count: int) -> list[int]:
    """Speaker check: indices of the clips to compare. Chosen at random, since speakers may alternate in the list."""
    return sorted(random.Random(0).sample(range(count), k=min(LISTENED, count)))


def require_one_speaker(ids: Sequence[str], embeddings: Sequence[Embedding] | None, known: bool = False) -> list[str]:
    """Check that one person speaks in all clips; returns warnings.

    Args:
        embeddings: None if no speaker encoder is installed.
        known: the user says that it is one person, so recordings that differ only cause a warning.
    """
    if embeddings is None:
        return [f"it was not checked that one person speaks in all recordings, which needs `{INSTALL}`"]
    if len(ids) < 2:
        return []
    vectors = np.stack(list(embeddings)).astype(np.float64)  # (N, 256)
    main = larger_group(vectors)
    centre, other = direction(vectors[main]), direction(vectors[~main])
    others = [ids[place] for place in np.flatnonzero(~main)[np.argsort(vectors[~main] @ centre)]]
    if centre @ other < SAME_SPEAKER and len(others) > max(1, FEWEST_OTHERS * len(ids)):
        found = f"{len(others)} of {len(ids)} clips that were compared do not sound like the rest, for example "
        found += ", ".join(others[:3])
        if known:
            return [f"two groups of recordings: {found}; the voice becomes a mixture of both"]
        raise ValueError(
            f"more than one person seems to speak: {found}; keep one speaker's recordings in the folder. If it is one "
            "person, in different rooms or with different microphones: `clock-attention voice create … --one-speaker`"
        )
    odd = [name for name, cosine in zip(ids, vectors @ centre, strict=True) if cosine < ODD_CLIP]
    return [f"these clips do not sound like the rest: {', '.join(odd)}; does somebody else speak?"] if odd else []


def larger_group(vectors: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Speaker check: which clips belong to the larger of the two most different groups (2-means)."""
    away = vectors - vectors.mean(0)
    group = away @ np.linalg.svd(away, full_matrices=False)[2][0] > 0
    if group.all() or not group.any():  # all clips are identical
        group = np.arange(len(vectors)) > 0
    for _ in range(20):
        moved = vectors @ direction(vectors[group]) > vectors @ direction(vectors[~group])
        if (moved == group).all() or moved.all() or not moved.any():
            break
        group = moved
    return group if group.mean() >= 0.5 else ~group


def direction(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit vector of the mean of speaker embeddings."""
    mean: NDArray[np.float64] = vectors.mean(0)
    return mean / np.linalg.norm(mean)
