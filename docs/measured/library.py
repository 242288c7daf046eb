"""Tables of the library: speed and memory of the kernels, causal copying, theory, fuzzing, GPUs."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from measured.writing import made, read, table


def copy_rows(name: str) -> str:
    rows = read(name)
    settings = ("variant", "steps", "learning_rate")
    lines = []
    for setting in dict.fromkeys(tuple(row[key] for key in settings) for row in rows):
        runs = [row for row in rows if tuple(row[key] for key in settings) == setting]

        def cells(key: str, join: Callable[[list[float]], str], runs: list[dict[str, Any]] = runs) -> str:
            return " / ".join(join([run[factor][key] for run in runs]) for factor in ("1x", "2x", "4x"))

        variant, steps, rate = setting
        counts = (cells(key, lambda found: f"{sum(found)}") for key in ("symbols", "skips", "repeats"))
        by_attention = (cells(key, lambda found: f"{sum(found)}") for key in ("attention_skips", "attention_repeats"))
        symbol_error = cells("symbol_error", lambda found: f"{statistics.mean(found):.3f}")
        boundaries = cells("alignment_error_frames", lambda found: f"{statistics.mean(found):.1f}")
        length = cells("length_ratio", lambda found: f"{statistics.mean(found):.2f}")
        symbols, skips, repeats = counts
        lines.append(
            [
                variant,
                f"{steps:,}",
                f"{rate:g}",
                len(runs),
                symbols,
                symbol_error,
                skips,
                repeats,
                *by_attention,
                boundaries,
                length,
            ]
        )
    head = ["variant", "steps", "learning rate", "seeds", "symbols", "symbol error", "skips", "repeats"]
    return table(
        [*head, "skips by attention", "repeats by attention", "alignment error, frames", "written ÷ true length"], lines
    )


@made
def causal_copy() -> str:
    return copy_rows("causal_copy")


@made
def causal_copy_tuning() -> str:
    return copy_rows("causal_copy_tuning")


def ratio(times: dict[str, list[float]], name: str) -> str:
    """Ratio of medians to SDPA with the quartiles of the ratios by repetition; * marks fewer than four repetitions."""
    if name not in times:
        return "–"
    ours, theirs = times[name], times["sdpa"]
    middle = statistics.median(ours) / statistics.median(theirs)
    if min(len(ours), len(theirs)) < 4:
        return f"{middle:.2g}*"
    low, _, high = statistics.quantiles([a / b for a, b in zip(ours, theirs, strict=False)], n=4)
    return f"{middle:.2f} [{low:.2f}–{high:.2f}]"


def direction(row: dict[str, Any]) -> str:
    return "forward + backward" if row["backward"] else "forward"


def attention_rows(kind: str) -> list[dict[str, Any]]:
    return [row for row in read("attention")["results"] if row["kind"] == kind]


def milliseconds(times: list[float]) -> str:
    value = 1e3 * statistics.median(times)
    return f"{value:.1f} ms" if value < 100 else f"{value:.0f} ms"


@made
def attention() -> str:
    rows = (
        [
            row["shape"].replace("x", " × "),
            direction(row),
            milliseconds(row["seconds"]["sdpa"]),
            *(ratio(row["seconds"], name) for name in ("reference", "portable")),
            f"**{ratio(row['seconds'], 'banded')}**",
            f"{row['error']['banded']:.0e}",
        ]
        for row in attention_rows("random")
    )
    head = ["B × H × S × T × D", "direction", "SDPA", "reference ÷ SDPA", "portable ÷ SDPA", "**banded ÷ SDPA**"]
    return table([*head, "max error of banded"], rows)


@made
def attention_content() -> str:
    rows = []
    for row in read("content")["results"]:
        times, shape = row["seconds"], row["shape"].replace("x", " × ")
        for name in times:
            if not name.startswith("banded + content "):
                continue
            growth = [a / b for a, b in zip(times[name], times["banded"], strict=True)]
            low, middle, high = statistics.quantiles(growth, n=4)
            rows.append(
                [
                    *(shape, direction(row), name.rpartition(" ")[2], ratio(times, "banded"), ratio(times, name)),
                    *(f"{middle:.2f} [{low:.2f}–{high:.2f}]", f"{row['error'][name]:.0e}"),
                ]
            )
    head = ["B × H × S × T × D", "direction", "content channels", "banded ÷ SDPA", "with content ÷ SDPA"]
    return table([*head, "with ÷ without", "max error"], rows)


@made
def attention_kinds() -> str:
    rows = read("attention")["results"]
    columns = list(dict.fromkeys((row["targets"], row["sources"], row["backward"]) for row in rows))
    found = {
        (row["kind"], row["targets"], row["sources"], row["backward"]): ratio(row["seconds"], "banded") for row in rows
    }
    head = ["clocks", *(f"{s} × {t}, {'f + b' if backward else 'f'}" for s, t, backward in columns)]
    kinds = dict.fromkeys(row["kind"] for row in rows)
    return table(head, ([kind, *(found.get((kind, *column), "") for column in columns)] for kind in kinds))


@made
def attention_memory() -> str:
    names = ("sdpa", "reference", "portable", "banded")
    rows = (
        [
            row["shape"].replace("x", " × "),
            direction(row),
            *(f"{row['peak_mib'][name]:.0f} MiB" if row["peak_mib"].get(name) is not None else "–" for name in names),
        ]
        for row in attention_rows("random")
    )
    return table(["B × H × S × T × D", "direction", "SDPA", *names[1:]], rows)


@made
def fuzzing() -> str:
    found = read("fuzz")
    rows = []
    for name in ("texts", "tensors", "voices", "vocoders", "wavs", "metadata", "requests", "speech_requests", "kills"):
        if name in found:
            row = found[name]
            outcomes = "; ".join(f"{word}: {count:,}" for word, count in row["outcomes"].items())
            outcomes = outcomes.replace("1 threads", "1 thread")
            failures = [row[word] for word in ("crash", "hang", "difference")]
            rows.append([f"`{name}`", f"{row['cases']:,}", row["seed"], *failures, outcomes])
    return table(["fuzzer", "cases", "seed", "crashes", "hangs", "differences", "outcomes"], rows)


@made
def simulation() -> str:
    found = read("simulation")
    columns = [found[name]["level, simulated, error, predicted"] for name in ("exp", "rational")]
    rows = []
    for (level, *exp), (_, *rational) in list(zip(*columns, strict=True))[::3]:
        cells = (
            f"{simulated:.2f} ± {error:.2f} % | {predicted:.2f} %" for simulated, error, predicted in (exp, rational)
        )
        rows.append([f"{level:.3f}", *cells])
    head = ["noise per step $\\sigma$", "exp: simulated", "exp: Eq. 4, true $K/\\mu^2$"]
    text = table([*head, "rational: simulated", "rational: Eq. 4, true $K/\\mu^2$"], rows)
    return text.replace("-", "−").replace("| −−− ", "| --- ")


@made
def forward_sum() -> str:
    found = read("forward_sum")["cpu_seconds"]
    rows = ([name, f"{1e3 * value:.0f} ms", f"{value / found['ctc_loss']:.2f}"] for name, value in found.items())
    return table(["loss", "CPU time", "÷ `ctc_loss`"], rows)


@made
def streaming() -> str:
    found = read("streaming")
    early, late = (f"{1e6 * found['medians_seconds'][name]:.0f} µs" for name in ("early", "late"))
    return table(["step 40", "step 4,000", "ratio"], [[early, late, f"{found['ratio']:.2f}"]])


@made
def gpu_interpreter() -> str:
    found = read("triton_interpreter")
    rows = [
        [
            {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}[dtype],
            f"{row['cases']:,}",
            f"{row['output_median']:.1e} / {row['output_max']:.1e}",
            f"{row['gradient_median']:.1e} / {row['gradient_max']:.1e}",
            f"{row['nearest_to_bounds'][0]['of_bound']:.2f}",
        ]
        for dtype, row in found["by_dtype"].items()
    ]
    rows.append(["all", f"{found['cases']:,}", "", "", f"{len(found['out_of_bounds'])} above 1"])
    head = [
        "dtype",
        "problems",
        "output error, median / largest",
        "gradient error",
        "largest error as a share of its bound",
    ]
    return table(head, rows)


@made
def gpu_resources() -> str:
    chips = {"sm_80": "A100 (sm_80)", "sm_90": "H100 (sm_90)", "sm_100": "B200 (sm_100)", "gfx942": "MI300 (gfx942)"}
    found = read("triton_resources")["rows"]
    rows = []
    for target, chip in chips.items():
        mine = [row for row in found if row["target"] == target]
        rows.append(
            [
                chip,
                f"{len(mine):,}",
                str(max(row["registers"] for row in mine)),
                f"{max(row['shared'] for row in mine) / 1024:.0f} KB",
                f"{sum(row['spilled'] for row in mine)} bytes",
                f"{min(row['occupancy'] for row in mine):.0%}",
            ]
        )
    head = ["chip", "variants", "most registers", "most shared memory", "spilled, all variants", "least occupancy"]
    return table(head, rows)
