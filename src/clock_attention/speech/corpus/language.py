"""The language of a voice: its phoneme inventory, mel definition and corpus statistics."""

from __future__ import annotations

from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.corpus.protocols import Corpus
from clock_attention.speech.corpus.speakers import ProsodyStatistics, SpeakerStatistics


class Language(BaseModel):
    """The language of a voice: how text becomes tokens and frames become numbers. Stored with corpora and voices."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    phonemizer: str
    symbols: tuple[str, ...]
    mel: MelConfig
    mean: tuple[float, ...]  # of each mel bin
    std: tuple[float, ...]
    mpr: float = Field(gt=0, le=1000)  # mel frames per phoneme of natural speech
    prosody: ProsodyStatistics | None = None  # for models that learn from an alignment
    # If there are several, each has its own statistics; those above are then of all of them together.
    speakers: tuple[SpeakerStatistics, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Language:
        for name in ("mean", "std"):
            if len(getattr(self, name)) != self.mel.n_mels:
                raise ValueError(f"{name} has {len(getattr(self, name))} values, expected one for each mel bin")
        if max(map(abs, (*self.mean, *self.std))) > 1000:
            raise ValueError("mean and std are of logarithms: none of them exceeds 1000")
        if min(self.std) <= 0:
            raise ValueError("std must be positive in every mel bin")
        if len(set(self.symbols)) != len(self.symbols):
            raise ValueError("symbols must all be different")
        names = [speaker.name for speaker in self.speakers]
        if len(names) == 1 or "" in names or len(set(names)) != len(names):
            raise ValueError(f"speakers: got {names}, expected several different names, or none")
        if any(len(speaker.mean) != self.mel.n_mels for speaker in self.speakers):
            raise ValueError("speakers: expected a mean and std for each mel bin")
        return self

    @model_serializer(mode="wrap")
    def _without_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """With a single speaker, in the form that earlier versions wrote and read."""
        table: dict[str, Any] = write(self)
        if not self.speakers:
            table.pop("speakers", None)
        return table

    def of_speaker(self, name: str) -> Language:
        """The language of a voice with only this speaker."""
        [speaker] = [speaker for speaker in self.speakers if speaker.name == name]
        own = {key: getattr(speaker, key) for key in ("mean", "std", "mpr", "prosody")}
        return self.model_copy(update={**own, "speakers": ()})

    @classmethod
    def of(cls, store: Corpus) -> Language:
        prosody = store.header.get("prosody")  # with the aligner's settings, which a model does not need
        return cls(
            phonemizer=store.header["phonemizer"]["name"],
            symbols=store.symbols,
            mel=store.mel_config,
            mean=tuple(store.mean.tolist()),
            std=tuple(store.std.tolist()),
            mpr=store.mpr,
            prosody=ProsodyStatistics(**{name: prosody[name] for name in ProsodyStatistics.model_fields})
            if prosody
            else None,
            speakers=tuple(store.speakers) if len(store.speakers) > 1 else (),
        )
