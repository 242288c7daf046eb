"""Do clocks help to find an alignment without supervision? Content, clocks, and both, in a small setting.

    python benchmarks/alignment_ablation.py DATA/flite_rms.npz --out results/alignment_ablation.json

Speech of one of flite's voices, whose phone boundaries are known exactly and used for measuring only. A convolutional
encoder for phones and one for mel frames (20 ms), 64 features each; all variants have the same encoders, data, number
of steps and seeds, and learn from text and speech alone:

    content              forward-sum over cosines, a diagonal prior in the first third
    content and prior    the same with the prior to the end, in the alignment too (as RAD-TTS does)
    clocks               clocks alone; frames are rebuilt from the phones that they attend to
    clocks in the loss   forward-sum over content + clocks
    clocks taught        content as in the first row; the clocks learn to agree with its posterior (never the other way
                         round) and are multiplied in for the alignment
    two scales           the same, with a clock inside each stretch of eight phones, pinned where the posterior finds
                         its ends

The error is that of the starts of phones along the best monotone path, in ms, on held-out sentences; 20 ms frames alone
give 5 ms.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from clock_attention import clock_attention
from clock_attention.alignment import monotone_path
from clock_attention.files import write_atomically
from clock_attention.losses import agreement_loss, diagonal_log_prior, forward_sum_loss, monotone_posterior
from clock_attention.speech.aligner.features import FRAME_SECONDS, RATE, features
from clock_attention.speech.aligner.phone_classes import CLASSES

VARIANTS = ("content", "content and prior", "clocks", "clocks in the loss", "clocks taught", "two scales")
POOL = 4  # frames of 5 ms in a step
STEP_SECONDS = POOL * FRAME_SECONDS
WIDTH = 64
PRIOR_WIDTH = 0.1  # of the text
STRETCH = 8  # phones, about two words


@dataclass
class Example:
    frames: Tensor  # (S, bins)
    phones: Tensor  # (T,)
    stretches: Tensor  # (T,) number of the stretch of eight phones that a phone belongs to
    starts: np.ndarray  # (T,) seconds


@dataclass
class Batch:
    frames: Tensor  # (B, S, bins)
    phones: Tensor  # (B, T)
    stretches: Tensor  # (B, T)
    targets: Tensor  # (B,)
    sources: Tensor  # (B,)


def examples(path: Path, count: int) -> list[Example]:
    data = np.load(path)
    found = []
    for item, (a, b) in enumerate(itertools.pairwise(data["phones"])):
        wave = data["wave"][data["samples"][item] : data["samples"][item + 1]].astype(np.float32) / 32768
        if not 2 * RATE < len(wave) < 6 * RATE:
            continue
        mel = features(torch.from_numpy(wave))
        steps = len(mel) // POOL
        frames = mel[: steps * POOL].unflatten(0, (steps, POOL)).mean(1)
        ends = data["ends"][a:b].astype(np.float64)
        phones = torch.from_numpy(data["classes"][a:b].astype(np.int64))
        stretches = torch.arange(len(phones)) // STRETCH
        found.append(Example(frames, phones, stretches, np.append(0.0, ends[:-1])))
        if len(found) == count:
            break
    return found


def batch_of(chosen: list[Example]) -> Batch:
    return Batch(
        pad_sequence([example.frames for example in chosen], batch_first=True),
        pad_sequence([example.phones for example in chosen], batch_first=True),
        pad_sequence([example.stretches for example in chosen], batch_first=True),
        torch.tensor([len(example.frames) for example in chosen]),
        torch.tensor([len(example.phones) for example in chosen]),
    )


def encoder(channels: int, out: int) -> nn.Module:
    layers: list[nn.Module] = []
    for size in (channels, 128):
        layers += [nn.Conv1d(size, 128, 5, padding=2), nn.ReLU(), nn.GroupNorm(1, 128)]
    return nn.Sequential(*layers, nn.Conv1d(128, out, 1))


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(CLASSES), 64)
        self.text, self.speech = encoder(64, 2 * WIDTH), encoder(64, 2 * WIDTH)
        self.values = nn.Linear(64, 64)
        self.scales = nn.Parameter(torch.tensor([10.0, 1.0]).log())  # of the content, of the clocks

    def forward(self, batch: Batch, segments: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Content logits and clock logits (B, S, T), and the frames rebuilt along the clocks (B, S, bins)."""
        embedded = self.embedding(batch.phones)
        text = self.text(embedded.transpose(1, 2)).transpose(1, 2)
        speech = self.speech(batch.frames.transpose(1, 2)).transpose(1, 2)
        content_scale, clock_scale = self.scales.exp()
        first, second = (F.normalize(x[..., :WIDTH], dim=-1) for x in (speech, text))
        rebuilt, _, logits = clock_attention(
            speech[:, None, :, WIDTH:],
            text[:, None, :, WIDTH:],
            self.values(embedded)[:, None],
            beyond(batch.targets, batch.frames.shape[1]),
            beyond(batch.sources, batch.phones.shape[1]),
            segments=segments,
            logit_scale=clock_scale,
            return_weights=False,
            return_logits=True,
        )
        return content_scale * first @ second.mT, logits[:, 0], rebuilt[:, 0]


def beyond(lengths: Tensor, longest: int) -> Tensor:
    return torch.arange(longest) >= lengths[:, None]


