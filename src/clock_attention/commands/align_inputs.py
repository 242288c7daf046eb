"""Inputs of `clock-attention align`: the recordings that it adapts to, and transcripts that it must not overwrite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clock_attention.commands.terminal import option, say

if TYPE_CHECKING:
    from clock_attention.speech.aligner import Aligner
    from clock_attention.speech.corpus.recording_checks import Recording

SHOWN = 20  # failures and warnings; all failures are in the table
ADAPTED_TO = 3600.0  # seconds of speech that adapting learns from at most
LONGEST_ADAPTED = 60.0  # seconds of one recording among them


def check_not_an_input(path: Path) -> None:
    """Refuse to overwrite a .lab file that is a transcript, not labels: `align` reads those."""
    if path.suffix.lower() == ".lab" and path.exists():
        first = next((line for line in path.read_text("utf-8", errors="replace").splitlines() if line.strip()), "")
        if not first[:1].isdigit():
            raise ValueError(f"{path}: exists and is a transcript, not labels; write into another folder with -o")


def adapted(aligner: Aligner, recordings: Sequence[Recording]) -> Aligner:
    """The aligner of `align --adapt`: adapted to the readable recordings, or to an hour of them."""
    from clock_attention.speech.aligner.features import RATE
    from clock_attention.speech.audio.sound_reading import full_seconds

    chosen, total = [], 0.0
    for recording in recordings:
        try:
            if total < ADAPTED_TO and full_seconds(recording.path) <= LONGEST_ADAPTED:
                chosen.append((aligner.wave(recording.path, None), recording.text))
                total += len(chosen[-1][0]) / RATE
        except ValueError:
            continue
    if not chosen:
        raise ValueError(f"--adapt: there is no recording of at most {LONGEST_ADAPTED:g} s to adapt to")

    def report(turn: int, count: int, score: float) -> None:
        say(f"adapting, pass {turn + 1}: {count} of {len(chosen)} recordings, mean score {score:.2f}")

    with option("--adapt"):
        return aligner.adapt(chosen, sample_rate=RATE, report=report)
