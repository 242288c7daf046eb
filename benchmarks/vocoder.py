"""How much faster is this package's HiFi-GAN on the CPU than the published module in plain torch?

    python benchmarks/vocoder.py

Published LJSpeech weights, CPU seconds per second of audio on one thread; medians of alternating rounds, the range of
the ratio over rounds, and the largest difference between the samples of both.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from clock_attention.speech.vocoder.hifigan import HifiganConfig, load_generator
from clock_attention.speech.vocoder.hifigan_cpu import CpuGenerator
from clock_attention.speech.vocoder.vocoder import published_weights


def seconds(run: Callable[[], Tensor]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, nargs="+", default=[100, 260, 800])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("out/vocoder.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    weights = published_weights("hifigan")
    config = HifiganConfig.read(weights.parent / "config.json")
    plain = load_generator(weights, config)
    fast = CpuGenerator(plain)
    rows = []
    for frames in arguments.frames:
        mel = torch.randn(frames, config.mel.n_mels, generator=torch.Generator().manual_seed(0)) - 3
        sound = frames * config.mel.hop_length / config.mel.sample_rate
        with torch.inference_mode():
            channels_first = mel.T[None].contiguous()
            error = (plain(channels_first)[0, 0] - fast(mel)).abs().max().item()
            pairs = [
                (seconds(lambda: plain(channels_first)) / sound, seconds(lambda: fast(mel)) / sound)  # noqa: B023
                for _ in range(arguments.rounds)
            ]
        ratios = sorted(ours / theirs for theirs, ours in pairs)
        rows.append(
            {
                "frames": frames,
                "published": statistics.median(theirs for theirs, _ in pairs),
                "ours": statistics.median(ours for _, ours in pairs),
                "ratio": [statistics.median(ratios), ratios[0], ratios[-1]],
                "error": error,
            }
        )
        middle, low, high = rows[-1]["ratio"]
        print(
            f"{frames:5} frames: published {rows[-1]['published']:.2f}, ours {rows[-1]['ours']:.2f} s for a second, "
            f"ratio {middle:.2f} [{low:.2f}, {high:.2f}], error {error:.0e}"
        )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
