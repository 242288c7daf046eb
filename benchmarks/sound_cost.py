"""What a voice costs: time to the first audio, CPU per second of speech, and memory over many utterances.

    python benchmarks/sound_cost.py            # writes its part of results/sound_bars.json

A process of its own that imports only what speaking needs: with the imports of the other benchmarks it is 50 MB larger.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clock_attention.speech.vocoder.vocoder import Vocoder
from clock_attention.speech.voice.voice import Voice

TEXT = "The birch canoe slid quietly on the smooth green water"
WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voice", default="default")
    parser.add_argument("--vocoder", default="auto")
    parser.add_argument("--utterances", type=int, default=1000, help="of the memory test")
    parser.add_argument("--out", type=Path, default=Path("results/sound_bars.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    voice = Voice.load(arguments.voice)
    vocoder = voice.vocoder(arguments.vocoder)
    found = {"vocoder": vocoder.name, **cost(voice, vocoder, arguments.utterances)}
    print(json.dumps(found, indent=1))
    write_part(arguments.out, "cost", found)


def cost(voice: Voice, vocoder: Vocoder, utterances: int) -> dict[str, Any]:
    """Time to the first audio of ten words, CPU per second of speech, and memory before and after many utterances."""
    next(voice.stream(TEXT, vocoder=vocoder))
    first, cpu, seconds = [], 0.0, 0.0
    for number in range(10):
        begun, processor = time.perf_counter(), time.process_time()
        piece = next(voice.stream(f"{TEXT} {number}.", vocoder=vocoder))
        first.append(time.perf_counter() - begun)
        cpu, seconds = cpu + time.process_time() - processor, seconds + piece.seconds
    peak = peak_memory()
    draw = np.random.default_rng(0)
    for _ in range(utterances):
        voice.speak(" ".join(draw.choice(WORDS, draw.integers(2, 12))), vocoder=vocoder)
    return {
        "first audio, s (median, worst of 10)": [float(np.median(first)), max(first)],
        "CPU s per s": cpu / seconds,
        "peak memory, MB": peak,
        "utterances": utterances,
        "peak memory after them, MB": peak_memory(),
    }


def peak_memory() -> int:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def write_part(path: Path, part: str, found: dict[str, Any]) -> None:
    """Replace one part of a file of measurements."""
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**before, part: found}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
