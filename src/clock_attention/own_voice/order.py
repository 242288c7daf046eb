"""The order for a voice: recordings, consent, and what it may cost."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from clock_attention.evaluation.scoring.recognizers import require_known

SENTENCES = 24  # spoken to measure the voice


@dataclass(frozen=True)
class Order:
    """The order for one's own voice: of which recordings, with whose consent, at which cost."""

    recordings: Path
    out: Path
    consent: str
    licence: str = "all rights reserved by the speaker"
    minutes: float = 30.0  # of training
    base: str = "default"
    recognizer: str = "moonshine"
    aligner: Path | None = None
    prompts: Path | None = None
    count: int = SENTENCES
    seed: int = 0
    workers: int = 2
    threads: int = 2
    blend: float = 1.0  # share of the fine-tuned weights in the voice; the rest are the base's
    steps: int | None = None  # instead of as many as fit into the minutes
    one_speaker: bool = False  # known, so recordings that sound different are no reason to refuse

    def __post_init__(self) -> None:
        if not self.consent.strip():
            raise ValueError(
                "whose voice is it, and did they agree? A voice of a person needs a statement for its card, for "
                'example "I recorded myself, and anyone may use this voice"'
            )
        if self.minutes <= 0:
            raise ValueError(f"minutes: got {self.minutes:g}, expected more than 0")
        require_known(self.recognizer)

    @property
    def work(self) -> Path:
        """Beside the voice: what is needed to continue, and to make it again."""
        out = Path(os.path.abspath(self.out)) if self.out.name in ("", "..") else self.out  # "." has no name
        return out.with_name(f"{out.name}.work")
