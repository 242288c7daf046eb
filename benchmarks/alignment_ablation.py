"""Do clocks help to find an alignment that nobody has shown? Content, clocks, and both, in a small setting.

    python benchmarks/alignment_ablation.py DATA/flite_rms.npz --out results/alignment_ablation.json

Speech of one of flite's voices, whose phone boundaries are known exactly and used for measuring only. A convolutional
encoder for phones and one for mel frames (20 ms), 64 features each; all variants have the same encoders, data, number
of steps and seeds, and learn from text and speech alone:

    content              forward-sum over cosines, a diagonal prior in the first third (RAD-TTS)
    clocks               clocks alone; frames are rebuilt from the phones that they attend to
    clocks in the loss   forward-sum over content + clocks
    clocks taught        content as in the first row; the clocks learn to agree with its posterior (never the other way
                         round) and are multiplied in for the alignment
    two scales           the same, with a clock inside each word, pinned at word boundaries that the posterior finds

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
from clock_attention.losses import agreement_loss, diagonal_log_prior, forward_sum_loss, monotone_posterior
from clock_attention.speech.aligner.features import FRAME_SECONDS, RATE, features
from clock_attention.speech.aligner.inventory import CLASSES

VARIANTS = ("content", "clocks", "clocks in the loss", "clocks taught", "two scales")
POOL = 4  # frames of 5 ms in a step
STEP_SECONDS = POOL * FRAME_SECONDS
WIDTH = 64


@dataclass
class Example:
    frames: Tensor  # (S, bins)
    phones: Tensor  # (T,)
    words: Tensor  # (T,) number of the stretch between two silences, or of eight phones, that a phone belongs to
    starts: np.ndarray  # (T,) seconds


@dataclass
class Batch:
    frames: Tensor  # (B, S, bins)
    phones: Tensor  # (B, T)
    words: Tensor  # (B, T)
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
        words = torch.arange(len(phones)) // 8
        found.append(Example(frames, phones, words, np.append(0.0, ends[:-1])))
        if len(found) == count:
            break
    return found


def batch_of(chosen: list[Example]) -> Batch:
    return Batch(
        pad_sequence([example.frames for example in chosen], batch_first=True),
        pad_sequence([example.phones for example in chosen], batch_first=True),
        pad_sequence([example.words for example in chosen], batch_first=True),
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
    """The word of each frame along the best path, and of each phone."""
    targets = torch.zeros(scores.shape[:2], dtype=torch.long)
    for row, (steps, tokens) in enumerate(zip(batch.targets.tolist(), batch.sources.tolist(), strict=True)):
        path = torch.from_numpy(monotone_path(scores[row, :steps, :tokens].detach()))
        targets[row, :steps] = batch.words[row, path]
        targets[row, steps:] = targets[row, steps - 1]
        batch.words[row, tokens:] = batch.words[row, tokens - 1]
    return targets, batch.words


def posterior_logits(model: Pair, variant: str, batch: Batch) -> Tensor:
    """What the alignment is read from (B, S, T)."""
    content, clocks, _ = model(batch)
    if variant == "content":
        return content
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
    prior = diagonal_log_prior(content, *lengths, width=0.1) if progress < 1 / 3 else 0.0
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
def errors(model: Pair, variant: str, held_out: list[Example]) -> np.ndarray:
    """Of the start of every phone but the first, in ms."""
    model.eval()
    out = []
    for example in held_out:
        logits = posterior_logits(model, variant, batch_of([example]))[0]
        path = monotone_path(logits)
        starts = np.searchsorted(path, np.arange(len(example.phones))) * STEP_SECONDS
        out.append(1000 * np.abs(starts - example.starts)[1:])
    return np.concatenate(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS))
    parser.add_argument("--sentences", type=int, default=240)
    parser.add_argument("--held-out", type=int, default=40)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    known = examples(options.data, options.sentences + options.held_out)
    training, held_out = known[: -options.held_out], known[-options.held_out :]
    rows: dict[str, Any] = {}
    for variant in options.variants:
        runs = []
        for seed in options.seeds:
            started = time.process_time()
            found = errors(fit(variant, training, options.steps, seed), variant, held_out)
            runs.append(
                {
                    "seed": seed,
                    "mean": float(found.mean()),
                    "median": float(np.median(found)),
                    "within 50 ms": float(100 * (found <= 50).mean()),
                    "CPU seconds": time.process_time() - started,
                }
            )
            print(variant, runs[-1], flush=True)
        rows[variant] = runs
        if options.out:
            report = {"steps": options.steps, "sentences": len(training), "held out": len(held_out), "variants": rows}
            options.out.write_text(json.dumps(report, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
