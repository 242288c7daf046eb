"""How much must I record, and how long must I train?

Fine-tunes a voice on parts of an aligned corpus of one speaker (`clock-attention corpus align`), for several amounts of
recordings and of CPU time, and measures each: word error rate, DistillMOS, DNSMOS, speaker similarity. Every
finished cell is kept, and the figure beside OUT is redrawn: the same command continues an interrupted run. Several may
run at once, with different --recorded or --trained and the same --work and --out.

    python benchmarks/own_voice.py --corpus runs/kathleen --prompts harvard_720.txt --work runs/own_voice \
        --recorded 10 82 --trained 10 30 --out results/own_voice.json

With --voice, measures a voice that exists against the recordings of its speaker instead:

    python benchmarks/own_voice.py --corpus runs/kathleen --prompts harvard_720.txt --skip 40 --sentences 60 \
        --voice kathleen --out results/kathleen.json
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clock_attention.evaluation.prompts import read_prompts
from clock_attention.files import replacing, write_atomically
from clock_attention.own_voice.fine_tuning import export_own_voice, fine_tuning_config
from clock_attention.own_voice.measure import measure
from clock_attention.speech.corpus.store import STD_FLOOR, FeatureStore
from clock_attention.speech.corpus.store_alignment import statistics
from clock_attention.speech.training.loop import train
from clock_attention.speech.training.transfer import Start
from clock_attention.speech.voice.from_run import start_from
from clock_attention.speech.voice.voice import Voice

TIMED_STEPS = 10
KEPT = (
    "wer",
    "distillmos",
    "dnsmos",
    "similarity",
    "similarity_copy",
    "movement",
    "bins",
    "variance",
    "skips",
    "repeats",
)


class Part(FeatureStore):
    """Some minutes of a store's training utterances, with their own statistics; validation and test are unchanged."""

    def __init__(self, whole: FeatureStore, minutes: float, seed: int = 0) -> None:
        super().__init__(whole.path, {**whole.header, "source": f"{minutes:g} minutes of {whole.header['source']}"})
        items = whole.split("train")
        order = np.random.default_rng(seed).permutation(len(items))
        limit = minutes * 60 * self.mel_config.frames_per_second
        chosen, total = [], 0
        for place in order:
            if total < limit:
                chosen.append(items[place])
                total += whole.utterances[items[place]].frames
        self.chosen = sorted(chosen)
        self.minutes = total / self.mel_config.frames_per_second / 60
        frames = torch.cat([whole.mel(item) for item in self.chosen])
        self.mean, self.std = frames.mean(0), frames.std(0).clamp(min=STD_FLOOR)
        found = statistics(self)
        self.header["prosody"] = found
        self.pitch_mean, self.pitch_std = found["pitch_mean"], found["pitch_std"]
        self.energy_mean, self.energy_std = found["energy_mean"], found["energy_std"]

    def split(self, name: str) -> list[int]:
        return self.chosen if name == "train" else super().split(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", required=True, type=Path, help="aligned feature store of one speaker")
    parser.add_argument("--prompts", required=True, help="text file with one sentence a line")
    parser.add_argument("--sentences", type=int, default=60)
    parser.add_argument("--skip", type=int, default=0, help="sentences of the drawn order that were used before")
    parser.add_argument("--recorded", type=float, nargs="+", default=[5, 10, 20, 40, 82], help="minutes")
    parser.add_argument("--trained", type=float, nargs="+", default=[10, 30, 60], help="minutes of one core")
    parser.add_argument("--base", default="default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--voice", help="measure this voice of the same speaker; nothing is trained")
    parser.add_argument("--vocoder", default="auto", help="with --voice")
    parser.add_argument("--work", type=Path, default=Path("runs/own_voice"), help="folder for runs and voices")
    parser.add_argument("--out", required=True, type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    whole, start = FeatureStore.open(arguments.corpus), start_from(arguments.base)
    texts = [prompt.text for prompt in read_prompts(arguments.prompts)]
    order = np.random.default_rng(arguments.seed).permutation(len(texts))[arguments.skip :][: arguments.sentences]
    texts = [texts[place] for place in order]
    settings = {
        "prompts": Path(arguments.prompts).name,
        "sentences": len(texts),
        "skip": arguments.skip,
        "seed": arguments.seed,
    }
    if arguments.voice:
        found = measure(
            Voice.load(arguments.voice), whole, texts, arguments.work / "samples", vocoder=arguments.vocoder
        )
        settings |= {"voice": arguments.voice, "vocoder": arguments.vocoder}
        row = {key: found[key] for key in (*KEPT, "distillmos_copy", "dnsmos_copy") if key in found}
        write_atomically(arguments.out, json.dumps({"settings": settings, "row": row}, indent=1))
        return
    cost = step_cost(arguments.work, whole, start)
    for trained in arguments.trained:  # the cheap ones first
        for recorded in arguments.recorded:
            rows = read_rows(arguments.out)
            if any(row["recorded"] == recorded and row["trained"] == trained for row in rows):
                continue
            row = cell(arguments.work, whole, start, recorded, trained, cost, texts)
            print(row, flush=True)
            rows = all_rows(arguments.out, arguments.work)
            write_atomically(arguments.out, json.dumps({"settings": settings, "rows": rows}, indent=1))
            draw(rows, arguments.out.with_suffix(".png"))


def cell(
    work: Path, whole: FeatureStore, start: Start, recorded: float, trained: float, cost: float, texts: list[str]
) -> dict[str, Any]:
    """Train, export and measure one voice."""
    name = f"{recorded:g}_{trained:g}"
    part = Part(whole, recorded)
    steps = max(1, round(60 * trained / cost))
    config = fine_tuning_config(start, steps).changed([f"validate_every={steps}", "pictures=0"])
    last = train(config, part, work / name / "run", start=start, resume=True)
    if last.stem != f"step-{steps:08d}":  # a signal ends training early, without an error
        raise SystemExit(f"{name}: stopped at {last.stem} of {steps} steps; the same command continues")
    export_own_voice(work / name / "run", work / name / "voice", part, start, licence="unknown")
    found = measure(Voice.load(work / name / "voice"), whole, texts, work / name / "samples")
    row = {"recorded": recorded, "trained": trained, "used_minutes": part.minutes, "steps": steps} | {
        key: found[key] for key in KEPT if key in found
    }
    write_atomically(work / name / "row.json", json.dumps(row))
    return row


def step_cost(work: Path, store: FeatureStore, start: Start) -> float:
    """CPU seconds of a step with the discriminator; measured once."""
    path = work / "step_cost.json"
    if not path.exists():
        run = work / "timing"
        config = fine_tuning_config(start, TIMED_STEPS + 1).changed(
            ["adversarial_from=0", "validate_every=1000", "pictures=0"]
        )
        train(config, store, run, start=start, resume=True, max_steps=1, quiet=True)
        started = time.process_time()
        train(config, store, run, resume=True, quiet=True)
        write_atomically(path, json.dumps((time.process_time() - started) / TIMED_STEPS))
    return float(json.loads(path.read_text()))


def read_rows(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text())["rows"] if path.exists() else []


def all_rows(out: Path, work: Path) -> list[dict[str, Any]]:
    """Rows in the file, and those that other processes have finished since."""
    finished = [json.loads(path.read_text()) for path in work.glob("*/row.json")]
    cells = {(row["trained"], row["recorded"]): row for row in [*read_rows(out), *finished]}
    return [cells[key] for key in sorted(cells)]


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Each measure over the minutes of recordings, one line for every training time."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = {
        "wer": ("word error rate, %", 100),
        "distillmos": ("DistillMOS", 1),
        "similarity": ("speaker similarity to the reader", 1),
    }
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for axis, (key, (title, factor)) in zip(axes, panels.items(), strict=True):
        for place, trained in enumerate(sorted({row["trained"] for row in rows})):
            chosen = [row for row in rows if row["trained"] == trained]
            minutes = np.array([row["recorded"] for row in chosen]) * 1.03 ** (place - 1)  # bars side by side
            estimate, low, high = factor * np.array([row[key] for row in chosen]).T
            spread = [estimate - low, high - estimate]
            axis.errorbar(minutes, estimate, spread, fmt="o-", capsize=3, label=f"{trained:g} minutes of one core")
        axis.set(title=title, xlabel="minutes of recordings", xscale="log")
        axis.set_xticks(
            sorted({row["recorded"] for row in rows}),
            labels=sorted({f"{row['recorded']:g}" for row in rows}, key=float),
        )
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0].set_ylim(0, None)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=120, format="png")


if __name__ == "__main__":
    main()
