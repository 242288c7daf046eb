"""A run's folder says what it is: `run.json` holds the configuration and all of the corpus that a voice needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from clock_attention.speech.audio import MelConfig
from clock_attention.speech.batching import Features
from clock_attention.speech.config import RunConfig
from clock_attention.speech.store import write_atomically

FORMAT = 1


class Corpus(Features, Protocol):
    """What a run asks of a feature store."""

    symbols: tuple[str, ...]
    mel_config: MelConfig
    mpr: float
    header: dict[str, Any]

    def split(self, name: str) -> Sequence[int]: ...


class Language(BaseModel):
    """How text becomes tokens and frames become numbers: what a model cannot be used without."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    phonemizer: str
    symbols: tuple[str, ...]
    mel: MelConfig
    mean: tuple[float, ...]  # of each mel bin
    std: tuple[float, ...]
    mpr: float = Field(gt=0)  # mel frames per phoneme of natural speech

    @model_validator(mode="after")
    def _consistent(self) -> Language:
        for name in ("mean", "std"):
            if len(getattr(self, name)) != self.mel.n_mels:
                raise ValueError(f"{name} has {len(getattr(self, name))} values, expected one for each mel bin")
        if min(self.std) <= 0:
            raise ValueError("std must be positive in every mel bin")
        if len(set(self.symbols)) != len(self.symbols):
            raise ValueError("symbols must all be different")
        return self

    @classmethod
    def of(cls, store: Corpus) -> Language:
        return cls(
            phonemizer=store.header["phonemizer"]["name"],
            symbols=store.symbols,
            mel=store.mel_config,
            mean=tuple(store.mean.tolist()),
            std=tuple(store.std.tolist()),
            mpr=store.mpr,
        )


class RunDescription(BaseModel):
    """Contents of `run.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    config: RunConfig
    language: Language
    source: str  # what the corpus was made from

    @classmethod
    def of(cls, config: RunConfig, store: Corpus) -> RunDescription:
        """A configuration completed with the sizes that the corpus dictates."""
        model = config.model.model_copy(update={"symbols": len(store.symbols), "mels": store.mel_config.n_mels})
        return cls(
            config=config.model_copy(update={"model": model}),
            language=Language.of(store),
            source=str(store.header.get("source", "unknown")),
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
            where = ".".join(map(str, fault["loc"]))
            raise ValueError(f"{path} cannot be read: {where}: {fault['msg']}") from None

    def write(self, run: Path) -> None:
        write_atomically(run / "run.json", self.model_dump_json(indent=1))

    def require_continues(self, before: RunDescription) -> None:
        """Training options may change between sessions; the model and the corpus may not."""
        for what, mine, theirs in (
            ("model", self.config.model, before.config.model),
            ("corpus", self.language, before.language),
        ):
            if mine != theirs:
                changed = [k for k in type(mine).model_fields if getattr(mine, k) != getattr(theirs, k)]
                raise ValueError(
                    f"--resume: this run was started with another {what} ({', '.join(changed)} differ); "
                    "continue it with the same one, or start a new run in another folder"
                )
