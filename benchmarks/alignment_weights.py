"""How good is the aligner where its search was not tuned? Leave one speaker of TIMIT out, eight times.

    python benchmarks/alignment_weights.py --timit DIR --work runs/weights --out results/alignment_weights.json

The search has a few parameters that were chosen on the development sentences: the weights of silence, change, clocks
and acoustics, the cost of skipping a sound, and how short a sound may be. Here settings are drawn at random from a
grid around them. For each speaker, the setting with the smallest mean error at word boundaries of the *other* speakers
is taken; what is reported is the error of each speaker under a setting that was chosen without that speaker. The
network's weights are the same throughout, and were not trained on any of TIMIT.

Settings that were measured are kept in `--work` and not measured again.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from alignment import RATE, Recording, phone_errors, phone_spans, summary, timit, word_errors, words_of

from clock_attention.files import write_atomically
from clock_attention.speech.aligner import Aligner
from clock_attention.speech.aligner import acoustics as acoustics_module
from clock_attention.speech.aligner import transcript as transcript_module
from clock_attention.speech.aligner.acoustics import Acoustics
from clock_attention.speech.aligner.emissions import Emissions

GRID: dict[str, tuple[float, ...]] = {
    "silence": (0.0, 1.0, 2.5, 4.0),
    "sharpness": (0.06, 0.12, 0.25, 0.5),
    "change": (0.5, 1.0, 2.0),
    "clock": (0.0, 0.8, 1.6),
    "omission": (5.0, 12.0, 30.0),
    "shortest vowel half": (1, 2, 3, 4),
    "shortest half": (1, 2, 3),
    "spectral change": (0.0, 0.5, 1.0, 2.0),
    "audible": (0.0, 0.15, 0.25, 0.4),
}
Setting = dict[str, float]
Errors = dict[str, dict[str, list[float]]]  # tier, recording


def drawn(count: int, seed: int) -> list[Setting]:
    rng = random.Random(seed)
    return [{name: rng.choice(values) for name, values in GRID.items()} for _ in range(count)]


def measured(aligner: Aligner, output: list[tuple[Recording, Emissions]], setting: Setting | None) -> Errors:
    """Errors of all recordings under a setting; None is the package's own setting."""
    errors: Errors = {"words": {}, "phones": {}}
    with ExitStack() as stack:
        if setting is not None:
            omitted = dict.fromkeys(transcript_module.OMITTED, setting["omission"])
            stack.enter_context(patch.object(transcript_module, "OMITTED", omitted))
            for name, key in (("SHORTEST_VOWEL_HALF", "shortest vowel half"), ("SHORTEST_HALF", "shortest half")):
                stack.enter_context(patch.object(transcript_module, name, int(setting[key])))
            stack.enter_context(patch.object(acoustics_module, "AUDIBLE", setting["audible"] or -np.inf))
        for recording, emissions in output:
            given = emissions if setting is None else weighted(emissions, setting)
            aligned = aligner.align_emissions(given, aligner.read(recording.text), len(recording.wave) / RATE)
            errors["words"][recording.name] = word_errors(recording.words, words_of(aligned))
            errors["phones"][recording.name] = phone_errors(recording.phones, phone_spans(aligned.phones))
    return errors


def weighted(emissions: Emissions, setting: Setting) -> Emissions:
    weights = emissions.weights.model_copy(
        update={name: setting[name] for name in ("silence", "sharpness", "change", "clock")}
    )
    known = emissions.acoustics
    assert known is not None
    acoustics = Acoustics(known.level, known.change * np.float32(setting["spectral change"]))
    return Emissions(emissions.log_probabilities, emissions.change_logits, emissions.log_prior, weights, acoustics)


def mean_error(errors: Errors, speakers: set[str]) -> float:
    return float(np.mean([x for name, row in errors["words"].items() if speaker(name) in speakers for x in row]))


def speaker(name: str) -> str:
    return name.split("/")[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timit", type=Path, required=True)
    parser.add_argument("--settings", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="where to write JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    aligner = Aligner.load()
    output = [(recording, aligner.emissions(recording.wave)) for recording in timit(options.timit)]
    options.work.mkdir(parents=True, exist_ok=True)

    def stored(name: str, setting: Setting | None) -> Errors:
        path = options.work / f"{name}.json"
        if path.exists() and (known := json.loads(path.read_text("utf-8")))["setting"] == setting:
            return known["errors"]
        errors = measured(aligner, output, setting)
        write_atomically(path, json.dumps({"setting": setting, "errors": errors}))
        print(f"{name}: mean {mean_error(errors, speakers):.2f} ms {setting}", flush=True)
        return errors

    speakers = {speaker(recording.name) for recording, _ in output}
    shipped = stored("shipped", None)
    settings = drawn(options.settings, options.seed)
    results = [stored(f"{options.seed}-{place}", setting) for place, setting in enumerate(settings)]
    chosen: dict[str, int] = {}
    held_out: Errors = {"words": {}, "phones": {}}
    for left_out in sorted(speakers):
        others = speakers - {left_out}
        chosen[left_out] = min(range(len(settings)), key=lambda place: mean_error(results[place], others))
        for tier, rows in results[chosen[left_out]].items():
            held_out[tier] |= {name: row for name, row in rows.items() if speaker(name) == left_out}
    means = [mean_error(errors, speakers) for errors in results]
    report: dict[str, Any] = {
        "recordings": len(output),
        "settings": len(settings),
        "seed": options.seed,
        "held out": {tier: summary(list(rows.values())) for tier, rows in held_out.items()},
        "shipped": {tier: summary(list(rows.values())) for tier, rows in shipped.items()},
        "chosen": [
            {"setting": settings[place], "speakers": count} for place, count in Counter(chosen.values()).items()
        ],
        "mean of settings": {"best": min(means), "median": float(np.median(means)), "worst": max(means)},
    }
    for name in ("held out", "shipped"):
        row = report[name]["words"]
        print(name, {key: round(value["value"], 2) for key, value in row.items() if key != "boundaries"})
    if options.out:
        write_atomically(options.out, json.dumps(report, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
