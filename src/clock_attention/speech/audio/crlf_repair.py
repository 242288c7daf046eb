"""Repair recordings damaged by a transfer in text mode, in which every CR LF among their bytes became LF.

From the first lost byte on, each 16-bit sample is assembled from halves of two neighbours, which sounds like loud noise
until another byte is lost. Some distributions of TIMIT contain such files. The positions of the missing bytes can be
detected: read one byte later, the noise is speech.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from clock_attention.speech.audio.wave import Wave

FULL_SCALE = 32768.0
BLOCK = 16  # samples that are judged together
NOISY = 4000.0  # mean step between neighbouring samples; that of speech is smaller
CONTRAST = 4.0  # how much rougher than the other reading
SWITCH = 8.0  # nats of roughness that make a lost byte plausible
CARRIAGE_RETURN, LINE_FEED = 13, 10


def repaired(wave: Wave) -> tuple[Wave, int]:
    """The recording with lost CR bytes restored, and their number: 0 for a recording without this kind of damage."""
    counts = wave * FULL_SCALE
    if not len(wave) or np.abs(wave).max() < 0.5 or not np.array_equal(counts, np.round(counts)):
        return wave, 0  # quiet, or not 16-bit samples
    data = np.frombuffer(counts.astype("<i2").tobytes(), np.uint8)
    places = lost_bytes(data)
    if not len(places):
        return wave, 0
    whole = np.insert(data, places, CARRIAGE_RETURN)
    return (as_samples(whole) / FULL_SCALE).astype(np.float32), len(places)


def as_samples(data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Bytes of a damaged recording as 16-bit samples."""
    return np.frombuffer(data[: len(data) // 2 * 2].tobytes(), "<i2").astype(np.float32)


def roughness(data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Mean step between neighbouring samples in each block of a damaged recording, large where bytes are shifted."""
    steps = np.abs(np.diff(as_samples(data)))
    return steps[: len(steps) // BLOCK * BLOCK].reshape(-1, BLOCK).mean(1)


def lost_bytes(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Byte offsets in a damaged recording before which a CR is missing."""
    first, second = roughness(data), roughness(data[1:])
    count = min(len(first), len(second))
    first, second = first[:count], second[:count]
    if not ((first > NOISY) & (first > CONTRAST * second)).any():
        return np.empty(0, np.int64)
    cost = np.log(np.stack([first, second], 1) + 50.0)
    shifted = cheapest(cost)
    flips = np.flatnonzero(np.diff(shifted, prepend=0))
    return np.array([nearest_line_feed(data, int(flip) * BLOCK * 2, int(shifted[flip])) for flip in flips], np.int64)


def cheapest(cost: NDArray[np.float32]) -> NDArray[np.int64]:
    """Which of two readings is right for each block of a damaged recording (blocks, 2), where changes are rare."""
    total = cost[0] + np.array([0.0, SWITCH])
    back = np.zeros((len(cost), 2), np.int64)
    for block in range(1, len(cost)):
        for now in (0, 1):
            stay, change = total[now], total[1 - now] + SWITCH
            back[block, now] = now if stay <= change else 1 - now
        total = np.minimum(total, total[::-1] + SWITCH) + cost[block]
    path = np.empty(len(cost), np.int64)
    path[-1] = int(total.argmin())
    for block in range(len(cost) - 1, 0, -1):
        path[block - 1] = back[block, path[block]]
    return path


def nearest_line_feed(data: NDArray[np.uint8], place: int, shifted: int) -> int:
    """The line feed near an offset in a damaged recording from which the other reading is smoother than before."""
    reach = 2 * BLOCK * 2
    begin, end = max(place - reach, 0), min(place + reach, len(data))
    feeds = begin + np.flatnonzero(data[begin:end] == LINE_FEED)
    if not len(feeds):
        return place
    start = begin // 2 * 2 + (1 - shifted)  # a sample's first byte in the reading that is valid before the offset
    window = data[start : end + 2 * BLOCK]
    steps = [
        np.abs(np.diff(as_samples(np.insert(window, feed - start, CARRIAGE_RETURN)))).sum()
        for feed in feeds
        if feed >= start
    ]
    return int(feeds[feeds >= start][int(np.argmin(steps))]) if steps else place
