"""Which causal clock? A copy task: symbols to noisy, time-warped frames, trained with teacher forcing, run freely.

Each symbol becomes a few frames around its own prototype, for a duration that depends on the symbol, on the tempo of
the sequence and on chance; transitions are smooth and noise is added. A small autoregressive decoder learns to produce
the frames, then runs freely on sequences of the training length and 2 and 4 times longer. The known prototypes identify
the symbols in its output, so skips, repeats and alignment errors can be counted. Causal clocks stop by themselves; the
other variants are given the true length.

    python examples/causal_copy.py --variants dot "unnormalized (printed)" causal   # a quarter of an hour on one core
    python examples/causal_copy.py                          # every variant, one table (an hour and a half)
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clock_attention import ClockAttention, decoding_over
from clock_attention.alignment import measure_quality, monotone_path, path_durations, path_from_weights

SYMBOLS, CHANNELS, WIDTH, LAYERS = 12, 16, 64, 2
MEAN_DURATIONS = np.linspace(4.0, 8.0, SYMBOLS)
PROTOTYPES = np.random.default_rng(7).standard_normal((SYMBOLS, CHANNELS)).astype(np.float32)
# Equal norms: transitions pass near silence, and would be read as a symbol that lies close to it.
PROTOTYPES *= CHANNELS**0.5 / np.linalg.norm(PROTOTYPES, axis=1, keepdims=True)
SILENCE, SILENT_FRAMES = SYMBOLS, 3  # at both ends of every sequence
PACE = float(MEAN_DURATIONS.mean())  # frames per symbol; 5.5 per token, counting both silences
LENGTHS = (6, 14)  # symbols, in training
PAD = SYMBOLS + 1
NOISE = 0.6  # on the frames fed to the decoder in training


@dataclass
class Example:
    symbols: np.ndarray  # (T,), neighbours differ, so that collapsing equal frames recovers the sequence
    frames: np.ndarray  # (S, CHANNELS)


def make_example(rng: np.random.Generator, length: int) -> Example:
    steps = rng.integers(1, SYMBOLS, length)
    symbols = (rng.integers(SYMBOLS) + np.cumsum(steps)) % SYMBOLS
    tempo = rng.uniform(0.75, 1.25)
    durations = np.maximum(3, np.round(MEAN_DURATIONS[symbols] * tempo * rng.uniform(0.8, 1.2, length))).astype(int)
    clean = np.pad(PROTOTYPES[symbols].repeat(durations, 0), ((SILENT_FRAMES, SILENT_FRAMES), (0, 0)))
    padded = np.pad(clean, ((1, 1), (0, 0)), "edge")
    smooth = 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]
    return Example(
        np.pad(symbols, 1, constant_values=SILENCE), smooth + 0.1 * rng.standard_normal(smooth.shape).astype(np.float32)
    )


def make_batch(rng: np.random.Generator, size: int, lengths: tuple[int, int]) -> list[Example]:
    return [make_example(rng, int(rng.integers(lengths[0], lengths[1] + 1))) for _ in range(size)]


def collate(batch: list[Example]) -> tuple[Tensor, Tensor, Tensor]:
    """Symbols (B, T), frames (B, S, C) and the mask of the padded frames (B, S)."""
    symbols = nn.utils.rnn.pad_sequence([torch.from_numpy(e.symbols) for e in batch], True, PAD)
    frames = nn.utils.rnn.pad_sequence([torch.from_numpy(e.frames) for e in batch], True)
    lengths = torch.tensor([len(e.frames) for e in batch])
    return symbols, frames, torch.arange(frames.shape[1]) >= lengths[:, None]


class DotAttention(nn.MultiheadAttention):
    """Scaled dot-product attention with the same signature; ignores the mask of the queries."""

    def forward(self, query, key, value, key_padding_mask=None, query_padding_mask=None, **options):  # type: ignore[no-untyped-def, override]
        return super().forward(query, key, value, key_padding_mask=key_padding_mask, **options)


def sinusoids(positions: Tensor) -> Tensor:
    """(…,) → (…, WIDTH)"""
    rates = 10000.0 ** -torch.linspace(0, 1, WIDTH // 2)
    angles = positions[..., None] * rates
    return torch.cat([angles.sin(), angles.cos()], -1)


class CausalConv(nn.Conv1d):
    """A convolution over the past: the decoder's only memory besides the attention, independent of the length."""

    def __init__(self) -> None:
        super().__init__(WIDTH, WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x.mT, (4, 0))).mT


