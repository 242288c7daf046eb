"""What does a training step cost with clock attention, compared with the same model with dot-product attention?

    python benchmarks/training_step.py
    python benchmarks/training_step.py --preset small-l1 --batch 16

Forward, L1, backward and AdamW of the encoder-decoder on random utterances. The two models differ only in their
cross-attention; steps alternate between them. Prints the ratio of medians with the quartiles of the ratios by
repetition.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from clock_attention.speech.model.transformer_model import SpeechModel
from clock_attention.speech.training.config import RunConfig, load_preset


def make_step(config: RunConfig, attention: str, batch: int, frames: int, tokens: int):  # type: ignore[no-untyped-def]
    """A function that runs one training step."""
    torch.manual_seed(0)
    model = SpeechModel(config.model.model_copy(update={"cross_attention": attention})).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.training.learning_rate)
    lengths = torch.linspace(0.8, 1.0, batch)
    token_lengths, frame_lengths = (lengths * tokens).long(), (lengths * frames).long()
    ids = torch.randint(config.model.symbols, (batch, tokens))
    mel = torch.randn(batch, frames, config.model.mels)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        prediction = model(ids, token_lengths, frame_lengths, mel if config.model.autoregressive else None)
        F.l1_loss(prediction.mel[:, :frames], mel).backward()
        optimizer.step()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--set", nargs="*", default=[], dest="changes", help="key=value changes to the preset")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--frames", type=int, default=650)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path("out/training_step.json"))
    arguments = parser.parse_args()
    config = load_preset(arguments.preset).changed(arguments.changes)
    shape = (arguments.batch, arguments.frames, arguments.tokens)
    steps = {name: make_step(config, name, *shape) for name in ("clock", "dot")}
    times: dict[str, list[float]] = {name: [] for name in steps}
    for repetition in range(arguments.repetitions + 1):
        for name, step in steps.items():
            started = time.perf_counter()
            step()
            if repetition:  # the first compiles and allocates
                times[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratios = [a / b for a, b in zip(times["clock"], times["dot"], strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4)
    print(f"{arguments.preset}, {shape[0]} utterances of {shape[1]} frames and {shape[2]} tokens, "
          f"{torch.get_num_threads()} threads, {arguments.repetitions} repetitions")  # fmt: skip
    for name, value in medians.items():
        print(f"  {name:6s} {value * 1e3:8.1f} ms per step")
    print(f"  clock ÷ dot {medians['clock'] / medians['dot']:.3f} [{low:.3f}–{high:.3f}]")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    temporary = arguments.out.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps({"shape": shape, "preset": arguments.preset, "seconds": times}))
    temporary.replace(arguments.out)


if __name__ == "__main__":
    main()
