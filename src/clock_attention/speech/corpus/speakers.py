"""The speakers of a corpus, and the statistics of each.

Mel, pitch and energy are standardised with the statistics of their speaker, so that a standardised value means the same
for a deep voice and for a high one: what remains for a model to distinguish is how they speak.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator


class ProsodyStatistics(BaseModel):
    """Prosody statistics of an aligned corpus, used to standardise pitch and energy."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    pitch_mean: float  # of the natural log of F0 in Hz, where voiced
    pitch_std: float = Field(gt=0)
    energy_mean: float  # of a frame's mean log-mel
    energy_std: float = Field(gt=0)


class SpeakerStatistics(BaseModel):
    """A speaker of a corpus or voice, with statistics."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str  # empty if the corpus names none
    mean: tuple[float, ...]  # of each mel bin
    std: tuple[float, ...]
    mpr: float = Field(gt=0, le=1000)  # mel frames per phoneme of natural speech
    prosody: ProsodyStatistics | None = None  # only in aligned corpora

    @model_validator(mode="after")
    def _consistent(self) -> SpeakerStatistics:
        if len(self.mean) != len(self.std):
            raise ValueError(f"mean has {len(self.mean)} values and std {len(self.std)}, expected one for each mel bin")
        if max(map(abs, (*self.mean, *self.std))) > 1000:
            raise ValueError("mean and std are of logarithms: none of them exceeds 1000")
        if min(self.std) <= 0:
            raise ValueError("std must be positive in every mel bin")
        return self
