"""Writes the tables of README.md and docs/ from the measurements in results/*.json, and the map of src/.

    python docs/tables.py            # after a new measurement: rewrites what lies between the markers
    python docs/tables.py --check    # fails if a page differs from the measurements; `make docs` runs it

A page marks the place with `<!-- made:NAME -->` and `<!-- /made -->`; NAME is a function of this file.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MARKED = re.compile(r"<!-- made:(?P<name>\w+) -->(?P<made>.*?)<!-- /made -->", re.DOTALL)
MADE: dict[str, Callable[[], str]] = {}

PARALLEL = ("parallel-clock", "parallel-dot", "paper-clock", "paper-dot", "teacher")
AUTOREGRESSIVE = ("causal-clock", "autoregressive-dot", "printed-clock")
MPR = ("natural", *(f"MPR {frames}" for frames in range(3, 11)))
RECOGNIZERS = {"moonshine": "Moonshine", "whisper-tiny.en": "Whisper"}


def made(function: Callable[[], str]) -> Callable[[], str]:
    MADE[function.__name__] = function
    return function


@cache
def read(name: str) -> Any:
    return json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def percent(rate: dict[str, float], digits: int = 2) -> str:
    estimate, low, high = (f"{100 * rate[key]:.{digits}f}" for key in ("estimate", "low", "high"))
    return f"{estimate}\u00a0% [{low},\u00a0{high}]"  # breaks only before the interval


def points(text: str) -> str:
    """-2.89 [-4.54, -1.52] → −2.9 [−4.5, −1.5]"""
    rounded = re.sub(r"[+-]?\d+\.\d+", lambda found: f"{float(found[0]):+.1f}", text)
    return rounded.replace("-", "−").replace(", ", ",\u00a0")


def interval(values: Sequence[float], digits: int = 2) -> str:
    estimate, low, high = (f"{value:.{digits}f}" for value in values)
    return f"{estimate} [{low}, {high}]"


def sweep(system: str, length: str) -> dict[str, Any]:
    return next(row for row in read("experiment")["sweep"] if (row["system"], row["length"]) == (system, length))


def difference(first: str, second: str, length: str, recognizer: str, rate: str = "WER") -> str:
    wanted = f"{first}, {length} − {second}, {length}"
    rows = read("experiment")["differences"]
    found = next(row for row in rows if (row["difference"], row["recognizer"]) == (wanted, recognizer))
    return points(found[f"{rate}, points"])


def short(length: str) -> str:
    return length.removeprefix("MPR ")


@made
def readme() -> str:
    names = {
        "parallel-clock": "**clock attention**, shared recipe",
        "parallel-dot": "dot product, shared recipe",
        "paper-clock": "**clock attention**, paper-like conditions",
        "paper-dot": "dot product, paper-like conditions",
        "teacher": "teacher's speech, time-stretched",
    }
    lengths = [f"MPR {frames}" for frames in (3, 4, 6, 8, 10)]
    rows = (
        [label, *(percent(sweep(name, length)["scores"]["moonshine"]["wer"], 1) for length in lengths)]
        for name, label in names.items()
    )
    return table(["mel frames per phoneme", *map(short, lengths)], rows)


def sweep_table(recognizer: str) -> str:
    rows = (
        [short(length), *(percent(sweep(system, length)["scores"][recognizer]["wer"]) for system in PARALLEL)]
        for length in MPR
    )
    return table(["frames per phoneme", *(f"`{name}`" for name in PARALLEL[:-1]), "teacher"], rows)


@made
def sweep_moonshine() -> str:
    return sweep_table("moonshine")


@made
def sweep_whisper() -> str:
    return sweep_table("whisper-tiny.en")


def differences_table(recognizer: str) -> str:
    pairs = (("parallel-clock", "parallel-dot"), ("paper-clock", "paper-dot"), ("parallel-clock", "teacher"))
    head = ["frames per phoneme", *(f"`{first}` − `{second}`" for first, second in pairs)]
    return table(head, ([short(length), *(difference(*pair, length, recognizer) for pair in pairs)] for length in MPR))


@made
def differences_moonshine() -> str:
    return differences_table("moonshine")


@made
def differences_whisper() -> str:
    return differences_table("whisper-tiny.en")


def skips_and_repeats(row: dict[str, Any]) -> str:
    found = row["alignment"]
    return f"{found['words_under_a_step']:.0f} / {found['word_repeats']:.0f}" if found else ""


@made
def skipped_words() -> str:
    systems = PARALLEL[:-1]
    rows = ([short(length), *(skips_and_repeats(sweep(system, length)) for system in systems)] for length in MPR)
    return table(["frames per phoneme", *(f"`{name}`" for name in systems)], rows)


@made
def autoregressive() -> str:
    rows = []
    for system in AUTOREGRESSIVE:
        row = next(row for row in read("experiment")["sweep"] if row["system"] == system)
        scores = row["scores"]
        rows.append(
            [
                f"`{system}`",
                "stops by itself" if row["length"] == "natural" else f"cut off at {short(row['length'])}",
                percent(scores["moonshine"]["wer"]),
                percent(scores["whisper-tiny.en"]["wer"]),
                percent(scores["moonshine"]["cer"]),
                skips_and_repeats(row),
                f"{row['alignment']['skipped']:.0f}",
            ]
        )
    head = ["system", "end", "WER, Moonshine", "WER, Whisper", "CER, Moonshine"]
    return table([*head, "words skipped / repeated", "phonemes never most attended"], rows)


@made
def autoregressive_differences() -> str:
    found = {
        (row["difference"], row["recognizer"]): row
        for row in read("experiment")["differences"]
        if row["difference"].startswith("causal-clock")
    }
    rows = []
    for name in dict.fromkeys(name for name, _ in found):
        cells = (
            points(found[name, recognizer][f"{rate}, points"]) for rate in ("WER", "CER") for recognizer in RECOGNIZERS
        )
        rows.append([name, *cells])
    head = [f"{rate}, {label}" for rate in ("WER", "CER") for label in RECOGNIZERS.values()]
    return table(["difference, points", *head], rows)


@made
def recipe() -> str:
    def wer(name: str, system: str) -> str:
        rows = read(name)["systems"] if name != "experiment" else read(name)["sweep"]
        found = next(row for row in rows if (row["system"], row["length"]) == (system, "natural"))
        return percent(found["scores"]["moonshine"]["wer"])

    stages = {
        "16,000 steps of plain L1": "plain_l1_200",
        "22,000 steps of plain L1": "plain_l1_22000",
        "22,000 steps, the last 6,000 with the time-warped L1": "experiment",
    }
    rows = ([stage, *(wer(name, system) for system in PARALLEL[:2])] for stage, name in stages.items())
    return table(["training", *(f"`{name}`" for name in PARALLEL[:2])], rows)


RIVALS = {
    "parallel-clock": "clock attention",
    "plain-larope": "LARoPE",
    "plain-uniform": "uniform upsampling",
    "parallel-dot": "dot product",
}


RIVALS_SWEPT = {
    "attention": "clock attention (voice `attention`)",
    "plain-larope": "LARoPE",
    "plain-uniform": "uniform upsampling",
}


def plain_l1(system: str) -> dict[str, Any]:
    """A system after 16,000 steps of plain L1, at natural length."""
    measured = [*read("plain_l1_200")["systems"], *read("rivals")["systems"]]
    return next(row for row in measured if (row["system"], row["length"]) == (system, "natural"))


@made
def rivals() -> str:
    curves = {"parallel-clock": "parallel-clock-plain-l1", "parallel-dot": "parallel-dot-plain-l1"}
    rows = []
    for name, label in RIVALS.items():
        scores, alignment = plain_l1(name)["scores"]["moonshine"], plain_l1(name)["alignment"]
        losses = (f"{valid_l1(curves.get(name, name), step):.3f}" for step in (4000, 8000, 16000))
        rows.append(
            [
                f"**{label}**" if name == "parallel-clock" else label,
                percent(scores["wer"]),
                percent(scores["cer"]),
                f"{alignment['word_repeats']:.0f}",
                f"{alignment['expected_violations']:,.0f}",
                " / ".join(losses),
            ]
        )
    losses_head = "validation L1 at step 4,000 / 8,000 / 16,000"
    head = ["cross-attention", "WER", "CER", "words repeated", "steps back", losses_head]
    return table(head, rows)


@made
def rivals_sweep() -> str:
    """Word error rate and words skipped / repeated of the rivals at every length."""
    found = {(row["system"], row["length"]): row for row in read("rivals_sweep")["systems"]}
    names = {name: label for name, label in RIVALS_SWEPT.items() if any(system == name for system, _ in found)}
    rows = []
    for length in dict.fromkeys(length for _, length in found):
        cells = [found.get((name, length)) for name in names]
        rows.append(
            [
                short(length),
                *(
                    f"{percent(row['scores']['moonshine']['wer'], 1)}; {skips_and_repeats(row)}" if row else ""
                    for row in cells
                ),
            ]
        )
    return table(["frames per phoneme", *names.values()], rows)


@made
def rivals_in_a_line() -> str:
    rates = ((label, plain_l1(name)["scores"]["moonshine"]["wer"]["estimate"]) for name, label in RIVALS.items())
    return ", ".join(f"{label} {100 * rate:.1f} %" for label, rate in rates)


def valid_l1(curve: str, step: int) -> float:
    with (ROOT / "results" / "curves" / f"{curve}.csv").open(encoding="utf-8") as file:
        return next(float(row["valid_l1"]) for row in csv.DictReader(file) if row["step"] == str(step))


@made
def all_prompts() -> str:
    rows = [
        [
            f"`{row['system']}`" if row["alignment"] else row["system"],
            short(row["length"]),
            percent(row["scores"]["moonshine"]["wer"]),
            percent(row["scores"]["moonshine"]["cer"]),
            skips_and_repeats(row),
        ]
        for row in read("all_prompts")["systems"]
    ]
    return table(["system", "frames per phoneme", "WER", "CER", "words skipped / repeated"], rows)


@made
def words_by_alignment() -> str:
    """Skips and repeats of both attentions on all prompts, as part of a sentence."""
    counts = {row["system"]: row["alignment"] for row in read("all_prompts")["systems"]}
    clock, dot = (
        [f"{counts[name][key]:.0f}" for key in ("words_under_a_step", "word_repeats")]
        for name in ("parallel-clock", "parallel-dot")
    )
    return f"skips {clock[0]} words and repeats {clock[1]}; dot product: {dot[0]} and {dot[1]}"


@made
def all_prompts_differences() -> str:
    rows = read("all_prompts")["differences"]
    return table(
        ["difference, points", "WER", "CER"],
        ([row["difference"], points(row["WER, points"]), points(row["CER, points"])] for row in rows),
    )


@made
def harvard() -> str:
    names = {
        "default": "voice `attention` (`parallel-clock`, half precision)",
        "default, plain L1 (16,000 steps)": "the same after 16,000 steps of plain L1",
        "default voice, autoregressive, half precision": "its autoregressive companion (half precision)",
        "causal-clock": "`causal-clock`, full precision",
        "teacher": "teacher",
    }
    rows = [
        [names.get(name, name), percent(row["scores"]["moonshine"]["wer"]), percent(row["scores"]["moonshine"]["cer"])]
        for name, row in read("harvard_natural")["systems"].items()
    ]
    return table(["system", "WER", "CER"], rows)


@made
def hard() -> str:
    rows = []
    for row in read("experiment")["hard"]:
        found = row["alignment"]
        counts = ("word_skips", "words_under_a_step", "word_repeats", "word_skips_in_mean")
        scores = [percent(row["scores"][name]["wer"]) for name in RECOGNIZERS]
        name = f"`{row['system']}`" if found else row["system"]
        rows.append([name, *(f"{found[key]:.0f}" if found else "" for key in counts), *scores])
    head = ["system", "never attended by any head", "less than one decoder step", "repeated"]
    return table([*head, "never top of the heads' mean", "WER, Moonshine", "WER, Whisper"], rows)


@made
def copy_synthesis() -> str:
    scores = read("experiment")["copy"][0]["scores"]
    return " and ".join(f"{percent(scores[name]['wer'])} ({label})" for name, label in RECOGNIZERS.items())


@made
def systems() -> str:
    rows = (
        [f"`{row['system']}`", row["corpus"], f"`{row['changes to the preset']}`", row["steps"], row["validation L1"]]
        for row in read("experiment")["systems"]
    )
    return table(["system", "corpora", "changes to preset `small-l1`", "step evaluated", "validation L1"], rows)


@made
def claims() -> str:
    rows = (
        [row["claim"], RECOGNIZERS.get(row["recognizer"], ""), row["measured"], row["verdict"]]
        for row in read("experiment")["claims"]
    )
    return table(["claim", "recognizer", "measured", "verdict"], rows)


@made
def learning_rates() -> str:
    runs = {(run["cross_attention"], run["learning_rate"]): run for run in read("rates")["runs"]}
    measures = ("valid_l1", "phonemes_never_most_attended")
    head = ["learning rate"] + [
        f"{attention}: {measure}"
        for attention in ("clock", "dot")
        for measure in ("validation L1", "phonemes per utterance never most attended")
    ]
    rows = []
    for rate in sorted({rate for _, rate in runs}):
        cells = (
            f"{runs[name, rate][key]:.{3 if key == 'valid_l1' else 1}f}"
            for name in ("clock", "dot")
            for key in measures
        )
        rows.append([f"{rate:g}", *cells])
    return table(head, rows)


@made
def learning_curve() -> str:
    run = next(run for run in read("learning_curve") if run["points"])
    rows = (
        [f"{point['step']:,}", f"{point['cpu_seconds'] / 60:.0f}", percent(point["wer"], 1)] for point in run["points"]
    )
    return table(["steps", "CPU minutes", "WER"], rows)


@made
def blur() -> str:
    names = {"L1": "L1", "warped": "time-warped L1", "movement": "movement"}
    rows = []
    for place in (0, -1):
        for measure, label in names.items():
            cells = [interval(values[place][measure]) for values in read("blur").values()]
            low, high = next(iter(read("blur").values()))[place]["tokens"]
            rows.append([f"{low} to {high}", label, *cells])
    return table(["tokens", "measure", *read("blur")], rows)


def bracketed(row: dict[str, float], digits: int = 1) -> str:
    return f"{row['value']:.{digits}f} [{row['low']:.{digits}f}, {row['high']:.{digits}f}]"


@made
def forced_alignment() -> str:
    found, chosen = read("alignment_timit"), read("alignment_weights")["held out"]
    ours, theirs = found["aligner"], found["pocketsphinx"]
    aligned = f"{ours['aligned']} of {found['recordings']}"
    rows = [["sentences aligned", aligned, aligned, f"{theirs['aligned']}", "all", "all"]]
    bars = {
        "mean": ("≤ 27 ms", "≤ 17 ms"),
        "median": ("≤ 14 ms", "≤ 10 ms"),
        "within 20 ms": ("≥ 62 %", "≥ 80 %"),
        "within 50 ms": ("≥ 90 %", "≥ 96 %"),
    }
    for measure, bar in bars.items():
        unit = "%" if "within" in measure else "ms"
        cells = [f"{bracketed(system['words'][measure])} {unit}" for system in (ours, chosen, theirs)]
        rows.append([f"word boundaries, {measure}", *cells, *bar])
    for measure, unit, goal in (("median", "ms", "–"), ("within 20 ms", "%", "≥ 80 %")):
        cells = [f"{bracketed(system['phones'][measure])} {unit}" for system in (ours, chosen)]
        rows.append([f"phone boundaries, {measure}", *cells, "–", "–", goal])
    if found.get("flite"):
        flite = found["flite"]["phones"]["median"]
        rows.append(
            ["phones of a flite voice not in training, median", f"{bracketed(flite)} ms", "–", "–", "≤ 8 ms", "≤ 5 ms"]
        )
    speed, other_speed = (f"{system['times real time, one core']:.0f} ×" for system in (ours, theirs))
    rows.append(["speed on one core, times real time", speed, "–", other_speed, "≥ 50 ×", "≥ 150 ×"])
    accuracy = f"{found['wrong text']['accuracy']:.1f} %"
    rows.append(["right and wrong texts distinguished", accuracy, "–", "–", "≥ 99 %", "–"])
    for name, row in found["changed text"].items():
        label = f"one word {name}: other words move by (median)"
        rows.append([label, f"{bracketed(row['median'])} ms", "–", "–", "< 20 ms", "–"])
    return table(
        ["measure", "this aligner", "search tuned on other speakers", "pocketsphinx", "required", "goal"], rows
    )


@made
def alignment_settings() -> str:
    found = read("alignment_weights")["mean of settings"]
    best, median, worst = (f"{found[name]:.1f}" for name in ("best", "median", "worst"))
    return f"{best} ms with the best of them, {median} with the median, {worst} with the worst"


@made
def alignment_adaptation() -> str:
    found = read("alignment_adaptation")
    rows = []
    for source, tiers in found.items():
        if not isinstance(tiers, dict):
            continue
        for tier in ("words", "phones"):
            for measure, row in tiers.get(tier, {}).items():
                unit = "%" if "within" in measure else "ms"
                difference = bracketed({**row, "value": row["difference"]}, 2)
                cells = [f"{row['before']:.1f} {unit}", f"{row['after']:.1f} {unit}", difference]
                rows.append([source, f"{tier}, {measure}", *cells])
    return table(["recordings", "measure", "before", "after", "difference"], rows)


@made
def alignment_ablation() -> str:
    found = read("alignment_ablation")
    rows = []
    for variant, runs in found["variants"].items():
        runs = sorted(runs, key=lambda run: run["seed"])
        cells = [" / ".join(f"{run[key]:.1f}" for run in runs) for key in ("mean", "median", "within 50 ms")]
        difference = found["minus content"].get(variant)
        rows.append([variant, *cells, bracketed(difference) if difference else "–"])
    return table(["variant", "mean, ms", "median, ms", "within 50 ms, %", "mean error minus content's, ms"], rows)


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
def readings() -> str:
    systems = read("readings")["list"]
    kinds = next(iter(systems.values()))["kinds"]
    rows = [[kind, *("{} / {}".format(*scored["kinds"][kind]) for scored in systems.values())] for kind in kinds]
    rows.append(
        [
            "**all**",
            *(
                percent(dict(zip(("estimate", "low", "high"), scored["share"], strict=True)), 1)
                for scored in systems.values()
            ),
        ]
    )
    return table(["kind", *systems], rows)


@made
def readings_ljspeech() -> str:
    systems = read("readings")["ljspeech"]
    shares = [
        percent(dict(zip(("estimate", "low", "high"), scored["share"], strict=True)), 1) for scored in systems.values()
    ]
    return table([f"{next(iter(systems.values()))['total']} lines", *systems], [["read as by the human", *shares]])


@made
def readings_work() -> str:
    measured = read("readings")["work"]
    columns = list(next(iter(measured.values())))
    rows = [[name, *(f"{seconds[column]:.2f}" for column in columns)] for name, seconds in measured.items()]
    return table(["text", *(f"{column} characters, s" for column in columns)], rows)


@made
def timestamps() -> str:
    ways = read("timestamps")["ways"]
    rows = []
    for name in ("as shipped", *[name for name in ways if name != "as shipped"][:5]):
        for part, found in ways[name].items():
            within = (f"{100 * found[key][0]:.0f} %" for key in ("within_20_ms", "within_50_ms"))
            times = (interval(found[key], 1) for key in ("median_ms", "mean_ms"))
            rows.append([name, part, *times, *within, f"{found['bias_ms'][0]:+.1f}"])
    return table(["method", "boundaries", "median, ms", "mean, ms", "≤ 20 ms", "≤ 50 ms", "bias, ms"], rows)


@made
def vocoder_speed() -> str:
    rows = (
        [row["frames"], f"{row['published']:.2f}", f"{row['ours']:.2f}", interval(row["ratio"]), f"{row['error']:.0e}"]
        for row in read("vocoder")
    )
    return table(["mel frames", "published module", "this package", "ratio [range]", "max difference of samples"], rows)


@made
def fuzzing() -> str:
    found = read("fuzz")
    rows = []
    for name in ("texts", "tensors", "voices", "vocoders", "wavs", "metadata", "requests", "speech_requests", "kills"):
        if name in found:
            row = found[name]
            outcomes = ", ".join(f"{word} {count:,}" for word, count in row["outcomes"].items())
            failures = [row[word] for word in ("crash", "hang", "difference")]
            rows.append([f"`{name}`", f"{row['cases']:,}", row["seed"], *failures, outcomes])
    return table(["fuzzer", "cases", "seed", "crashes", "hangs", "differences", "outcomes"], rows)


@made
def vocoder_quality() -> str:
    def cells(row: dict[str, Any]) -> list[str]:
        scores = [f"{row[key][0]:.2f} ± {row[key][1]:.2f}" for key in ("distillmos", "dnsmos", "pesq")]
        return [
            *scores,
            f"{row['stoi'][0]:.3f}",
            f"{100 * row['wer']:.1f} %",
            f"{row['cpu']:.3f}" if row["cpu"] else "–",
        ]

    rows = (
        [source, name, *cells(row)] for source, found in read("copy_synthesis").items() for name, row in found.items()
    )
    return table(["source", "vocoder", "DistillMOS", "DNSMOS", "PESQ", "STOI", "WER", "CPU s per s"], rows)


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
def speak() -> str:
    rows = read("speak")["text_to_mel"]
    paces = sorted({row["pace"] for row in rows})
    found = {(row["text"], row["pace"]): f"{row['of real time']:.4f}" for row in rows}
    texts = dict.fromkeys(row["text"] for row in rows)
    return table(["text", *(f"pace {pace:g}" for pace in paces)], ([t, *(found[t, p] for p in paces)] for t in texts))


@made
def voice_sound() -> str:
    return sound_of("default, pace 1")


@made
def teacher_sound() -> str:
    return sound_of("teacher")


@made
def sound() -> str:
    return sound_table("sound")


@made
def sound_flow() -> str:
    return sound_table("sound_flow")


@made
def cepstral_floor() -> str:
    found = read("cepstral_floor")["distances"]
    return table(["", *found], [["cepstral distance", *(interval(value) for value in found.values())]])


@made
def cepstral_breakdown() -> str:
    """Distance with true and predicted inputs, one row for each run."""
    keys = ("true", "own_energy", "own_pitch", "own_both", "all_own", "time", "bins")
    names = {"l1": "4,600 steps of L1 and cepstra", "adversarial": "then 1,700 with the discriminator"}
    rows = [[names[row["run"]], *(interval(row[key]) for key in keys)] for row in read("cepstral_breakdown")]
    heads = ["all true", "own energy", "own pitch", "both own", "all own, after DTW", "movement, time", "bins"]
    return table(["", *heads], rows)


def sound_table(name: str) -> str:
    names = {
        "default, pace 1": "default voice",
        "attention, pace 1": "voice `attention`",
        "voice-l1, pace 1": "L1 alone",
        "candidate, pace 1": "with the discriminator",
    }
    keys = ("distillmos", "dnsmos", "time", "bins", "variance", "cepstral_distance")
    rows = [
        [
            names.get(row["name"], row["name"].replace("voice-flow, pace 1", "flow")),
            percent(dict(zip(("estimate", "low", "high"), row["wer"], strict=True)), 1),
        ]
        + [interval(row[key]) for key in keys]
        + [f"{row['cpu_per_second']:.2f}" if row.get("cpu_per_second") else ""]
        for row in read(name)["rows"]
    ]
    heads = ["WER", "DistillMOS", "DNSMOS", "movement, time", "bins", "variance", "cepstral distance", "CPU s per s"]
    return table(["", *heads], rows)


@made
def own_voice() -> str:
    """Voices of one reader by the amount of recordings and the training time."""
    found = {(row["recorded"], row["trained"]): row for row in read("own_voice")["rows"]}
    recorded, trained = (sorted({key[place] for key in found}) for place in (0, 1))
    rows = [
        [
            f"{minutes:g} min",
            name,
            *(show(found[minutes, time]) if (minutes, time) in found else "" for time in trained),
        ]
        for minutes in recorded
        for name, show in (
            ("WER", lambda row: percent(dict(zip(("estimate", "low", "high"), row["wer"], strict=True)), 1)),
            ("DistillMOS", lambda row: interval(row["distillmos"])),
            ("similarity", lambda row: interval(row["similarity"])),
            ("movement / variance", lambda row: f"{row['movement']:.2f} / {row['variance']:.2f}"),
        )
    ]
    return table(["recorded", "", *(f"{time:g} minutes of one core" for time in trained)], rows)


@made
def kathleen() -> str:
    """The human voice compared with its reader's recordings, through the same vocoder."""
    row = read("kathleen")["row"]
    wer = percent(dict(zip(("estimate", "low", "high"), row["wer"], strict=True)), 1)
    ratio = row["similarity"][0] / row["similarity_copy"][0]
    lines = [
        ["WER, Moonshine tiny", wer, "", "≤ 6 %"],
        ["DistillMOS", interval(row["distillmos"]), interval(row["distillmos_copy"]), "≥ 3.5"],
        ["DNSMOS overall", interval(row["dnsmos"]), interval(row["dnsmos_copy"]), "≥ 2.9"],
        [
            "speaker similarity to the reader",
            interval(row["similarity"]),
            interval(row["similarity_copy"]),
            "≥ 0.85 times the recordings",
        ],
        ["ratio to the recordings", f"{ratio:.2f}", "1", "≥ 0.85"],
        ["movement in time / across bins", f"{row['movement']:.2f} / {row['bins']:.2f}", "1 / 1", "0.9 … 1.1"],
        ["variance", f"{row['variance']:.2f}", "1", "0.9 … 1.1"],
        ["words skipped / repeated, by the alignment", f"{row['skips']} / {row['repeats']}", "", "0 / 0"],
    ]
    return table(["", "voice `kathleen`", "her recordings through the vocoder", "goal"], lines)


