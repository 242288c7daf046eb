"""What a voice costs: time to the first audio, CPU per second of speech, and memory over many utterances.

    python benchmarks/sound_cost.py                     # writes its part of results/sound_bars.json
    clock-attention export --runtime default voice
    python benchmarks/sound_cost.py --runtime voice     # the same without torch

A separate process that imports only what speaking needs: with the imports of the other benchmarks it is 50 MB larger.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

TEXT = "The birch canoe slid quietly on the smooth green water"
WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voice", default="default")
    parser.add_argument("--vocoder", default="auto")
    parser.add_argument("--runtime", help="folder of a voice that was exported to speak without torch")
    parser.add_argument("--utterances", type=int, default=1000, help="of the memory test")
    parser.add_argument("--out", type=Path, default=Path("results/sound_bars.json"))
    arguments = parser.parse_args()
    load = runtime_voice if arguments.runtime else torch_voice
    found = cost(*load(arguments), arguments.utterances)
    print(json.dumps(found, indent=1))
    write_part(arguments.out, "cost without torch" if arguments.runtime else "cost", found)


def torch_voice(arguments: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """A voice, and the options of its methods."""
    import torch

    from clock_attention.speech.voice.voice import Voice

    torch.set_num_threads(1)
    voice = Voice.load(arguments.voice)
    return voice, {"vocoder": voice.vocoder(arguments.vocoder)}


def runtime_voice(arguments: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """A voice without torch, which is not imported, and the options of its methods."""
    from clock_attention import runtime

    return runtime.load(arguments.runtime, threads=1), {}


def cost(voice: Any, options: dict[str, Any], utterances: int) -> dict[str, Any]:
    """Time to the first audio of ten words, CPU per second of speech, and memory before and after many utterances."""
    next(voice.stream(TEXT, **options))
    first, cpu, seconds = [], 0.0, 0.0
    for number in range(10):
        started, processor = time.perf_counter(), time.process_time()
        piece = next(voice.stream(f"{TEXT} {number}.", **options))
        first.append(time.perf_counter() - started)
        cpu, seconds = cpu + time.process_time() - processor, seconds + piece.seconds
    peak = peak_memory()
    draw = np.random.default_rng(0)
    for _ in range(utterances):
        voice.speak(" ".join(draw.choice(WORDS, draw.integers(2, 12))), **options)
    return {
        "vocoder": options["vocoder"].name if options else "exported",
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
