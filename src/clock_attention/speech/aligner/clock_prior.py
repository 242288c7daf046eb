"""The prior of the aligner's search: where the clocks of text and recording meet.

The source clock counts the sounds of the text, the target clock the onsets that the network detects. Both run from 0
to 1, and their difference is a Brownian bridge: free in the middle, zero at the ends. The network learned onsets from
boundaries that the content term had found, so the evidence trains the clocks and never the other way round.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SPREAD = 2.0  # variance of the difference of the two clocks, in sounds, per sound passed
OUTLIER = 8.0  # nats: maximum cost of a distant position, for texts with additional or missing words


def meeting_prior(target: NDArray[np.float32], source: NDArray[np.float32], sounds: int) -> NDArray[np.float32]:
    """The clocks' log prior of the search (frames, states), 0 where the clocks agree.

    Args:
        target: readings of the frames (frames,), in sounds detected.
        source: readings of the states (states,), in sounds of the text.
        sounds: number of sounds in the whole text.
    """
    if not len(target) or target[-1] <= 0 or sounds < 1:
        return np.zeros((len(target), len(source)), np.float32)
    reading = target / target[-1]
    variance = SPREAD * sounds * reading * (1 - reading) + 4.0  # a standard deviation of two sounds at the ends
    offset = reading[:, None] * sounds - source  # (frames, states)
    return -np.minimum(offset * offset / (2 * variance[:, None]), OUTLIER).astype(np.float32)
