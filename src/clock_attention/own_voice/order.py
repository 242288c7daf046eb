"""The order for a voice: recordings, consent, and limits on time and machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from clock_attention.evaluation.optional_packages import installed
from clock_attention.evaluation.prompts import read_prompts
from clock_attention.evaluation.scoring.error_rates import require_words
from clock_attention.evaluation.scoring.recognizers import require_known
from clock_attention.speech.corpus.grammar import generate_sentences

SENTENCES = 24  # spoken to measure the voice


@dataclass(frozen=True)
class Order:
    """The order for a user's own voice: its recordings, the speaker's consent, and limits on time and machine."""

    recordings: Path
    out: Path
    consent: str
    licence: str = "all rights reserved by the speaker"
    minutes: float = 30.0  # limit on the training
    base: str = "default"
    recognizer: str = "moonshine"
    aligner: Path | None = None
    prompts: Path | None = None
    count: int = SENTENCES
    seed: int = 0
    workers: int = 2  # processes
    threads: int | None = None  # for the training; None: one, or as many as `workers`, whichever is faster
    blend: float = 1.0  # share of the fine-tuned weights in the voice; the rest comes from the base voice
    steps: int | None = None  # instead of as many as fit into the minutes
    one_speaker: bool = False  # the user vouches for it, so recordings that sound different are accepted

    def __post_init__(self) -> None:
        if not self.consent.strip():
            raise ValueError(
                "consent: whose voice is it, and did they agree? A voice of a person needs a statement for its card, "
                'for example "I recorded myself, and anyone may use this voice"'
            )
        if not self.minutes > 0:  # also of nan
            raise ValueError(f"minutes: got {self.minutes:g}, expected more than 0")
        if not 0 <= self.blend <= 1:
            raise ValueError(f"blend: got {self.blend:g}, expected a share between 0 and 1")
        require_known(self.recognizer)

    @property
    def work(self) -> Path:
        """The work folder next to the voice: everything needed to resume, and to create the voice again."""
        return self._named_out.with_name(f"{self.name}.work")

    @property
    def name(self) -> str:
        """The name of the voice, which is that of its folder."""
        return self._named_out.name

    @property
    def _named_out(self) -> Path:
        return Path(os.path.abspath(self.out)) if self.out.name in ("", "..") else self.out  # "." has no name


def sentences_to_speak(order: Order) -> list[str]:
    """The test sentences of an order for a voice; refuses prompts without a word that a recognizer could miss."""
    if order.prompts is None:
        return [text for _, text in generate_sentences(order.count, seed=1)]
    texts = [prompt.text for prompt in read_prompts(order.prompts)][: order.count]
    if installed("whisper-normalizer"):  # without it, there is no word error rate
        for text in texts:
            require_words(text)
    return texts


def require_folders(order: Order) -> None:
    """Refuse an order whose folders are files, or belong to something else."""
    if order.out.exists() and not order.out.is_dir():
        raise NotADirectoryError(f"{order.out} is a file: name a folder for the voice")
    if order.aligner is not None and not order.aligner.is_dir():
        raise FileNotFoundError(f"{order.aligner}: there is no such folder; expected that of an aligner's model")
    if holds_files(order.out) and not order.work.exists():
        raise FileExistsError(
            f"{order.out} exists, and {order.work}, which says how it was made, does not: choose another folder"
        )
    if holds_files(order.work) and not (order.work / "stages").is_dir():
        raise FileExistsError(
            f"{order.work} exists and was not made by this command, which would delete files in it: choose another "
            "folder for the voice"
        )


def holds_files(folder: Path) -> bool:
    """Whether a folder holds anything besides the lock file of a command that was stopped early."""
    return folder.exists() and any(path.name != ".lock" for path in folder.iterdir())
