"""Tables of the speech experiment: word error rates of clocks, dot product and rivals."""

from __future__ import annotations

import csv
from typing import Any

from measured.writing import ROOT, interval, made, percent, points, read, table

PARALLEL = ("parallel-clock", "parallel-dot", "paper-clock", "paper-dot", "teacher")

AUTOREGRESSIVE = ("causal-clock", "autoregressive-dot", "printed-clock")

MPR = ("natural", *(f"MPR {frames}" for frames in range(3, 11)))

RECOGNIZERS = {"moonshine": "Moonshine", "whisper-tiny.en": "Whisper"}


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
        "default voice, autoregressive, half precision": "autoregressive decoder of the default voice (half precision)",
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
