"""Do clocks and content together find a warp that neither finds alone?

    python benchmarks/warp.py --out results/warp.json    # three seeds, both tasks, about 2 minutes on one core
    python benchmarks/warp.py --seeds 0 --steps 300

A target is a warped, noisy copy of a source with 6 channels (64 source steps, 96 target steps). Noise and warp are such
that the diagonal is 5.3 steps off, dynamic time warping 0.33 on whole targets and 0.77 on cropped ones. A convolutional
encoder makes 32 features of each side; one layer of attention gives every target step an expected source
position, and its distance from the true one is the loss. All models have the same encoder, parameters, data and steps;
they differ in what the 32 features are used for:

    clocks              all of them drive clocks
    dot product         all of them are compared: the cosine of their angle, times a learned factor
    clocks + content    half drive clocks (the prior), half are compared so (the evidence)

Beside them, untrained: the diagonal, and dynamic time warping on the raw noisy signals, with both ends tied to those
of the source and with free ends. In the cropped task the target covers a random part of the source, from 0–29 % to
71–100 % of it; no model is told which part. The error is the mean distance of the expected source position from the
true one, in source steps, over 200 held-out pairs; the interval is the range over seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numba
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clock_attention import clock_attention

CHANNELS, SOURCE, TARGET, FEATURES = 6, 64, 96, 32
NOISE = 0.2  # standard deviation; the signals have 1
SPEED = 0.645  # standard deviation of the logarithm of the speed
CROP = 0.29  # of the source, at most, is missing from the cropped target at either end
HELD_OUT = 200
UNTRAINED = ("diagonal", "dynamic time warping", "dynamic time warping, free ends")
MODELS = ("clocks", "dot product", "clocks + content")


@dataclass
class Pairs:
    source: Tensor  # (B, T, C)
    target: Tensor  # (B, S, C)
    warp: Tensor  # (B, S), in source steps


def smooth_noise(shape: tuple[int, ...], width: int, generator: torch.Generator) -> Tensor:
    """Gaussian noise of unit variance, smoothed along the last dimension."""
    kernel = torch.exp(-0.5 * (torch.arange(-3 * width, 3 * width + 1) / width) ** 2)
    noise = torch.randn(*shape[:-1], shape[-1] + 6 * width, generator=generator)
    return F.conv1d(noise.flatten(0, -2)[:, None], kernel[None, None] / kernel.norm()).reshape(shape)


def random_pairs(count: int, cropped: bool, generator: torch.Generator) -> Pairs:
    signal = smooth_noise((count, CHANNELS, SOURCE), 2, generator)
    speed = torch.exp(SPEED * smooth_noise((count, TARGET - 1), TARGET // 8, generator))
    warp = F.pad(speed.cumsum(-1), (1, 0))
    warp = warp / warp[:, -1:]
    if cropped:
        ends = CROP * torch.rand(count, 2, generator=generator)
        warp = ends[:, :1] + (1 - ends.sum(-1, keepdim=True)) * warp
    warp = warp * (SOURCE - 1)
    left = warp.long().clamp(max=SOURCE - 2)
    index = left[:, None].expand(-1, CHANNELS, -1)
    target = torch.lerp(signal.gather(2, index), signal.gather(2, index + 1), (warp - left)[:, None])
    noisy = [(x + NOISE * torch.randn(x.shape, generator=generator)).transpose(1, 2) for x in (signal, target)]
    return Pairs(noisy[0], noisy[1], warp)


class Aligner(nn.Module):
    """An encoder for both sides, and one attention."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.encoder = nn.Sequential(
            nn.Conv1d(CHANNELS, 48, 9, padding=4, padding_mode="replicate"),
            nn.GELU(),
            nn.Conv1d(48, 48, 5, padding=2, padding_mode="replicate"),
            nn.GELU(),
            nn.Conv1d(48, FEATURES, 1),
        )
        self.log_scale = nn.Parameter(torch.tensor([1.0, 10.0]).log())  # of the clocks, of the content

    def forward(self, pairs: Pairs) -> Tensor:
        """The expected source step of every target step (B, S)."""
        query, key = (self.encoder(x.transpose(1, 2)).transpose(1, 2)[:, None] for x in (pairs.target, pairs.source))
        clock_scale, content_scale = self.log_scale.exp()
        steps = torch.arange(SOURCE, dtype=query.dtype)[:, None].expand(*key.shape[:3], 1)  # what is attended to
        if self.kind == "dot product":
            weights = torch.softmax(content_scale * F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).mT, -1)
            return (weights @ steps)[:, 0, :, 0]
        clocks = FEATURES if self.kind == "clocks" else FEATURES // 2
        content = None
        if clocks < FEATURES:
            first, second = (F.normalize(x[..., clocks:], dim=-1) for x in (query, key))
            content = content_scale * first, second
        expected, _ = clock_attention(
            query[..., :clocks],
            key[..., :clocks],
            steps,
            content=content,
            logit_scale=clock_scale,
            return_weights=False,
        )
        return expected[:, 0, :, 0]