@made
def sound_paces() -> str:
    ends = ("estimate", "low", "high")
    rows = [
        [row["name"], percent(dict(zip(ends, row["wer"], strict=True)), 1)]
        + [interval(row[key]) for key in ("distillmos", "dnsmos")]
        for row in read("sound_paces")["rows"]
    ]
    return table(["", "WER", "DistillMOS", "DNSMOS"], rows)


@made
def sound_bars() -> str:
    """One row for each measured part of benchmarks/sound_bars.py."""
    found, rows = read("sound_bars"), []

    def row(what: str, ours: object, theirs: object, vocoder: str) -> None:
        rows.append([what, ours, theirs, vocoder])

    if part := found.get("long"):
        name, ends = f"{part['sentences']} sentences of 100 … 200 phonemes in one piece", ("estimate", "low", "high")
        wers = [percent(dict(zip(ends, part[who]["wer"], strict=True)), 1) for who in ("voice", "teacher")]
        row(f"{name}: WER", *wers, part["vocoder"])
        row(
            f"{name}: DistillMOS", *(interval(part[who]["distillmos"]) for who in ("voice", "teacher")), part["vocoder"]
        )
    if part := found.get("questions"):
        for what, show in (
            ('final pitch, "?" minus ".", semitones', lambda one: interval(one["semitones"], 1)),
            ("pairs that rise by 2 semitones or more", lambda one: f"{one['at least 2']} of {one['of']}"),
        ):
            row(what, show(part["voice"]), show(part["teacher"]), part["vocoder"])
    if part := found.get("pauses"):
        silences = part["silences of 0.45 s and more"]
        row(f"silences of ≥ 0.45 s in {part['words']} words", silences["voice"], silences["teacher"], "")
        row(
            "punctuation marks with a pause of ≥ 0.1 s",
            f"{part['marks with a pause of 0.1 s']} of {part['marks']}",
            "",
            "",
        )
        inside = f"{part['word boundaries with a pause of 0.1 s']} of {part['word boundaries']}"
        row("word boundaries inside phrases with one", inside, "", "")
        row("longest pause inside a phrase", f"{1000 * part['longest pause inside a phrase, s']:.0f} ms", "", "")
        row("silent share of blanks between words", f"{part['silent share of blanks between words']:.2f}", "", "")
    if part := found.get("onsets"):
        for pace in ("1", "0.625"):
            late = part[f"pace {pace}"]["sound minus timestamp, ms"]
            shown = f"{late['median']:.0f} / {late['p95']:.0f} ms"
            row(f"first word audible after its timestamp, pace {pace}: median / 95 %", shown, "", part["vocoder"])
        ghosts = part["phantom you"]
        row(
            f'phantom "you" of {ghosts["of"]} (Moonshine with its voice detector)',
            ghosts["voice"],
            ghosts["teacher"],
            part["vocoder"],
        )
    if part := found.get("hard"):
        both = part["voice"], part["teacher"]
        row(
            f"difficult inputs: words without time in the alignment, of {both[0]['words']}",
            both[0]["words without time in the alignment"],
            "",
            part["vocoder"],
        )
        missed = (" / ".join(map(str, one["words missed"])) for one in both)
        row(f"words missed by {' / '.join(part['recognizers'])}", *missed, part["vocoder"])
        heard = (f"{one['missed by both']}; {one['and not heard as phones']}" for one in both)
        row("missed by both; of these, phones not found in their interval", *heard, part["vocoder"])
    if part := found.get("cost"):
        first = part["first audio, s (median, worst of 10)"]
        row("first audio of ten words, warm, one core", f"{first[0]:.2f} s", "", part["vocoder"])
        row("text to sound, CPU s per s", f"{part['CPU s per s']:.3f}", "", part["vocoder"])
        memory = f"{part['peak memory, MB']} / {part['peak memory after them, MB']} MB"
        row(f"peak memory, first phrases / after {part['utterances']} utterances", memory, "", part["vocoder"])
    return table(["", "default voice", "teacher", "vocoder"], rows)


