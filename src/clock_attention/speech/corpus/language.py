"""The language of a voice: its phoneme inventory, mel definition and corpus statistics."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.corpus.protocols import Corpus


class ProsodyStatistics(BaseModel):
    """Part of a voice's language: what pitch and energy are standardised with."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    pitch_mean: float  # of the natural log of F0 in Hz, where voiced
    pitch_std: float = Field(gt=0)
    energy_mean: float  # of a frame's mean log-mel
    energy_std: float = Field(gt=0)


class Language(BaseModel):
    """The language of a voice: how text becomes tokens and frames become numbers. Stored with corpora and voices."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    phonemizer: str
    symbols: tuple[str, ...]
    mel: MelConfig
    mean: tuple[float, ...]  # of each mel bin
    std: tuple[float, ...]
    mpr: float = Field(gt=0, le=1000)  # mel frames per phoneme of natural speech
    prosody: ProsodyStatistics | None = None  # of models that learn along an alignment

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
        return self

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
        )
