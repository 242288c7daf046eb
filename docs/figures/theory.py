"""Draws docs/figures/theory.png and writes results/simulation.json: the theory of clocks, checked by simulation.

python docs/figures/theory.py            # seed 0, 40,000 paths, about 20 s on one core
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from clock_attention import theory
from clock_attention.theory import EXP, RATIONAL, NoisyClock, OrnsteinUhlenbeck, WhiteNoise

BLUE, ORANGE, GREEN, GREY = "#2b6cb0", "#dd6b20", "#2f855a", "#4a5568"
CELLS = 64
SLOW_THEN_FAST = 0.9 * np.sin(2 * np.pi * (np.arange(CELLS) + 0.5) / CELLS - 2.2)  # the mean path η of panels a–c
WHITE = WhiteNoise(0.01)
MEMORY = OrnsteinUhlenbeck(np.sqrt(0.01 / (2 * 4.0)), 4.0)  # the same ∫C, remembered for 4 steps


def draw_clocks(axes: Axes, rng: np.random.Generator) -> None:
    noise = OrnsteinUhlenbeck(0.35, 4.0)
    clock = NoisyClock(SLOW_THEN_FAST, RATIONAL, noise)
    mean, deviation = clock.mean(), np.sqrt(clock.variance())
    axes.fill_between(clock.positions, mean - 2 * deviation, mean + 2 * deviation, color=BLUE, alpha=0.18, lw=0)
    axes.plot(clock.positions, clock.sample(rng, 14).clocks.T, color=GREY, lw=0.6, alpha=0.7)
    axes.plot(clock.positions, mean, color=BLUE, lw=2)
    axes.plot([], [], color=GREY, lw=0.8, label="sampled clocks")
    axes.plot([], [], color=BLUE, lw=6, alpha=0.4, label=r"mean clock $\pm\,2\sqrt{A(s)}$, closed form")
    axes.set(title="a  Clocks in noise with memory", xlabel="step $s$", ylabel=r"reading $\lambda_s$")


def draw_variance(axes: Axes, rng: np.random.Generator, paths: int) -> None:
    for noise, colour, name in ((WHITE, BLUE, "white"), (MEMORY, ORANGE, "exponential, $\\tau=4$")):
        clock = NoisyClock(SLOW_THEN_FAST, RATIONAL, noise)
        simulated = clock.sample(rng, paths).variance()
        low, high = simulated.interval()
        shown = slice(2, -1, 4)
        axes.plot(clock.positions, 1e5 * clock.variance(), color=colour, lw=1.8, label=f"exact $A(s)$, {name}")
        axes.errorbar(
            clock.positions[shown],
            1e5 * simulated.value[shown],
            yerr=1e5 * np.stack([simulated.value - low, high - simulated.value])[:, shown],
            fmt="o",
            ms=3.5,
            color=colour,
            mfc="white",
            capsize=2,
            lw=1,
        )
    rate, slope = RATIONAL.value(SLOW_THEN_FAST), RATIONAL.slope(SLOW_THEN_FAST)
    constant = WHITE.intensity * np.mean(slope**2) / np.mean(rate) ** 2
    positions = np.arange(CELLS + 1.0)
    surrogate = theory.surrogate_variance(positions, CELLS, constant)
    axes.plot(positions, 1e5 * surrogate, color=GREY, lw=1.4, ls="--", label="surrogate, Eq. 4")
    axes.errorbar([], [], yerr=[], fmt="o", ms=3.5, color=GREY, mfc="white", label="simulation, 95 %")
    axes.set(
        title="b  Variance of a reading", xlabel="step $s$", ylabel=r"$10^5\,\mathrm{Var}\,\lambda_s$", ylim=(0, 5.0)
    )


def draw_meeting(axes: Axes, rng: np.random.Generator, paths: int) -> None:
    noise = OrnsteinUhlenbeck(0.15, 8.0)
    x = NoisyClock(SLOW_THEN_FAST, RATIONAL, noise)
    y = NoisyClock(0.5 * np.cos(2 * np.pi * np.arange(96) / 96), EXP, noise)
    x_clocks, y_clocks = x.sample(rng, paths).clocks, y.sample(rng, paths).clocks
    for s, colour in ((28, BLUE), (38, GREEN), (48, ORANGE)):
        offset, variance = x.mean()[s] - y.mean(), x.variance()[s] + y.variance()
        bandwidth = 0.25 * np.sqrt(variance.min())  # of either curve alike, so it adds no bias
        near = (np.abs(offset) < 3.5 * np.sqrt(variance)) & (variance > 0)
        t = y.positions[near]
        fine = np.linspace(t[0], t[-1], 200)
        curve = theory.meeting_kernel(
            np.interp(fine, y.positions, offset), np.interp(fine, y.positions, variance) + bandwidth**2
        )
        axes.plot(fine, curve, color=colour, lw=1.8)
        axes.annotate(f"$s={s}$", (fine[curve.argmax()], curve.max()), (0, 4), textcoords="offset points", ha="center")
        estimate = theory.meeting_density(x_clocks[:, s, None], y_clocks[:, near], bandwidth)
        low, high = estimate.interval()
        axes.errorbar(
            t[::3],
            estimate.value[::3],
            yerr=(high - low)[::3] / 2,
            fmt="o",
            ms=3.5,
            color=colour,
            mfc="white",
            capsize=2,
        )
    axes.plot([], [], color=GREY, lw=1.8, label="closed form")
    axes.errorbar([], [], yerr=[], fmt="o", ms=3.5, color=GREY, mfc="white", label="simulation, 95 %")
    axes.set(title="c  Where two clocks meet", xlabel="step $t$ of the other clock", ylabel=r"$K_{\mathrm{meet}}(s,t)$")
    axes.set_ylim(0, axes.get_ylim()[1] * 1.25)


def draw_breakdown(axes: Axes, rng: np.random.Generator, paths: int) -> dict[str, object]:
    """Even clocks (η = 0) in white noise of standard deviation σ per step, read in the middle; returns the points."""
    points: dict[str, object] = {}
    axes.axhspan(-10, 10, color="#e2e8f0", lw=0)
    axes.axhline(0, color=GREY, lw=0.8)
    fine = np.geomspace(0.05, 1.6, 300)
    for phi, colour in ((EXP, ORANGE), (RATIONAL, BLUE)):
        linear_constant = float(phi.slope(np.array(0.0)) / phi.value(np.array(0.0))) ** 2
        predicted = np.array(
            [theory.stationary_rate(phi, WhiteNoise(level**2)).noise_to_rate / level**2 for level in fine]
        )
        predicted = 100 * (predicted / linear_constant - 1)
        axes.plot(fine, predicted, color=colour, lw=1.4, label=rf"Eq. 4 with the true $K/\mu^2$, $\phi$ {phi.name}")
        rows = []
        for level in np.geomspace(0.05, 1.6, 13):
            clock = NoisyClock(np.zeros(CELLS), phi, WhiteNoise(level**2))
            excess = clock.sample(rng, paths).excess_variance()
            middle = clock.variance()[CELLS // 2]
            relative, error = 100 * excess.value[CELLS // 2] / middle, 196 * excess.error[CELLS // 2] / middle
            axes.errorbar(level, relative, yerr=error, fmt="o", ms=3.5, color=colour, mfc="white", capsize=2, lw=1)
            rows.append([level, relative, error, np.interp(level, fine, predicted)])
        end = fine[np.argmax(np.abs(predicted) > 10)]
        points[phi.name] = {"linear_10_percent_off_at": end, "level, simulated, error, predicted": rows}
        edge = 10 * np.sign(predicted[-1])
        axes.plot([end, end], [0, edge], color=colour, lw=1)
        axes.annotate(
            rf"10 % at $\sigma={end:.2f}$",
            (end, edge),
            (-6, 8 * np.sign(edge)),
            textcoords="offset points",
            ha="right",
            va="center",
            color=colour,
        )
    axes.errorbar([], [], yerr=[], fmt="o", ms=3.5, color=GREY, mfc="white", label="simulation, 95 %")
    axes.set(
        title="d  Where linearization stops holding",
        xlabel=r"noise per step, $\sigma$",
        ylabel=r"$\mathrm{Var}\,\lambda_s\,/\,A(s) - 1$   (%)",
        xscale="log",
        ylim=(-75, 105),
    )
    axes.set_xticks([0.05, 0.1, 0.2, 0.5, 1.0], ["0.05", "0.1", "0.2", "0.5", "1"])
    axes.minorticks_off()
    return points


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--paths", type=int, default=40_000)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".png"))
    parser.add_argument("--results", type=Path, default=Path(__file__).parents[2] / "results" / "simulation.json")
    options = parser.parse_args()

    rng = np.random.default_rng(options.seed)
    plt.rcParams.update(
        {"font.size": 9, "axes.titlesize": 10.5, "axes.titleweight": "bold", "axes.titlelocation": "left",
         "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False, "legend.fontsize": 8}
    )  # fmt: skip
    figure, ((top_left, top_right), (bottom_left, bottom_right)) = plt.subplots(
        2, 2, figsize=(9.6, 7.2), layout="constrained"
    )
    draw_clocks(top_left, rng)
    draw_variance(top_right, rng, options.paths)
    draw_meeting(bottom_left, rng, options.paths)
    points = draw_breakdown(bottom_right, rng, options.paths)
    for axes in (top_left, top_right, bottom_left, bottom_right):
        axes.legend(loc="upper left")
    unfinished = options.out.with_suffix(".part.png")
    figure.savefig(unfinished, dpi=130)
    os.replace(unfinished, options.out)
    unfinished = options.results.with_suffix(".part")
    unfinished.write_text(json.dumps({"seed": options.seed, "paths": options.paths, **points}, indent=1) + "\n")
    os.replace(unfinished, options.results)


if __name__ == "__main__":
    main()