class DecoderLayer(nn.Module):
    def __init__(self, attention: nn.Module | None) -> None:
        super().__init__()
        self.conv, self.attention = CausalConv(), attention
        self.feed = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))


# Options of a variant that concern the model around the attention; the rest goes to ClockAttention.
OURS = ("attention", "positions", "logit_scale_start", "heads", "meets")


class Copier(nn.Module):
    def __init__(self, variant: dict) -> None:
        super().__init__()
        self.positions = variant.get("positions", False)
        options = {k: v for k, v in variant.items() if k not in OURS}
        self.embedding = nn.Embedding(SYMBOLS + 2, WIDTH)
        self.encoder = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 3, padding=1) for _ in range(2))
        # Dropout keeps the decoder from copying its previous frames instead of attending to the source.
        halves = [nn.Linear(CHANNELS, WIDTH), nn.ReLU(), nn.Dropout(0.5), nn.Linear(WIDTH, WIDTH), nn.ReLU()]
        self.prenet = nn.Sequential(*halves, nn.Dropout(0.5))
        self.layers = nn.ModuleList()
        for layer in range(LAYERS):
            heads, attention = variant.get("heads", 2), None
            if layer not in variant.get("meets", range(LAYERS)):
                pass
            elif variant["attention"] == "dot":
                attention = DotAttention(WIDTH, heads, batch_first=True)
            else:
                attention = ClockAttention(WIDTH, heads, out_proj=True, clocks=variant["attention"], **options)
                if "logit_scale_start" in variant:  # learned, from here
                    nn.init.constant_(attention.logit_scale, variant["logit_scale_start"])
            self.layers.append(DecoderLayer(attention))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CHANNELS))

    def encode(self, symbols: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Keys with context, values without, and the padding.

        With context in the values, attention could be one symbol off without any loss.
        """
        padding = symbols == PAD
        value = x = self.embedding(symbols).masked_fill(padding[..., None], 0.0)
        for conv in self.encoder:
            x = (x + F.gelu(conv(x.mT).mT)).masked_fill(padding[..., None], 0.0)
        if self.positions:
            x = x + sinusoids(torch.arange(x.shape[1]).float())
        return x, value, padding

    def forward(
        self, memory: Tensor, value: Tensor, memory_padding: Tensor, previous: Tensor, padding: Tensor | None
    ) -> tuple[Tensor, list[Tensor], Tensor]:
        """Frames from the previous frames; also the attention of each layer and the end loss of its clocks."""
        x = self.prenet(previous)
        if self.positions:  # in units of symbols, so that queries and keys can agree on them
            x = x + sinusoids(torch.arange(x.shape[1]) / PACE)
        maps, end = [], x.new_zeros(())
        for layer in self.layers:
            x = x + F.gelu(layer.conv(layer.norms[0](x)))
            if layer.attention is None:
                x = x + layer.feed(layer.norms[2](x))
                continue
            query = layer.norms[1](x)
            out, weights = layer.attention(
                query,
                memory,
                value,
                key_padding_mask=memory_padding,
                query_padding_mask=padding,
                need_weights=not self.training,
            )
            if (
                padding is not None
                and isinstance(layer.attention, ClockAttention)
                and layer.attention.clocks == "causal"
            ):
                tokens = (~memory_padding).sum(-1)
                clock = layer.attention.target_clock(query, tokens, padding).mean((1, 3))  # (B, S)
                end = end + (clock.masked_fill(padding, 0.0).amax(1) - 1).abs().mean()
            x = x + out
            x = x + layer.feed(layer.norms[2](x))
            maps.append(weights)
        return self.head(x), maps, end

    def decode(self, symbols: Tensor, lengths: Tensor | None) -> tuple[list[Tensor], list[list[Tensor]]]:
        """Free running: frames and attention maps of each item. Without lengths, until every clock has run out."""
        memory, value, padding = self.encode(symbols)
        batch = len(symbols)
        meeting = [index for index, layer in enumerate(self.layers) if layer.attention is not None]
        states = {}
        if lengths is None:
            states = {i: self.layers[i].attention.start(memory, padding, value=value, margin=0.0) for i in meeting}
        history = [[torch.zeros(batch, 0, WIDTH)] for _ in self.layers]
        frames, maps = [torch.zeros(batch, CHANNELS)], {index: [] for index in meeting}
        stopped_at = torch.full((batch,), -1)
        while not (decoding_over(states[meeting[-1]]) if lengths is None else len(frames) > int(lengths.max())):
            if lengths is not None:  # no state: the whole prefix is processed again for every frame
                out, weights, _ = self(memory, value, padding, torch.stack(frames, 1), None)
                frames.append(out[:, -1])
                for index, weight in zip(meeting, weights, strict=True):
                    maps[index].append(weight[:, -1])
                continue
            x = self.prenet(frames[-1])
            for index, layer in enumerate(self.layers):
                history[index] = [*history[index][-5:], layer.norms[0](x)[:, None]]
                x = x + F.gelu(layer.conv(torch.cat(history[index], 1)[:, -5:])[:, -1])
                if index in states:
                    out, weight, states[index] = layer.attention.step(layer.norms[1](x), states[index])
                    x = x + out
                    maps[index].append(weight.mean(1))
                x = x + layer.feed(layer.norms[2](x))
            frames.append(self.head(x))
            ended = states[meeting[-1]].finished & (stopped_at < 0)
            stopped_at[ended] = len(frames) - 1
        counts = torch.where(stopped_at < 0, len(frames) - 1, stopped_at) if lengths is None else lengths
        written, stacked = torch.stack(frames[1:], 1), [torch.stack(maps[index], 1) for index in meeting]
        tokens = (~padding).sum(-1)
        return (
            [written[b, :n] for b, n in enumerate(counts.tolist())],
            [
                [layer[b, :n, :t] for layer in stacked]
                for b, (n, t) in enumerate(zip(counts.tolist(), tokens.tolist(), strict=True))
            ],
        )


@dataclass
class Score:
    """Totals over a set of sequences."""

    symbols: int = 0
    errors: int = 0
    skips: int = 0
    repeats: int = 0
    attention_skips: int = 0
    attention_repeats: int = 0
    boundary_errors: list[float] = field(default_factory=list)
    length_ratios: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, float]:
        return {
            "symbol_error": self.errors / self.symbols,
            "skips": self.skips,
            "repeats": self.repeats,
            "attention_skips": self.attention_skips,
            "attention_repeats": self.attention_repeats,
            "alignment_error_frames": float(np.mean(self.boundary_errors)),
            "length_ratio": float(np.mean(self.length_ratios)),
            "symbols": self.symbols,
        }


def score_one(score: Score, example: Example, frames: np.ndarray, attention: np.ndarray) -> None:
    """Identify the symbols in the output with the known prototypes and compare them with the truth."""
    centres = np.concatenate([PROTOTYPES, np.zeros((1, CHANNELS), np.float32)])
    distance = np.square(frames[:, None] - centres).sum(-1)  # (S, SYMBOLS + 1)
    nearest = distance.argmin(1)
    changes = np.flatnonzero(np.diff(nearest, prepend=-1))
    runs = np.diff(changes, append=len(nearest))
    read = [
        s for s, n in zip(nearest[changes], runs, strict=True) if n >= 2 and s != SILENCE
    ]  # one frame is a transition
    read = [s for i, s in enumerate(read) if i == 0 or s != read[i - 1]]
    substituted, deleted, inserted = edits(list(example.symbols[1:-1]), read)
    quality = measure_quality(attention)
    score.symbols += len(example.symbols) - 2
    score.errors += substituted + deleted + inserted
    score.skips += deleted
    score.repeats += inserted
    score.attention_skips += quality.skipped
    score.attention_repeats += quality.repeated
    score.length_ratios.append(len(frames) / len(example.frames))
    if len(frames) >= len(example.symbols):  # boundaries of what was written against those the attention claims
        produced = path_durations(monotone_path(-distance[:, example.symbols]), len(example.symbols))
        claimed = path_durations(path_from_weights(attention), len(example.symbols))
        score.boundary_errors.extend(np.abs(np.cumsum(produced)[:-1] - np.cumsum(claimed)[:-1]).tolist())


def edits(truth: list[int], read: list[int]) -> tuple[int, int, int]:
    """Substitutions, deletions and insertions of the cheapest edit script."""
    table = [[(j, 0, 0, j) for j in range(len(read) + 1)]]
    for i, expected in enumerate(truth, 1):
        row = [(i, 0, i, 0)]
        for j, got in enumerate(read, 1):
            cost, s, d, n = table[i - 1][j - 1]
            options = [(cost + (expected != got), s + (expected != got), d, n)]
            cost, s, d, n = table[i - 1][j]
            options.append((cost + 1, s, d + 1, n))
            cost, s, d, n = row[j - 1]
            options.append((cost + 1, s, d, n + 1))
            row.append(min(options))
        table.append(row)
    return table[-1][-1][1:]


CAUSAL = {"attention": "causal", "pace": PACE, "clock_width": 1, "logit_scale": 8.0, "heads": 1, "meets": (1,)}
LEARNED = {k: v for k, v in CAUSAL.items() if k != "logit_scale"}
WIDE = {**LEARNED, "clock_width": None}  # a clock on each of the head's 64 channels
VARIANTS: dict[str, dict] = {
    "dot": {"attention": "dot", "positions": True},
    "dot, one head in one layer": {"attention": "dot", "positions": True, "heads": 1, "meets": (1,)},
    "unnormalized (printed)": {"attention": "unnormalized", "positions": True},
    "unnormalized (printed), one head in one layer": {
        "attention": "unnormalized", "positions": True, "heads": 1, "meets": (1,)
    },
    "causal": CAUSAL,
    "causal, two heads in two layers": {**CAUSAL, "heads": 2, "meets": (0, 1)},
    "causal, logit scale 1": {**CAUSAL, "logit_scale": 1.0},
    "causal, logit scale 32": {**CAUSAL, "logit_scale": 32.0},
    "causal, logit scale learned from 4": {**LEARNED, "logit_scale_start": 4.0},
    "causal, rms norm": {**CAUSAL, "causal_norm": "rms"},
    "causal, cumulative norm": {**CAUSAL, "causal_norm": "cumulative"},
    "causal, diffusive variance": {**CAUSAL, "variance": "surrogate"},
    "causal, logarithm of the variance": {**CAUSAL, "log_variance_term": True},
    "causal, pace halved": {**CAUSAL, "pace": PACE / 2},
    "causal, no end loss": {**CAUSAL, "end_weight": 0.0},
    "causal, 64 channels": {**WIDE, "logit_scale": 4.0},
    "causal, 64 channels, channel norm": {**WIDE, "logit_scale": 4.0, "causal_norm": "channel"},
}  # fmt: skip


def run(name: str, steps: int, seed: int, test_size: int, test_seed: int, learning_rate: float) -> dict:
    """Train one variant, then run it freely on sequences of the training length and 2 and 4 times longer."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    variant = dict(VARIANTS[name])
    end_weight = variant.pop("end_weight", 0.1)
    model = Copier(variant)
    optimizer = torch.optim.AdamW(model.parameters(), learning_rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, steps, pct_start=0.1)
    started, recent = time.time(), []
    model.train()
    for step in range(steps):
        symbols, frames, padding = collate(make_batch(rng, 24, LENGTHS))
        previous = F.pad(frames[:, :-1], (0, 0, 1, 0))
        previous = previous + NOISE * torch.randn_like(previous)  # free running will not be perfect either
        predicted, _, end = model(*model.encode(symbols), previous, padding)
        loss = (predicted - frames).abs()[~padding].mean()
        optimizer.zero_grad()
        (loss + end_weight * end).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        recent.append(loss.item())
        if (step + 1) % 500 == 0:
            seconds = time.time() - started
            print(f"  {name}: step {step + 1}, L1 {np.mean(recent[-200:]):.4f}, {seconds:.0f} s", flush=True)
    result = {
        "variant": name,
        "seed": seed,
        "steps": steps,
        "learning_rate": learning_rate,
        "test_seed": test_seed,
        "seconds": time.time() - started,
        "l1": float(np.mean(recent[-200:])),
    }
    model.eval()
    with torch.no_grad():
        for factor in (1, 2, 4):
            score = Score()
            batch = make_batch(
                np.random.default_rng((test_seed, factor)), test_size, (LENGTHS[0] * factor, LENGTHS[1] * factor)
            )
            symbols, _, padding = collate(batch)
            stops_itself = variant["attention"] == "causal" and not variant.get("positions")
            frames, maps = model.decode(symbols, None if stops_itself else (~padding).sum(-1))
            for example, written, layers in zip(batch, frames, maps, strict=True):
                best = min(layers, key=lambda m: measure_quality(m).entropy)
                score_one(score, example, written.numpy(), best.numpy())
            result[f"{factor}x"] = score.summary()
    return result


COLUMNS = {
    "symbol error": lambda of: f"{np.mean(of['symbol_error']):.3f}",
    "skips": lambda of: f"{sum(of['skips'])}",
    "repeats": lambda of: f"{sum(of['repeats'])}",
    "skips by attention": lambda of: f"{sum(of['attention_skips'])}",
    "repeats by attention": lambda of: f"{sum(of['attention_repeats'])}",
    "symbols": lambda of: f"{sum(of['symbols'])}",
    "alignment error, frames": lambda of: f"{np.mean(of['alignment_error_frames']):.2f}",
    "written ÷ true length": lambda of: f"{np.mean(of['length_ratio']):.2f}",
}


def table(results: list[dict]) -> str:
    """Markdown: a row per variant and length; counts summed and rates averaged over seeds."""
    head = ["variant", "steps", "rate", "seeds", "length", *COLUMNS]
    rows = [head, ["---"] * len(head)]
    settings = ("variant", "steps", "learning_rate")
    for setting in dict.fromkeys(tuple(r[k] for k in settings) for r in results):
        runs = [r for r in results if tuple(r[k] for k in settings) == setting]
        for factor in ("1x", "2x", "4x"):
            of = {key: [r[factor][key] for r in runs] for key in runs[0][factor]}
            rows.append([*map(str, setting), str(len(runs)), factor, *(cell(of) for cell in COLUMNS.values())])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS), metavar="NAME")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--learning-rate", type=float, default=4e-3)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of the training")
    parser.add_argument("--test-size", type=int, default=32, help="sequences of each length")
    parser.add_argument("--test-seed", type=int, default=2, help="choose options on 1, report 2")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", type=Path, default=Path("out/causal_copy.json"))
    parser.add_argument("--read", type=Path, nargs="+", help="print the table of results written before, and stop")
    arguments = parser.parse_args()
    if arguments.read:
        print(table([result for path in arguments.read for result in json.loads(path.read_text())]))
        return
    torch.set_num_threads(arguments.threads)
    results: list[dict] = []
    for seed in arguments.seeds:
        for name in arguments.variants:
            results.append(
                run(name, arguments.steps, seed, arguments.test_size, arguments.test_seed, arguments.learning_rate)
            )
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            partial = arguments.out.with_suffix(".partial")
            partial.write_text(json.dumps(results, indent=1))
            partial.rename(arguments.out)
            print(table(results[-1:]), flush=True)
    print(table(results))


if __name__ == "__main__":
    main()
