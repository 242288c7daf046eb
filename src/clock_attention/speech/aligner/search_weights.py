"""Weights of the different kinds of evidence in the aligner's search, stored with the network they were tuned for."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Weight = Annotated[float, Field(ge=0.0, le=100.0)]


class SearchWeights(BaseModel):
    """Weights of the evidence in the aligner's search; the defaults use the network's output unchanged."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    prior: Weight = 0.3  # exponent of the state prior by which the network's posteriors are divided
    change: Weight = 1.0  # weight of sound onsets
    clock: Weight = 0.8  # weight of the clocks' prior, in every frame
    silence: Weight = 0.0  # bonus for silence, nats per frame: synthetic speech starts more abruptly than people do
    sharpness: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0  # below 1 if neighbouring frames are strongly correlated