def sound_of(name: str) -> str:
    """Opinion score and word error rate of a row of benchmarks/sound.py."""
    row = next(row for row in read("sound")["rows"] if row["name"] == name)
    mos, wer = row["distillmos"], [100 * value for value in row["wer"]]
    return f"{mos[0]:.2f} [{mos[1]:.2f}, {mos[2]:.2f}] and {wer[0]:.1f} % [{wer[1]:.1f}, {wer[2]:.1f}]"


def over_seeds(values: Sequence[float]) -> str:
    return interval((statistics.mean(values), min(values), max(values)))


SCALE_FORMS = {
    "one": "one scale, the paper's",
    "scores": "three resolutions, scores add",
    "rates": "three resolutions, rates add",
    "given": "segments given",
    "content": "one scale, content",
    "found": "segments found, clocks inside",
    "found_content": "segments found, clocks and content inside",
    "paths": "no clocks: monotone paths of the content",
}


def scale_table(what: str) -> str:
    rows, lines = read("scales")["results"], []
    lengths = sorted({row["length"] for row in rows})
    for form, name in SCALE_FORMS.items():
        found = [[row[what] for row in rows if (row["form"], row["length"]) == (form, n)] for n in lengths]
        growth = statistics.mean(found[-1]) / statistics.mean(found[0])
        lines.append([name, *map(over_seeds, found), f"× {growth:.2f}"])
    return table(["source steps", *map(str, lengths), f"{lengths[-1]} ÷ {lengths[0]}"], lines)


