"""How soon is a training run intelligible? WER of held-out sentences, validation L1 and alignment over CPU time.

    python benchmarks/learning_curve.py runs/small --prompts valid:runs/corpus --subset 50 \
        --checkpoints runs/small/snapshots/*.pt --out results/learning_curve

A run keeps only its last two checkpoints and the best, so copy those to be measured while it trains. Each is
synthesized, vocoded and recognized; L1 and alignment measures come from the log. Time is training time, without
validation. Writes OUT.json and OUT.png; earlier runs in the same OUT are kept and drawn as well.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from clock_attention.evaluation.pipeline.chain import ChainSpec
from clock_attention.evaluation.pipeline.session import Session, shared_mel
from clock_attention.evaluation.prompts import load_prompts
from clock_attention.evaluation.systems.opening import open_system
from clock_attention.evaluation.systems.systems import Length
from clock_attention.speech.training import checkpoints as checkpoint


def log_rows(run: Path) -> list[dict[str, float]]:
    with open(run / "log.csv", encoding="utf-8") as file:
        return [{key: float(value) for key, value in row.items() if value} for row in csv.DictReader(file)]


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    prompts = load_prompts(arguments.prompts, subset=arguments.subset, seed=arguments.seed)
    points = []
    for path in arguments.checkpoints:
        state = checkpoint.read(path)
        with ExitStack() as stack:
            system = open_system(str(arguments.run), Length(), str(path), stack, False)
            chain = ChainSpec(shared_mel([system]), arguments.vocoder, ("moonshine",), ())
            session = stack.enter_context(
                Session(chain, arguments.cache, seed=arguments.seed, console=Console(), workers=arguments.workers)
            )
            found = session.evaluate(system, prompts)
            assert found is not None
        score = found.scores["moonshine"].to_json()
        seconds, cpu_seconds = state["seconds"]
        points.append({"step": state["step"], "seconds": seconds, "cpu_seconds": cpu_seconds, **score})
        print(f"step {state['step']}, {cpu_seconds / 60:.0f} CPU min: WER {score['wer']}", flush=True)
    rows = log_rows(arguments.run)
    return {
        "run": arguments.run.name,
        "prompts": arguments.prompts,
        "sentences": len(prompts),
        "seed": arguments.seed,
        "recognizer": "moonshine",
        "points": sorted(points, key=lambda point: point["step"]),
        "validation": [row for row in rows if "valid_l1" in row],
    }


def draw(results: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    for result in results:
        points, rows = result["points"], result["validation"]
        minutes = [point["cpu_seconds"] / 60 for point in points]
        wer = [100 * point["wer"]["estimate"] for point in points]
        spread = [
            [abs(100 * point["wer"][side] - value) for point, value in zip(points, wer, strict=True)]
            for side in ("low", "high")
        ]
        axes[0].errorbar(minutes, wer, spread, fmt="o-", capsize=3, label=result["run"])
        for axis, name in ((axes[1], "valid_l1"), (axes[2], "align_skipped")):
            axis.plot([row["cpu_seconds"] / 60 for row in rows], [row[name] for row in rows], "o-", markersize=3)
    axes[0].set(title=f"WER, {results[0]['sentences']} held-out phrases", ylabel="%", ylim=(0, None))
    axes[1].set_title("validation L1")
    axes[2].set(title="phonemes never most attended", ylim=(0, None))
    axes[0].legend()
    for axis in axes:
        axis.set_xlabel("CPU time of training, minutes")
        axis.grid(alpha=0.3)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.png")
    figure.savefig(temporary, dpi=120)
    temporary.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--prompts", nargs="+", required=True)
    parser.add_argument("--subset", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoints", type=Path, nargs="+", required=True)
    parser.add_argument("--vocoder", default="hifigan")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=Path("runs/evaluation"))
    parser.add_argument("--out", type=Path, required=True, help="without suffix")
    arguments = parser.parse_args()
    result = measure(arguments)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    temporary = arguments.out.with_suffix(f".{os.getpid()}")
    kept = arguments.out.with_suffix(".json")
    before = json.loads(kept.read_text()) if kept.exists() else []
    results = sorted([*(one for one in before if one["run"] != result["run"]), result], key=lambda one: one["run"])
    temporary.write_text(json.dumps(results, indent=1))
    temporary.replace(kept)
    draw(results, arguments.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
