"""Which voice should fine-tuning begin with? Makes one speaker's voice from several bases and with several seeds.

Each is made by `voice create`, so the same command continues an interrupted run.

    python benchmarks/base_voices.py LJSpeech-1.1 --consent "LJSpeech, public domain" --steps 300 --seeds 0 1 2 3 \
        --base default --base voices/duo --base kathleen --prompts harvard_720.txt --work runs/bases \
        --out results/base_voices.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from clock_attention.files import write_atomically
from clock_attention.own_voice.create import create
from clock_attention.own_voice.order import Order

KEPT = ("wer", "distillmos", "dnsmos", "similarity", "movement", "bins", "variance", "skips", "repeats")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", type=Path, help="folder as for `clock-attention voice create`")
    parser.add_argument("--consent", required=True)
    parser.add_argument("--base", action="append", required=True, help="name or folder of a voice; may be repeated")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--prompts", type=Path, required=True, help="text file with one sentence a line")
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--work", type=Path, default=Path("runs/bases"), help="folder for the voices")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    rows = []
    for seed in arguments.seeds:
        for base in arguments.base:
            name = Path(base).name
            order = Order(
                arguments.recordings,
                arguments.work / f"{name}_{seed}",
                arguments.consent,
                base=base,
                steps=arguments.steps,
                seed=seed,
                prompts=arguments.prompts,
                count=arguments.sentences,
                workers=1,
                threads=1,
            )
            found = create(order, quiet=True)["evaluate"]
            rows.append({"base": name, "seed": seed} | {key: found[key] for key in KEPT if key in found})
            print(rows[-1], flush=True)
            settings = {"prompts": arguments.prompts.name, "sentences": arguments.sentences, "steps": arguments.steps}
            write_atomically(arguments.out, json.dumps({"settings": settings, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
