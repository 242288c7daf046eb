"""Train the aligner that comes with the package: `python benchmarks/aligner_training.py DATA --out MODEL`.

DATA is a folder of shards from `aligner_speech.py`. Shards with exact boundaries teach from the first step; the others
join after `--join` steps with the boundaries that the model finds by then, and are realigned every `--realign` steps
(hard EM). Interrupted runs continue from the last checkpoint.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from pathlib import Path

import numpy as np
import torch

from clock_attention.speech.aligner import AlignmentError
from clock_attention.speech.aligner.aligner import Aligner
from clock_attention.speech.aligner.augmentation import augmented
from clock_attention.speech.aligner.features import FRAME_SECONDS, RATE
from clock_attention.speech.aligner.network import AlignerConfig, AlignerNet, save_model
from clock_attention.speech.aligner.phone_classes import STATES
from clock_attention.speech.aligner.search_weights import SearchWeights
from clock_attention.speech.aligner.training import Labels, labels_from_phones, loss, targets

CROP = 4.0  # seconds of every example
# For human speech and a network mostly trained on synthetic voices; see docs/results/forced_alignment.md.
SEARCH = SearchWeights(silence=2.5, sharpness=0.12)


class Shard:
    def __init__(self, path: Path, weight: float) -> None:
        data = np.load(path)
        self.name = path.stem
        self.weight = weight
        self.wave, self.samples, self.texts = data["wave"], data["samples"], data["texts"]
        phones, classes, ends = data["phones"], data["classes"], data["ends"].astype(np.float64)
        self.labels: list[Labels | None] = [
            labels_from_phones(classes[a:b], ends[a:b]) if b > a else None for a, b in itertools.pairwise(phones)
        ]
        self.exact = len(classes) > 0

    def __len__(self) -> int:
        return len(self.texts)

    def audio(self, item: int) -> np.ndarray:
        return self.wave[self.samples[item] : self.samples[item + 1]].astype(np.float32) / 32768

    @property
    def usable(self) -> list[int]:
        return [item for item, labels in enumerate(self.labels) if labels is not None]

    def realign(self, aligner: Aligner, limit: int, rng: np.random.Generator) -> str:
        """Realign some utterances, and discard the boundaries that an earlier model found.

        Utterances whose text does not fit are left out.
        """
        started, scores = time.time(), []
        self.labels = [None] * len(self)
        for item in rng.permutation(len(self))[:limit]:
            try:
                self.labels[item], score = aligner.labels(self.audio(item), RATE, str(self.texts[item]))
                scores.append(score)
            except AlignmentError:
                self.labels[item] = None
        return f"{self.name}: {len(scores)} realigned, score {np.mean(scores):.3f}, {time.time() - started:.0f} s"


def batch_of(shards: list[Shard], size: int, rng: np.random.Generator) -> tuple[torch.Tensor, ...]:
    usable = [shard.usable for shard in shards]
    weights = np.array([shard.weight if items else 0.0 for shard, items in zip(shards, usable, strict=True)])
    frames = int(CROP / FRAME_SECONDS)
    xs, ys, cs = torch.zeros(size, frames, 64), torch.full((size, frames), -100), torch.full((size, frames), -1.0)
    for row, place in enumerate(rng.choice(len(shards), size, p=weights / weights.sum())):
        shard = shards[place]
        item = int(usable[place][rng.integers(len(usable[place]))])
        wave, labels = shard.audio(item), shard.labels[item]
        length = int(CROP * 1.2 * RATE)
        begin = int(rng.integers(0, max(len(wave) - length, 0) + 1))
        features, factor = augmented(wave[begin : begin + length], rng)
        y, c = targets(labels, len(features), FRAME_SECONDS / factor, begin / RATE)
        count = min(frames, len(features))
        xs[row, :count] = features[:count]
        ys[row, :count], cs[row, :count] = torch.from_numpy(y[:count]), torch.from_numpy(c[:count])
    return xs, ys, cs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--hold-out", default="slt", help="shards with this in their name are not used")
    parser.add_argument("--weights", default="", help="NAME=WEIGHT,… where a shard is to count more or less")
    parser.add_argument("--steps", type=int, default=1800)
    parser.add_argument("--join", type=int, default=250)
    parser.add_argument("--realign", type=int, default=400)
    parser.add_argument("--realign-count", type=int, default=250, help="utterances of a shard realigned at a time")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    weights = dict(pair.split("=") for pair in options.weights.split(",") if pair)
    paths = [path for path in sorted(options.data.glob("*.npz")) if options.hold_out not in path.stem]
    shards = [Shard(path, float(weights.get(path.stem, 1.0))) for path in paths]
    config = AlignerConfig(width=options.width, hidden=2 * options.width, search=SEARCH)
    model = AlignerNet(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, weight_decay=0.01, betas=(0.9, 0.98))
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
    counts, step = np.ones(STATES), 0
    checkpoint = options.out / "checkpoint.pt"
    options.out.mkdir(parents=True, exist_ok=True)
    if checkpoint.exists():
        stored = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(stored["model"])
        optimizer.load_state_dict(stored["optimizer"])
        average.load_state_dict(stored["average"])
        counts, step = stored["counts"].numpy(), stored["step"]
        rng = np.random.default_rng(options.seed + step)
        print(f"going on from step {step}", flush=True)

    def store() -> None:
        log_prior = np.log(counts / counts.sum())
        average.module.config = config.model_copy(update={"log_prior": tuple(log_prior.round(4).tolist())})
        save_model(options.out, average.module)
        torch.save(
            {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "average": average.state_dict(),
                "counts": torch.from_numpy(counts),
                "step": step,
            },
            checkpoint,
        )

    started, losses, first = time.time(), [], True
    while step < options.steps:
        if step >= options.join and (first or step % options.realign == 0 or step == options.join):
            store()
            aligner = Aligner(average.module)
            for shard in shards:
                if not shard.exact:
                    print(shard.realign(aligner, (2 if first else 1) * options.realign_count, rng), flush=True)
            first = False
            average.module.train()
        warmup = min(1.0, (step + 1) / 200)
        for group in optimizer.param_groups:
            group["lr"] = options.rate * warmup * 0.5 * (1 + math.cos(math.pi * min(step / options.steps, 1.0))) + 1e-5
        x, y, c = batch_of(shards, options.batch, rng)
        with torch.autocast("cpu", torch.bfloat16):
            states, change = model(x)
        lost = loss((states.float(), change.float()), y, c)
        optimizer.zero_grad()
        lost.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average.update_parameters(model)
        counts += np.bincount(y[y >= 0].numpy(), minlength=STATES)
        losses.append(lost.item())
        step += 1
        if step % 50 == 0:
            print(f"step {step}: loss {np.mean(losses[-50:]):.3f}, {time.time() - started:.0f} s", flush=True)
        if step % 100 == 0:
            store()
    store()


if __name__ == "__main__":
    main()
