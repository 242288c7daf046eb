"""How much each kind of evidence counts in the search. Stored with the network for which they were tuned."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Weight = Annotated[float, Field(ge=0.0, le=100.0)]


class SearchWeights(BaseModel):
    """Weights of the search's evidence. The defaults use the network's output unchanged."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    prior: Weight = 0.3  # exponent of the state prior by which the network's posteriors are divided
    change: Weight = 1.0  # beginnings of sounds
    clock: Weight = 0.8  # the prior of the clocks, in every frame
    silence: Weight = 0.0  # nats a frame in its favour: synthetic speech begins more suddenly than people do
    sharpness: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0  # less where neighbouring frames say nearly the same
