"""`run.json`: the configuration of a training run, and what a voice needs to know about its corpus."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from clock_attention.files import write_atomically
from clock_attention.speech.corpus.language import Language
from clock_attention.speech.corpus.protocols import Corpus, made_of_recordings
from clock_attention.speech.model.config import AlignedConfig, key_of
from clock_attention.speech.text.phonemes import PAUSE_STRENGTH
from clock_attention.speech.training.config import RunConfig
from clock_attention.speech.training.usage import Usage

FORMAT = 1


class RunDescription(BaseModel):
    """Contents of a training run's `run.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    config: RunConfig
    language: Language
    source: str  # what the corpus was made from
    recordings: bool | None = None  # whether people speak in it; None in runs of earlier versions
    start: str | None = None  # the voice whose weights it started from
    usage: Usage | None = None  # how much of the corpus is used; None in runs of earlier versions

    @classmethod
    def of(cls, config: RunConfig, store: Corpus) -> RunDescription:
        """The description of a new run: its configuration, completed with the sizes of the corpus."""
        sizes = {"symbols": len(store.symbols), "mels": store.mel_config.n_mels}
        if isinstance(config.model, AlignedConfig):
            sizes["boundaries"] = sum(symbol in PAUSE_STRENGTH for symbol in store.symbols)
            sizes["speakers"] = len(store.speakers)
        model = config.model.model_copy(update=sizes)
        return cls(
            config=config.model_copy(update={"model": model}),
            language=Language.of(store),
            source=str(store.header.get("source", "unknown")),
            recordings=made_of_recordings(store.header),
        )

    @classmethod
    def read(cls, run: Path) -> RunDescription:
        path = run / "run.json"
        try:
            return cls.model_validate_json(path.read_text("utf-8"))
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{run} is not a training run (no run.json); start one with `clock-attention train`"
            ) from None
        except ValidationError as error:
            fault = error.errors()[0]
            where = key_of(fault["loc"])
            raise ValueError(f"{path} cannot be read: {where}: {fault['msg']}") from None

    def write(self, run: Path) -> None:
        write_atomically(run / "run.json", self.model_dump_json(indent=1))

    def require_continues(self, before: RunDescription) -> None:
        """Raise unless a run can be resumed with these: training options may change, model and corpus may not."""
        for what, mine, theirs in (
            ("model", self.config.model, before.config.model),
            ("corpus", self.language, before.language),
        ):
            if mine != theirs:
                changed = [k for k in type(mine).model_fields if getattr(mine, k) != getattr(theirs, k)]
                raise ValueError(
                    f"resume: this run was started with another {what} ({', '.join(changed)} differ); "
                    "continue it with the same one, or start a new run in another folder"
                )
        if self.config.training.freeze != before.config.training.freeze:
            raise ValueError(
                f"resume: this run was started with freeze={before.config.training.freeze!r}: continue it with the "
                "same, or start a new run from it"
            )
