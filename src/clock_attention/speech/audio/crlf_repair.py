"""Repair of recordings that a transfer in text mode has damaged: every CR LF among their bytes has become LF.

From the first lost byte on, 16-bit samples are put together of the halves of two neighbours, which sounds as loud noise
until another byte is lost. Some distributions of TIMIT have such files. Where the bytes are missing can be seen: read
one byte later, the noise is speech.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from clock_attention.speech.audio.wave import Wave

FULL_SCALE = 32768.0
BLOCK = 16  # samples that are judged together
NOISY = 4000.0  # mean step between neighbouring samples, of which speech has less
CONTRAST = 4.0  # how much rougher than the other reading
SWITCH = 8.0  # nats of roughness that make a lost byte believable
CARRIAGE_RETURN, LINE_FEED = 13, 10


def repaired(wave: Wave) -> tuple[Wave, int]:
    """The recording with lost CR bytes put back, and how many there were: 0 for anything that is not damaged so."""
    counts = wave * FULL_SCALE
    if not len(wave) or np.abs(wave).max() < 0.5 or not np.array_equal(counts, np.round(counts)):
        return wave, 0  # quiet, or no 16-bit samples
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
    """Repair: mean step between neighbouring samples in every block, large where bytes are shifted."""
    steps = np.abs(np.diff(as_samples(data)))
    return steps[: len(steps) // BLOCK * BLOCK].reshape(-1, BLOCK).mean(1)


def lost_bytes(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Repair: places of bytes before which a CR is missing."""
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
    """Repair: which of two readings is right for every block (blocks, 2), where changes are rare."""
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
    """Repair: the line feed about a place from which on the other reading is smoother than the one before."""
    reach = 2 * BLOCK * 2
    begin, end = max(place - reach, 0), min(place + reach, len(data))
    feeds = begin + np.flatnonzero(data[begin:end] == LINE_FEED)
    if not len(feeds):
        return place
    start = begin // 2 * 2 + (1 - shifted)  # a sample's first byte in the reading that holds before the place
    window = data[start : end + 2 * BLOCK]
    steps = [
        np.abs(np.diff(as_samples(np.insert(window, feed - start, CARRIAGE_RETURN)))).sum()
        for feed in feeds
        if feed >= start
    ]
    return int(feeds[feeds >= start][int(np.argmin(steps))]) if steps else place
