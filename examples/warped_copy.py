"""Can clocks recover the warp between two sequences, one a warped and noisy copy of the other?

    python examples/warped_copy.py --out warped_copy.png

A small convolutional network computes the features that drive each clock. It is trained on random pairs to rebuild the
target from the source through clock attention; it never sees a warp. The figure shows a held-out pair.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from torch import Tensor, nn

from clock_attention import clock_attention
from clock_attention.alignment import measure_quality
from clock_attention.clocks import normalized_clock, rational

CHANNELS = 12
NOISE = 0.05  # standard deviation; the sequences themselves have 1
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#7F7F7F"  # Okabe–Ito: distinct to colour-blind eyes


@dataclass
class Pairs:
    """Random sources, their warped copies, and the warp (hidden from the fit)."""

    source: Tensor  # (B, T, C)
    target: Tensor  # (B, S, C)
    warp: Tensor  # (B, S): where in the source each target step was taken from, in source steps


def smooth_noise(shape: tuple[int, ...], width: int, generator: torch.Generator) -> Tensor:
    """Gaussian noise of unit variance, smoothed along the last dimension."""
    kernel = torch.exp(-0.5 * (torch.arange(-3 * width, 3 * width + 1) / width) ** 2)
    noise = torch.randn(*shape[:-1], shape[-1] + 6 * width, generator=generator)
    smoothed = F.conv1d(noise.flatten(0, -2)[:, None], kernel[None, None] / kernel.norm())
    return smoothed.reshape(shape)


def random_pairs(count: int, target_steps: int, source_steps: int, generator: torch.Generator) -> Pairs:
    source = smooth_noise((count, CHANNELS, source_steps), 3, generator)  # (B, C, T)
    speed = torch.exp(0.6 * smooth_noise((count, target_steps - 1), max(2, target_steps // 8), generator))
    warp = F.pad(speed.cumsum(-1), (1, 0))
    warp = warp / warp[:, -1:] * (source_steps - 1)  # (B, S)
    left = warp.long().clamp(max=source_steps - 2)
    index = left[:, None].expand(-1, CHANNELS, -1)
    target = torch.lerp(source.gather(2, index), source.gather(2, index + 1), (warp - left)[:, None])
    noisy = [x + NOISE * torch.randn(x.shape, generator=generator) for x in (source, target)]
    return Pairs(noisy[0].transpose(1, 2), noisy[1].transpose(1, 2), warp)


class ClockFeatures(nn.Module):
    """Features of a few neighbouring steps; their rate drives the clock."""

    def __init__(self, width: int = 48, channels: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(CHANNELS, width, 5, padding=2, padding_mode="replicate"),
            nn.GELU(),
            nn.Conv1d(width, width, 1),
            nn.GELU(),
            nn.Conv1d(width, channels, 5, padding=2, padding_mode="replicate"),
        )
        self.log_scale = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x.transpose(1, 2)).transpose(1, 2)[:, None]  # (B, L, C) → (B, 1, L, D): one head

    def attend(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """The target rebuilt from source values (B, S, C), and the attention weights (B, S, T)."""
        query, key, value = self(pairs.target), self(pairs.source), pairs.source[:, None]
        # The portable implementation needs no compilation, which would take longer than this training.
        output, weights = clock_attention(query, key, value, logit_scale=self.log_scale.exp(), impl="portable")
        assert weights is not None
        return output[:, 0], weights[:, 0]


def fit(steps: int, batch: int, target_steps: int, source_steps: int, seed: int) -> ClockFeatures:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    features = ClockFeatures()
    optimizer = torch.optim.Adam(features.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.02, total_steps=steps)
    for _ in range(steps):
        pairs = random_pairs(batch, target_steps, source_steps, generator)
        rebuilt, _ = features.attend(pairs)
        loss = F.mse_loss(rebuilt, pairs.target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return features


def expected_position(weights: Tensor) -> Tensor:
    """The recovered warp: Σ_t t A[s, t].  (B, S, T) → (B, S)"""
    return weights @ torch.arange(weights.shape[-1], dtype=weights.dtype)


def straight_line(warp: Tensor) -> Tensor:
    """The baseline: both sequences at an even pace."""
    return torch.linspace(0, 1, warp.shape[-1]) * warp[:, -1:]


def mean_error(guess: Tensor, warp: Tensor) -> Tensor:
    """Mean distance from the true warp, in source steps.  (B,)"""
    return (guess - warp).abs().mean(-1)


def clocks_of(features: Tensor) -> np.ndarray:
    """The normalized clocks that attention compared.  (1, 1, L, D) → (L, D)"""
    valid = torch.ones(1, features.shape[2], dtype=torch.bool)
    return normalized_clock(features, valid, rational, "surrogate", eps=1e-6)[0][0, 0].numpy()


def draw(pairs: Pairs, features: ClockFeatures) -> Figure:
    """Sequences, clocks, attention map, and recovered against true warp of the first pair."""
    with torch.no_grad():
        _, weights = features.attend(pairs)
        target_clock, source_clock = clocks_of(features(pairs.target[:1])), clocks_of(features(pairs.source[:1]))
    recovered, warp, line = expected_position(weights), pairs.warp, straight_line(pairs.warp)
    error, guess = mean_error(recovered, warp)[0].item(), mean_error(line, warp)[0].item()
    target_steps, source_steps = weights.shape[1:]
    steps = np.arange(target_steps)

    figure = Figure(figsize=(12.5, 6.6), layout="constrained", dpi=150)
    grid = figure.add_gridspec(2, 3, width_ratios=(1, 5.2, 6), height_ratios=(1, 4.6))
    right = grid[:, 2].subgridspec(2, 1)
    attention = figure.add_subplot(grid[1, 1])
    above = figure.add_subplot(grid[0, 1], sharex=attention)
    beside = figure.add_subplot(grid[1, 0], sharey=attention)
    clock_axes, warp_axes = (figure.add_subplot(cell) for cell in right)

    sequence = {"aspect": "auto", "cmap": "PuOr", "vmin": -3, "vmax": 3, "interpolation": "nearest"}
    above.imshow(pairs.target[0].T.numpy(), **sequence)
    above.set(title="Target: a warped, noisy copy", yticks=[], ylabel="channels")
    above.tick_params(labelbottom=False)
    beside.imshow(pairs.source[0].numpy(), **sequence)
    beside.set(title="Source", xticks=[], xlabel="channels", ylabel="source step t")

    image = attention.imshow(
        weights[0].T.numpy(), aspect="auto", origin="lower", cmap="Blues", norm=PowerNorm(0.5), interpolation="nearest"
    )
    attention.plot(steps, warp[0], color=VERMILION, linewidth=1, linestyle=(0, (4, 3)), label="true warp")
    attention.set(xlabel="target step s", title="Attention: where the clocks are likely to meet")
    attention.tick_params(labelleft=False)
    attention.legend(loc="upper left", frameon=False)
    figure.colorbar(image, ax=attention, label="attention weight", pad=0.01, aspect=40)

    for clock, colour, name in ((target_clock, BLUE, "target"), (source_clock, VERMILION, "source")):
        share = np.linspace(0, 1, len(clock))
        clock_axes.plot(share, clock, color=colour, linewidth=0.5, alpha=0.25)
        clock_axes.plot(share, clock.mean(1), color=colour, linewidth=2.2, label=name)
    carried = np.interp(warp[0].numpy(), np.arange(source_steps), source_clock.mean(1))
    share = np.linspace(0, 1, target_steps)
    clock_axes.plot(share, carried, color="black", linewidth=1, linestyle="--", label="source along the true warp")
    clock_axes.set(
        title="Clocks: channels (thin) and their mean", xlabel="share of the sequence", ylabel="clock reading λ"
    )
    clock_axes.legend(loc="upper left", frameon=False)

    warp_axes.plot(steps, line[0], color=GREY, linewidth=1, linestyle=":", label=f"even pace (off by {guess:.1f})")
    warp_axes.plot(steps, warp[0], color=VERMILION, linewidth=4, alpha=0.45, label="true warp")
    warp_axes.plot(steps, recovered[0], color=BLUE, linewidth=1.5, label="recovered: expected position")
    warp_axes.set(
        title=f"Recovered warp: off by {error:.2f} of {source_steps} source steps on average",
        xlabel="target step s",
        ylabel="source step t",
    )
    warp_axes.legend(loc="upper left", frameon=False)
    for axes in (clock_axes, warp_axes):
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0.01)
    return figure


def save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}.{path.name}")  # keeps the ending, which names the format
    try:
        figure.savefig(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def main(arguments: Sequence[str] | None = None) -> tuple[float, float]:
    """Returns the mean warp error over unseen pairs, and that of the straight line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("warped_copy.png"), help="figure to write (png, pdf, svg)")
    parser.add_argument("--fit-steps", type=int, default=500, help="optimizer steps (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=8, help="random pairs per step (default: %(default)s)")
    parser.add_argument("--target-steps", type=int, default=140, help="default: %(default)s")
    parser.add_argument("--source-steps", type=int, default=90, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    options = parser.parse_args(arguments)

    started = time.perf_counter()
    features = fit(options.fit_steps, options.batch, options.target_steps, options.source_steps, options.seed)
    print(f"fitted {options.fit_steps} steps in {time.perf_counter() - started:.1f} s, without ever seeing a warp")

    # Held-out pairs: a seed that training does not use.
    unseen = torch.Generator().manual_seed(options.seed + 1)
    pairs = random_pairs(32, options.target_steps, options.source_steps, unseen)
    with torch.no_grad():
        _, weights = features.attend(pairs)
    errors = mean_error(expected_position(weights), pairs.warp)
    guesses = mean_error(straight_line(pairs.warp), pairs.warp)
    print(f"mean warp error, the pair drawn:   {errors[0]:5.2f} source steps (even pace: {guesses[0]:.2f})")
    print(f"mean warp error, 32 unseen pairs:  {errors.mean():5.2f} source steps (even pace: {guesses.mean():.2f})")
    quality = measure_quality(weights[0])
    print(f"its attention: {quality.expected_violations} steps back, coverage {quality.coverage:.0%}")
    save(draw(pairs, features), options.out)
    print(f"figure: {options.out}")
    return errors.mean().item(), guesses.mean().item()


if __name__ == "__main__":
    torch.set_num_threads(1)  # these tensors are too small to share out
    main()