@made
def scales() -> str:
    return scale_table("error")


@made
def scale_widths() -> str:
    return scale_table("width")


@made
def warp() -> str:
    found = read("warp")
    names = found["results"][0]["error"]
    errors = {
        (name, cropped): over_seeds([row["error"][name] for row in found["results"] if row["cropped"] == cropped])
        for name in names
        for cropped in (False, True)
    }
    rows = ([name, found["parameters"].get(name, "–"), errors[name, False], errors[name, True]] for name in names)
    return table(["", "parameters", "whole target", "cropped target"], rows)


@made
def dubbing_files() -> str:
    files = read("dub")["slots"]
    head = ["", "cues", "spoken", "faster than 1.6", "empty", "overlapping", "pace: median, fastest"]
    head += ["wrong length / slot / frames", "phonemes without a frame"]
    rows = [
        [
            row["file"],
            row["cues"],
            row["spoken"],
            row["too_fast"],
            row["empty"],
            row["overlapping"],
            f"{row['median_pace']:.2f}, {row['fastest_pace']:.2f}",
            f"{row['wrong_length']} / {row['wrong_slots']} / {row['wrong_frames']}",
            row["phonemes_without_frame"],
        ]
        for row in files
    ]
    return table(head, rows)


@made
def dubbing_errors() -> str:
    found = read("dub")["heard"]
    rows = []
    for name, label in (("readable", "pace up to 1.3"), ("faster", "faster")):
        if name not in found:
            continue
        part = found[name]
        off = part["difference"]
        points_off = interval([100 * off[key] for key in ("estimate", "low", "high")], 1).replace("-", "−")
        rows.append([label, part["cues"], percent(part["slot"], 1), percent(part["natural"], 1), points_off])
    return table(["", "cues", "in the slot", "natural pace", "difference, points"], rows)


