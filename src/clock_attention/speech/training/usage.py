"""How much of a corpus a training run uses: skipped utterances are counted, reported and stored with the run."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict
from rich.console import Console

from clock_attention.speech.corpus.protocols import Corpus
from clock_attention.speech.training.progress import print_plain

logger = logging.getLogger(__name__)

MOST_UNUSED = 0.05  # leaving out a larger share causes a warning


class Usage(BaseModel):
    """Usage of a corpus by a run: utterances and hours of each split, used and available. Part of `run.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: int
    all_train: int
    train_hours: float
    all_train_hours: float
    valid: int
    all_valid: int

    @classmethod
    def of(cls, store: Corpus, items: Mapping[str, Sequence[int]]) -> Usage:
        """`items` are the utterances of each split that are used."""
        every = {name: store.split(name) for name in ("train", "valid")}

        def hours(chosen: Sequence[int]) -> float:
            frames = sum(store.utterances[item].frames for item in chosen)
            return round(frames / store.mel_config.frames_per_second / 3600, 4)

        return cls(
            train=len(items["train"]),
            all_train=len(every["train"]),
            train_hours=hours(items["train"]),
            all_train_hours=hours(every["train"]),
            valid=len(items["valid"]),
            all_valid=len(every["valid"]),
        )

    @property
    def unused_share(self) -> float:
        """Unused share of the training utterances or of their hours, whichever is larger."""
        return max(
            1 - self.train / max(1, self.all_train),
            1 - self.train_hours / self.all_train_hours if self.all_train_hours else 0.0,
        )

    def report(self, longest: int, quiet: bool = False) -> None:
        """Report how much is used; warn if a considerable share is not, or if nothing is left for validation."""
        if not quiet:
            line = f"training on {self.train} of {self.all_train} utterances ({self.train_hours:.2f} h of "
            line += f"{self.all_train_hours:.2f} h), validating on {self.valid} of {self.all_valid}"
            print_plain(Console(emoji=False), line)
        if self.unused_share > MOST_UNUSED:
            logger.warning(
                "%d of %d training utterances (%.0f %% of the hours) have more than longest_tokens=%d phonemes and are "
                "left out; longest_tokens=0 uses all, a larger number uses more",
                self.all_train - self.train,
                self.all_train,
                100 * (1 - self.train_hours / self.all_train_hours) if self.all_train_hours else 0,
                longest,
            )
        if not self.valid:
            logger.warning(
                "no utterance is left for validation: it uses training utterances, and cannot notice overfitting"
            )
