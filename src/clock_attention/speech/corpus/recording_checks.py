"""Check a recording before it enters a corpus. Every failure has a name and says what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from clock_attention.speech.audio.sound_reading import load_audio
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.corpus.splits import text_key


class Rejected(Exception):
    """Raised for a recording that a check rejects, with the reason."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Recording:
    """A recording to be checked, with its text. `path` is empty when no audio file was found for it."""

    id: str
    text: str
    path: str
    speaker: str = ""

    @property
    def group(self) -> str:
        return text_key(self.text)


@dataclass(frozen=True)
class CheckBounds:
    """Bounds for the checks of a recording.

    Frames per token far outside the range of speech mean that text and audio do not belong together.
    """

    shortest: float = 0.3
    longest: float = 20.0
    silent_db: float = -50.0
    loudest: float = 2.0
    clipped: float = 0.001
    min_mpr: float = 1.5
    max_mpr: float = 25.0


def missing_audio(name: str) -> str:
    """What is wrong with a recording without an audio file."""
    return f"no audio file named {name} (wav, flac, mp3 or another format), or another recording has it"


def load_recording(recording: Recording, sample_rate: int) -> Wave:
    """Load the audio of a recording; rejected if it is missing or unreadable."""
    if not recording.path:
        raise Rejected("missing", missing_audio(recording.id))
    try:
        return load_audio(recording.path, sample_rate)
    except ValueError as error:
        raise Rejected("unreadable", str(error)) from None


def check_wave(wave: Wave, limits: CheckBounds) -> None:
    """Check a recording for empty, broken, silent, clipped or wrongly scaled audio."""
    if len(wave) == 0:
        raise Rejected("empty", "no samples")
    if not np.isfinite(wave).all():
        raise Rejected("unreadable", "samples that are not finite")
    peak = float(np.abs(wave).max())
    if peak > limits.loudest:
        raise Rejected(
            "too loud", f"peak {peak:.3g}, expected at most {limits.loudest:g}: samples in floating point lie in -1 … 1"
        )
    peak_db = 20 * np.log10(max(peak, 1e-10))
    if peak_db < limits.silent_db:
        raise Rejected("silent", f"peak {peak_db:.0f} dB, below {limits.silent_db:.0f} dB")
    # Clipping leaves runs of samples at the same extreme; a lone peak at full scale only uses the range well.
    extreme = np.abs(wave) >= max(0.99 * peak, 0.9)
    clipped = float((extreme[1:] & extreme[:-1]).mean()) if len(wave) > 1 else 0.0
    if clipped > limits.clipped:
        raise Rejected("clipped", f"{100 * clipped:.2f} % of samples at the limit, allowed {100 * limits.clipped:g} %")


def check_finite(mel: np.ndarray[Any, Any]) -> None:
    """Check a recording's mel: one value that is not finite would spoil the statistics of the whole corpus."""
    if not np.isfinite(mel).all():
        raise Rejected("not finite", f"{int((~np.isfinite(mel)).sum())} mel values are not finite in {mel.dtype}")


def check_frames(seconds: float, frames: int, tokens: int, limits: CheckBounds) -> None:
    """Check a recording's length, in seconds and relative to its text."""
    if seconds < limits.shortest:
        raise Rejected("too short", f"{seconds:.2f} s of speech, at least {limits.shortest:g} s")
    if seconds > limits.longest:
        raise Rejected("too long", f"{seconds:.1f} s of speech, at most {limits.longest:g} s")
    mpr = frames / tokens
    if not limits.min_mpr <= mpr <= limits.max_mpr:
        raise Rejected(
            "text mismatch",
            f"{mpr:.1f} frames per phoneme ({frames} frames, {tokens} phonemes), "
            f"expected {limits.min_mpr:g}…{limits.max_mpr:g}: does the text belong to the audio?",
        )