@made
def dubbing_long() -> str:
    found = read("dub_long")
    rows: list[list[object]] = []
    for name, run in zip(("until it was killed", "the same command again"), found["runs"], strict=True):
        quarter = [memory for finished, memory in run["memory"] if finished]  # of cues that are spoken
        early, late = (
            sorted(part)[len(part) // 2] for part in (quarter[: len(quarter) // 4], quarter[-len(quarter) // 4 :])
        )
        rows.append([name, f"{early:.0f}", f"{late:.0f}", f"{run['peak']:.0f}", f"{run['largest_process']:.0f}"])
    exact = "exact" if found["samples"] == found["samples_expected"] else "WRONG"
    head = ["MB", "median of the first quarter", "of the last quarter", "peak", "largest process"]
    summary = (
        f"{found['cues']:,} cues, {found['hours']:g} hours, {found['samples']:,} samples ({exact}); "
        f"{found['finished_before_the_kill']:,} cues were finished before the kill, {found['spoken_again']} of these "
        f"were spoken again; {found['summary']['skipped_phonemes']} phonemes without a frame."
    )
    return table(head, rows) + "\n\n" + summary


@made
def dubbing_words() -> str:
    found = read("dub")
    words, timeline = found["words"], found.get("timeline", {})
    rows: list[list[object]] = [
        ["random words with random durations", words["requests"], words["exact"], words["worst_frames"]],
        ["of these, asked to keep the total", words["total_asked"], words["total_kept"], "–"],
    ]
    if "words" in timeline:
        rows.append(
            [
                f"words of {timeline['recordings']} recordings, times by the aligner (within one frame)",
                timeline["words"],
                timeline["within_one_frame"],
                timeline["worst_frames"],
            ]
        )
    return table(["", "asked", "exact to the frame", "worst, frames"], rows)


@made
def dubbing_issues() -> str:
    names = ("pace", "sentences", "words", "skips", "repeats", "phonemes", "phonemes_without_frame")
    rows = [[row[name] for name in names] for row in read("dub")["issues"]]
    return table([name.replace("_", " ") for name in names], rows)


@made
def long_alignment() -> str:
    rows = []
    for found in read("long_alignment")["recordings"]:
        error, speed = found["error_ms"], 60 * found["minutes"] / found["processor_seconds"]
        rows.append(
            [
                f"{found['minutes']:.0f}",
                f"{found['words_found']:,} of {found['words']:,}",
                f"{error['median']:.1f} / {error['p95']:.0f} / {error['most']:.0f}",
                f"{error['of the last tenth, median']:.1f}",
                f"{found['processor_seconds']:.1f} s",
                f"{speed:.0f} ×",
                f"{found['peak_mb']:.0f} MB",
            ]
        )
    header = ["minutes", "words found", "error: median / 95 % / most, ms", "median in the last tenth, ms"]
    return table([*header, "processor time", "times real time", "memory, with torch"], rows)


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


def purpose(path: Path) -> str:
    """The first line of a module's docstring, as a cell of a table."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0].replace("|", "\\|")


@made
def source_files() -> str:
    """Every module of the package with its purpose, by folders; a module without a docstring is an error."""
    source, parts = ROOT / "src" / "clock_attention", []
    for folder in sorted({path.parent for path in source.rglob("*.py")}):
        rows = [[f"`{path.name}`", purpose(path)] for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
        if missing := [name for name, text in rows if not text]:
            raise ValueError(f"{folder}: {', '.join(missing)} without a docstring that says the purpose")
        name = folder.relative_to(source.parent).as_posix().removeprefix("clock_attention/")
        parts += [f"### `{name}`", purpose(folder / "__init__.py"), table(["file", "purpose"], rows)]
    return "\n\n".join(part for part in parts if part)


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


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def rewritten(text: str) -> str:
    def fill(found: re.Match[str]) -> str:
        value = MADE[found["name"]]()
        space = "\n\n" if "\n" in value else ""  # a table stands alone, a value stands in its line
        return f"<!-- made:{found['name']} -->{space}{value}{space}<!-- /made -->"

    return MARKED.sub(fill, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a page is out of date")
    check = parser.parse_args().check
    stale = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (new := rewritten(text)) != text:
            stale.append(page.relative_to(ROOT).as_posix())
            if not check:
                page.write_text(new, encoding="utf-8")
    if stale:
        print(("out of date, run `python docs/tables.py`: " if check else "rewritten: ") + ", ".join(stale))
        sys.exit(check)


if __name__ == "__main__":
    main()
