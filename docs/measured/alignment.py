"""Tables of alignment: recordings, timestamps, warped sequences, several scales."""

from __future__ import annotations

import statistics

from measured.writing import bracketed, interval, made, over_seeds, read, table


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
