"""What do clocks of several scales buy on long sequences, and in which form?

    python benchmarks/scales.py                      # three seeds, half an hour on one core
    python benchmarks/scales.py --seeds 0 --lengths 64 256 --forms one given

A target is a warped, noisy copy of a source, 1.5 times as long. The source is made of segments (words) of 16–48 steps,
each spoken at a tempo of its own (log-normal, σ = 0.5) that also drifts inside: the tempo is heterogeneous. A
convolutional encoder drives normalized clocks; one attention is trained, at 128 source steps, to rebuild the target
from the source's values. It never sees a warp. Then the same weights are tested at other lengths:

    one            the paper's clocks, from the first step to the last
    scores         clocks of three temporal resolutions (features averaged over 1, 4 and 16 steps), whose scores add
    rates          one clock whose rates are driven by the sum of features of these three resolutions
    given          `segments=`: both clocks pinned at the true starts of segments, as words are by a text and an aligner
    content        the paper's clocks with content evidence, compared step by step
    found          `find_segments`: pinned where the content shows that both meet; between the pins the clocks alone
    found_content  the same, with content between the pins as well
    paths          no clocks: the content's posterior over monotone paths, by which `find_segments` finds its pins

The error is the mean distance of the expected source position from the true one, the width the standard deviation of
attention in the middle of the target, both in source steps.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clock_attention import clock_attention
from clock_attention.losses import monotone_posterior
from clock_attention.segments import find_segments

CHANNELS, FEATURES, NOISE = 6, 16, 0.3
RESOLUTIONS = (4, 16)  # beside that of single steps
FORMS = ("one", "scores", "rates", "given", "content", "found", "found_content", "paths")
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
    def __init__(self, form: str) -> None:
        super().__init__()
        self.form = form
        self.parts = {"one": 1, "given": 1, "scores": 3, "rates": 3}.get(form, 2)  # the second is content elsewhere
        self.encoder = nn.Sequential(
            nn.Conv1d(CHANNELS, 48, 9, padding=4, padding_mode="replicate"),
            nn.GELU(),
            nn.Conv1d(48, 48, 5, padding=2, padding_mode="replicate"),
            nn.GELU(),
            nn.Conv1d(48, FEATURES * self.parts, 1),
        )
        self.log_scale = nn.Parameter(torch.zeros(3))
        self.log_content = nn.Parameter(torch.ones(()))

    def forward(self, pair: Pair) -> list[tuple[Tensor, Tensor]]:
        """For each pass, the target rebuilt from source values (1, S, C), and weights (1, S, T). The last counts."""
        query, key = (
            self.encoder(x.transpose(1, 2)).transpose(1, 2).unflatten(-1, (self.parts, -1)).permute(0, 2, 1, 3)
            for x in (pair.target, pair.source)
        )  # (1, parts, L, FEATURES)
        fine = query[:, :1].contiguous(), key[:, :1].contiguous()
        scales = self.log_scale.exp()
        if self.form in ("one", "given"):
            return [self.attend(*fine, pair, scales[0], segments=pair.segments if self.form == "given" else None)]
        if self.form == "rates":
            return [self.attend(blended(query), blended(key), pair, scales[0])]
        if self.form == "scores":
            levels = zip(RESOLUTIONS, query.unbind(1)[1:], key.unbind(1)[1:], scales[1:], strict=True)
            scores = sum(scale * coarse_score(q, k, steps) for steps, q, k, scale in levels)
            return [self.attend(*fine, pair, scales[0], content=scores[:, None])]
        content = F.normalize(query[:, 1:], dim=-1) * self.log_content.exp(), F.normalize(key[:, 1:], dim=-1)
        first = self.attend(*fine, pair, scales[0], content=content)
        if self.form == "content" or (self.form == "paths" and self.training):
            return [first]
        if self.form == "paths":
            every_key = torch.ones(1, key.shape[2], dtype=torch.bool)
            return [(first[0], monotone_posterior(content[0] @ content[1].mT, optional=every_key)[:, 0].float())]
        inside = content if self.form == "found_content" else None
        return [first, self.attend(*fine, pair, scales[1], content=inside, segments=find_segments(content))]

    def attend(self, query: Tensor, key: Tensor, pair: Pair, scale: Tensor, **extras: Any) -> tuple[Tensor, Tensor]:
        value = pair.source[:, None]
        output, weights = clock_attention(query, key, value, logit_scale=scale, impl="portable", **extras)
        return output[:, 0], weights[:, 0]


def coarser(x: Tensor, steps: int) -> Tensor:
    """Means over runs of `steps` steps.  (1, L, C) → (1, L / steps, C)"""
    return F.avg_pool1d(x.transpose(1, 2), steps, ceil_mode=True, count_include_pad=False).transpose(1, 2)


def finer(x: Tensor, length: int) -> Tensor:
    """Back to single steps, linearly between the middles of the runs.  (1, l, C) → (1, length, C)"""
    return F.interpolate(x.transpose(1, 2), size=length, mode="linear").transpose(1, 2)


def blended(x: Tensor) -> Tensor:
    """Features of three resolutions, added.  (1, 3, L, C) → (1, 1, L, C)"""
    levels = zip(RESOLUTIONS, x.unbind(1)[1:], strict=True)
    return (x[:, 0] + sum(finer(coarser(level, steps), x.shape[2]) for steps, level in levels))[:, None]


def coarse_score(query: Tensor, key: Tensor, steps: int) -> Tensor:
    """The score of the clocks of features averaged over `steps` steps, at every pair of single steps.  (1, S, T)"""
    coarse = coarser(query, steps)[:, None], coarser(key, steps)[:, None]
    clocks = clock_attention(*coarse, coarse[1], return_weights=False, return_clocks=True, impl="portable")[2]
    sides = (clocks.query, clocks.query_variance, query.shape[1]), (clocks.key, clocks.key_variance, key.shape[1])
    (query_clock, query_variance), (key_clock, key_variance) = (
        (finer(clock[:, 0], length), finer(variance[:, 0, :, None].to(clock.dtype), length))
        for clock, variance, length in sides
    )
    distance = torch.cdist(query_clock, key_clock).square() / FEATURES
    return (-distance / (2 * (query_variance + key_variance.mT))).float()


def fit(form: str, steps: int, seed: int) -> Aligner:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(1000 + seed)
    model = Aligner(form)
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.005, total_steps=steps)
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(4):
            pair = random_pair(TRAINED_ON, generator)
            sum(F.mse_loss(output, pair.target) / 4 for output, _ in model(pair)).backward()
        optimizer.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def measure(model: Aligner, sources: int, pairs: int, seed: int) -> dict[str, float]:
    generator = torch.Generator().manual_seed(seed)
    place = torch.arange(sources, dtype=torch.float32)
    errors, widths = [], []
    for _ in range(pairs):
        pair = random_pair(sources, generator)
        _, weights = model(pair)[-1]
        expected = weights @ place
        errors.append(float((expected - pair.warp).abs().mean()))
        middle = weights[0, weights.shape[1] // 2]
        widths.append(float((middle * (place - middle @ place).square()).sum().sqrt()))
    return {"error": float(np.mean(errors)), "width": float(np.mean(widths))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS)
    parser.add_argument("--forms", nargs="*", choices=FORMS, default=FORMS)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--pairs", type=int, default=16, help="pairs for each length")
    parser.add_argument("--out", type=Path, default=Path("out/scales.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for seed in arguments.seeds:
        for form in arguments.forms:
            model = fit(form, arguments.steps, seed)
            for length in arguments.lengths:
                found = measure(model, length, arguments.pairs, seed)
                rows.append({"seed": seed, "form": form, "length": length, **found})
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
        for form in dict.fromkeys(row["form"] for row in rows):
            cells, means = [], []
            for length in lengths:
                found = [row[what] for row in rows if row["form"] == form and row["length"] == length]
                means.append(np.mean(found))
                cells.append(f"{length}: {np.mean(found):.2f} [{min(found):.2f}, {max(found):.2f}]")
            print(f"  {form:13s}  {'  '.join(cells)}  ×{means[-1] / means[0]:.2f}")


if __name__ == "__main__":
    main()