PARAMETERS = {kind: sum(p.numel() for p in Aligner(kind).parameters()) for kind in MODELS}


def fit(kind: str, cropped: bool, steps: int, batch: int, seed: int) -> Aligner:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(1000 + seed)
    model = Aligner(kind)
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=steps)
    for _ in range(steps):
        pairs = random_pairs(batch, cropped, generator)
        loss = (model(pairs) - pairs.warp).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model


@numba.njit
def warping_path(cost: np.ndarray, free_ends: bool) -> np.ndarray:
    """Dynamic time warping: the mean source step matched to every target step.  (S, T) → (S,)"""
    targets, sources = cost.shape
    total = np.full((targets, sources), np.inf)
    for t in range(sources):
        total[0, t] = cost[0, t] if free_ends or t == 0 else total[0, t - 1] + cost[0, t]
    for s in range(1, targets):
        for t in range(sources):
            best = total[s - 1, t]
            if t > 0:
                best = min(best, total[s - 1, t - 1], total[s, t - 1])
            total[s, t] = best + cost[s, t]
    s, t = targets - 1, sources - 1
    if free_ends:
        t = int(np.argmin(total[s]))
    added, count = np.zeros(targets), np.zeros(targets)
    while True:
        added[s] += t
        count[s] += 1
        if s == 0 and (t == 0 or free_ends):
            break
        diagonal = total[s - 1, t - 1] if s > 0 and t > 0 else np.inf
        up = total[s - 1, t] if s > 0 else np.inf
        left = total[s, t - 1] if t > 0 else np.inf
        if diagonal <= up and diagonal <= left:
            s, t = s - 1, t - 1
        elif up <= left:
            s -= 1
        else:
            t -= 1
    return added / count


def dtw_error(pairs: Pairs, free_ends: bool) -> float:
    costs = torch.cdist(pairs.target, pairs.source).square().double().numpy()
    found = np.stack([warping_path(cost, free_ends) for cost in costs])
    return float(np.abs(found - pairs.warp.numpy()).mean())


def model_error(model: Aligner, pairs: Pairs) -> float:
    with torch.no_grad():
        return float((model(pairs) - pairs.warp).abs().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--tasks", nargs="*", default=["whole", "cropped"], choices=["whole", "cropped"])
    parser.add_argument("--out", type=Path, default=Path("out/warp.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = known(arguments)
    done = {(row["cropped"], row["seed"]) for row in rows}
    for cropped in (task == "cropped" for task in arguments.tasks):
        for seed in (seed for seed in arguments.seeds if (cropped, seed) not in done):
            held_out = random_pairs(HELD_OUT, cropped, torch.Generator().manual_seed(seed))
            line = torch.linspace(0, SOURCE - 1, TARGET).expand_as(held_out.warp)
            errors = {
                "diagonal": float((line - held_out.warp).abs().mean()),
                "dynamic time warping": dtw_error(held_out, False),
                "dynamic time warping, free ends": dtw_error(held_out, True),
            }
            for kind in MODELS:
                started = time.process_time()
                model = fit(kind, cropped, arguments.steps, arguments.batch, seed)
                errors[kind] = model_error(model, held_out)
                print(f"cropped={cropped} seed={seed} {kind}: {errors[kind]:.3f} "
                      f"({time.process_time() - started:.0f} s)", flush=True)  # fmt: skip
            rows.append({"cropped": cropped, "seed": seed, "error": errors})
            write(arguments, rows)
    report(rows, PARAMETERS)


def settings(arguments: argparse.Namespace) -> dict[str, float]:
    return {
        "steps": arguments.steps, "batch": arguments.batch, "held_out": HELD_OUT, "noise": NOISE, "speed": SPEED,
        "crop": CROP, "source": SOURCE, "target": TARGET, "channels": CHANNELS, "features": FEATURES,
    }  # fmt: skip


def known(arguments: argparse.Namespace) -> list[dict]:
    """Existing results of the same settings, so that a run can be interrupted."""
    found = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    return found["results"] if found.get("settings") == settings(arguments) else []


def write(arguments: argparse.Namespace, rows: list[dict]) -> None:
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    temporary = arguments.out.with_suffix(f".{os.getpid()}")
    rows = sorted(rows, key=lambda row: (row["cropped"], row["seed"]))
    found = {"settings": settings(arguments), "parameters": PARAMETERS, "results": rows}
    temporary.write_text(json.dumps(found, indent=1) + "\n")
    temporary.replace(arguments.out)


def report(rows: list[dict], parameters: dict[str, int]) -> None:
    print(f"\n{'mean error in source steps':32s} {'parameters':>10s} {'whole target':>22s} {'cropped target':>22s}")
    for name in (*UNTRAINED, *MODELS):
        cells = []
        for cropped in (False, True):
            found = [row["error"][name] for row in rows if row["cropped"] == cropped]
            cells.append(f"{np.mean(found):.3f} [{min(found):.3f}, {max(found):.3f}]" if found else "–")
        print(f"{name:32s} {parameters.get(name, 0):10d} {cells[0]:>22s} {cells[1]:>22s}")


if __name__ == "__main__":
    main()