def found_segments(scores: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """The stretch of each frame along the best path, and of each phone."""
    targets = torch.zeros(scores.shape[:2], dtype=torch.long)
    for row, (steps, tokens) in enumerate(zip(batch.targets.tolist(), batch.sources.tolist(), strict=True)):
        path = torch.from_numpy(monotone_path(scores[row, :steps, :tokens].detach()))
        targets[row, :steps] = batch.stretches[row, path]
        targets[row, steps:] = targets[row, steps - 1]
        batch.stretches[row, tokens:] = batch.stretches[row, tokens - 1]
    return targets, batch.stretches


def posterior_logits(model: Pair, variant: str, batch: Batch) -> Tensor:
    """Logits that the alignment is read from (B, S, T)."""
    content, clocks, _ = model(batch)
    if variant == "content":
        return content
    if variant == "content and prior":
        return content + diagonal_log_prior(content, batch.targets, batch.sources, width=PRIOR_WIDTH)
    if variant == "clocks":
        return clocks
    both = content.log_softmax(-1) + clocks.log_softmax(-1)
    if variant == "two scales":
        _, clocks, _ = model(batch, found_segments(both, batch))
        both = content.log_softmax(-1) + clocks.clamp(min=-1e4).log_softmax(-1)
    return both


def loss_of(model: Pair, variant: str, batch: Batch, progress: float) -> Tensor:
    lengths = batch.targets, batch.sources
    content, clocks, rebuilt = model(batch)
    if variant == "clocks":
        known = ~beyond(batch.targets, rebuilt.shape[1])
        return F.l1_loss(rebuilt[known], batch.frames[known])
    helped = variant == "content and prior" or progress < 1 / 3
    prior = diagonal_log_prior(content, *lengths, width=PRIOR_WIDTH) if helped else 0.0
    if variant == "clocks in the loss":
        return forward_sum_loss(content + clocks.clamp(min=-1e4) + prior, *lengths)
    loss = forward_sum_loss(content + prior, *lengths)
    if variant in ("clocks taught", "two scales"):
        taught = monotone_posterior((content + prior).detach(), *lengths)
        loss = loss + agreement_loss(clocks.clamp(min=-1e4), taught, *lengths)
        if variant == "two scales" and progress > 1 / 3:
            _, clocks, _ = model(batch, found_segments(taught.clamp(min=1e-9).log(), batch))
            loss = loss + agreement_loss(clocks.clamp(min=-1e4), taught, *lengths)
    return loss


def fit(variant: str, training: list[Example], steps: int, seed: int) -> Pair:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = Pair()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps)
    for step in range(steps):
        batch = batch_of([training[i] for i in rng.integers(0, len(training), 8)])
        loss = loss_of(model, variant, batch, step / steps)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model


@torch.no_grad()
def errors(model: Pair, variant: str, held_out: list[Example]) -> list[np.ndarray]:
    """Errors of the start of every phone but the first, in ms, for each sentence."""
    model.eval()
    out = []
    for example in held_out:
        logits = posterior_logits(model, variant, batch_of([example]))[0]
        path = monotone_path(logits)
        starts = np.searchsorted(path, np.arange(len(example.phones))) * STEP_SECONDS
        out.append(1000 * np.abs(starts - example.starts)[1:])
    return out


def measured(variant: str, seed: int, training: list[Example], held_out: list[Example], steps: int) -> dict[str, Any]:
    started = time.process_time()
    by_sentence = errors(fit(variant, training, steps, seed), variant, held_out)
    found = np.concatenate(by_sentence)
    return {
        "seed": seed,
        "mean": float(found.mean()),
        "median": float(np.median(found)),
        "within 50 ms": float(100 * (found <= 50).mean()),
        "CPU seconds": time.process_time() - started,
        "sentence means": [round(float(row.mean()), 2) for row in by_sentence],
    }


def differences(variants: dict[str, list[dict[str, Any]]], baseline: str) -> dict[str, dict[str, float]]:
    """Mean error of each variant minus the baseline's, sentence by sentence, averaged over the seeds that both have.

    95 % intervals from 1,000 bootstrap resamples of sentences, seed 0.
    """
    rng = np.random.default_rng(0)
    out = {}
    base = {run["seed"]: np.array(run["sentence means"]) for run in variants.get(baseline, [])}
    for name, runs in variants.items():
        pairs = [np.array(run["sentence means"]) - base[run["seed"]] for run in runs if run["seed"] in base]
        if name != baseline and pairs:
            by_sentence = np.mean(pairs, axis=0)
            draws = by_sentence[rng.integers(0, len(by_sentence), (1000, len(by_sentence)))].mean(1)
            low, high = np.percentile(draws, [2.5, 97.5])
            out[name] = {"value": float(by_sentence.mean()), "low": float(low), "high": float(high)}
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--sentences", type=int, default=240)
    parser.add_argument("--held-out", type=int, default=40)
    parser.add_argument("--out", type=Path, help="JSON; runs that are in it already are not repeated")
    options = parser.parse_args()
    torch.set_num_threads(1)
    known = examples(options.data, options.sentences + options.held_out)
    training, held_out = known[: -options.held_out], known[-options.held_out :]
    setting = {"data": options.data.stem, "steps": options.steps, "sentences": len(training), "held out": len(held_out)}
    rows: dict[str, list[dict[str, Any]]] = {}
    if options.out and options.out.exists():
        stored = json.loads(options.out.read_text("utf-8"))
        if {key: stored.get(key) for key in setting} != setting:
            raise SystemExit(f"{options.out}: holds runs of another setting, expected {setting}")
        rows = stored["variants"]
    for seed, variant in itertools.product(options.seeds, options.variants):
        runs = rows.setdefault(variant, [])
        if seed in [run["seed"] for run in runs]:
            continue
        runs.append(measured(variant, seed, training, held_out, options.steps))
        print(variant, {key: value for key, value in runs[-1].items() if key != "sentence means"}, flush=True)
        report = {**setting, "variants": rows, "minus content": differences(rows, "content")}
        if options.out:
            write_atomically(options.out, json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
