"""What do clocks of two scales buy on long sequences?

    python benchmarks/scales.py                      # three seeds, minutes on one core
    python benchmarks/scales.py --seeds 0 --lengths 64 256

A target is a warped, noisy copy of a source, 1.5 times as long. The source is made of segments (words) of 16–48 steps,
each spoken at a tempo of its own (log-normal, σ = 0.5) that also drifts inside: the tempo is heterogeneous. A
convolutional encoder drives normalized clocks; one attention is trained, at 128 source steps, to rebuild the target out
of the source's values. It never sees a warp. Then the same weights are tested at other lengths:

    one scale     the paper's clocks, from the first step to the last
    two scales    `segments=`: a coarse clock over segments, the same on both sides, and fine ones inside them

The error is the mean distance of the expected source position from the true one, the width the standard deviation of
attention in the middle of the target, both in source steps. The segments are given, as words are by a text and an
aligner: this measures what knowing them is worth, not how to find them.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clock_attention import clock_attention

CHANNELS, FEATURES, NOISE = 6, 16, 0.3
TRAINED_ON, LENGTHS = 128, (64, 128, 256, 512, 1024, 2048)


@dataclass
class Pair:
    source: Tensor  # (1, T, C)
    target: Tensor  # (1, S, C)
    warp: Tensor  # (1, S), in source steps
    segments: tuple[Tensor, Tensor]  # (1, S), (1, T)


def smooth_noise(channels: int, length: int, width: int, generator: torch.Generator) -> Tensor:
    """Gaussian noise of unit variance, smoothed along time.  (channels, length)"""
    kernel = torch.exp(-0.5 * (torch.arange(-3 * width, 3 * width + 1) / width) ** 2)
    noise = torch.randn(channels, 1, length + 6 * width, generator=generator)
    return F.conv1d(noise, kernel[None, None] / kernel.norm())[:, 0]


def random_pair(sources: int, generator: torch.Generator) -> Pair:
    lengths: list[int] = []
    while sum(lengths) < sources:
        lengths.append(int(torch.randint(16, 49, (), generator=generator)))
    lengths[-1] -= sum(lengths) - sources
    segment_of_source = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    tempo = torch.exp(0.5 * torch.randn(len(lengths), generator=generator))[segment_of_source]
    tempo = tempo * torch.exp(0.4 * smooth_noise(1, sources, 6, generator)[0])  # target steps for each source step
    targets = sources * 3 // 2
    elapsed = F.pad(tempo[:-1].cumsum(0), (1, 0))
    elapsed = elapsed / elapsed[-1] * (targets - 1)  # the target step at which each source step is reached
    place = np.interp(np.arange(targets), elapsed.numpy(), np.arange(sources))
    warp = torch.from_numpy(place).float().clamp(max=sources - 1)
    left = warp.floor().long().clamp(max=sources - 2)
    signal = smooth_noise(CHANNELS, sources, 2, generator)
    target = torch.lerp(signal[:, left], signal[:, left + 1], warp - left)
    noisy = [(x + NOISE * torch.randn(x.shape, generator=generator)).T[None] for x in (signal, target)]
    return Pair(noisy[0], noisy[1], warp[None], (segment_of_source[left][None], segment_of_source[None]))


class Aligner(nn.Module):
    def __init__(self, scales: int) -> None:
        super().__init__()
        self.scales = scales
        self.encoder = nn.Sequential(
            nn.Conv1d(CHANNELS, 48, 9, padding=4, padding_mode="replicate"),
            nn.GELU(),
            nn.Conv1d(48, 48, 5, padding=2, padding_mode="replicate"),
            nn.GELU(),
            nn.Conv1d(48, FEATURES, 1),
        )
        self.log_scale = nn.Parameter(torch.zeros(()))

    def forward(self, pair: Pair) -> tuple[Tensor, Tensor]:
        """The target rebuilt from source values (1, S, C), and the weights (1, S, T)."""
        query, key = (self.encoder(x.transpose(1, 2)).transpose(1, 2)[:, None] for x in (pair.target, pair.source))
        output, weights = clock_attention(
            query,
            key,
            pair.source[:, None],
            segments=pair.segments if self.scales == 2 else None,
            logit_scale=self.log_scale.exp(),
            impl="portable",
        )
        return output[:, 0], weights[:, 0]


def fit(scales: int, steps: int, seed: int) -> Aligner:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(1000 + seed)
    model = Aligner(scales)
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.005, total_steps=steps)
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(4):
            pair = random_pair(TRAINED_ON, generator)
            (F.mse_loss(model(pair)[0], pair.target) / 4).backward()
        optimizer.step()
        schedule.step()
    return model


@torch.no_grad()
def measure(model: Aligner, sources: int, pairs: int, seed: int) -> dict[str, float]:
    generator = torch.Generator().manual_seed(seed)
    place = torch.arange(sources, dtype=torch.float32)
    errors, widths = [], []
    for _ in range(pairs):
        pair = random_pair(sources, generator)
        _, weights = model(pair)
        expected = weights @ place
        errors.append(float((expected - pair.warp).abs().mean()))
        middle = weights[0, weights.shape[1] // 2]
        widths.append(float((middle * (place - middle @ place).square()).sum().sqrt()))
    return {"error": float(np.mean(errors)), "width": float(np.mean(widths))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--pairs", type=int, default=16, help="pairs for each length")
    parser.add_argument("--out", type=Path, default=Path("out/scales.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for seed in arguments.seeds:
        for scales in (1, 2):
            model = fit(scales, arguments.steps, seed)
            for length in arguments.lengths:
                found = measure(model, length, arguments.pairs, seed)
                rows.append({"seed": seed, "scales": scales, "length": length, **found})
                print(rows[-1], flush=True)
    report(rows)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    temporary = arguments.out.with_suffix(f".{os.getpid()}")
    settings = {"steps": arguments.steps, "pairs": arguments.pairs, "noise": NOISE, "trained_on": TRAINED_ON}
    temporary.write_text(json.dumps({"settings": settings, "results": rows}, indent=1) + "\n")
    temporary.replace(arguments.out)


def report(rows: list[dict]) -> None:
    """Means over seeds, with their range, and the growth from the shortest to the longest."""
    lengths = sorted({row["length"] for row in rows})
    for what in ("error", "width"):
        print(f"\n{what} in source steps, by source length")
        for scales in sorted({row["scales"] for row in rows}):
            cells, means = [], []
            for length in lengths:
                found = [row[what] for row in rows if row["scales"] == scales and row["length"] == length]
                means.append(np.mean(found))
                cells.append(f"{length}: {np.mean(found):.2f} [{min(found):.2f}, {max(found):.2f}]")
            print(f"  {scales} scale(s)  {'  '.join(cells)}  ×{means[-1] / means[0]:.2f}")


if __name__ == "__main__":
    main()
