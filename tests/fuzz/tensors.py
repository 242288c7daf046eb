"""The compiled kernels: random shapes and options on 1, 2 and 7 threads, against the literal algorithm in fp64.

Inputs end where memory ends: the page after each of them can be neither read nor written. What kernels allocate
without filling is full of NaN.
"""

from __future__ import annotations

import ctypes
import mmap
import random
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clock_attention import clock_attention
from tests.fuzz.runner import DifferenceError, Fuzzer
from tests.kernels.attention_cases import OPTIONS, features

OUTPUT_TOLERANCE = 1e-5  # absolute, of outputs and weights in fp32
GRADIENT_TOLERANCE = 1e-4  # relative to the largest value of each gradient, or to 1
# The gradient of logit_scale sums, over all rows, differences of scores that may be far from 0: it is allowed this much
# of the best scores' sum besides. (Taking differences from each row's best score first would need no such allowance.)
SCORE_TOLERANCE = 1e-6
OTHERS = 10.0  # where plain fp32 (impl="portable") is outside too, a kernel may be so many times further off
LENGTHS = (1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100)
WIDTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 32, 33)
PAGE = mmap.PAGESIZE


class GuardedTensor:
    """A copy of a tensor that ends at the last byte before a page that nobody may touch."""

    def __init__(self, tensor: Tensor) -> None:
        size = tensor.numel() * tensor.element_size()
        pages = -(-size // PAGE) + 1
        self.memory = mmap.mmap(-1, pages * PAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(start + (pages - 1) * PAGE), ctypes.c_size_t(PAGE), 0):
            raise OSError(ctypes.get_errno(), "mprotect")
        offset = (pages - 1) * PAGE - size
        flat = torch.frombuffer(self.memory, dtype=tensor.dtype, count=tensor.numel(), offset=offset)
        self.tensor = flat.view(tensor.shape)
        self.tensor.copy_(tensor)


class Tensors(Fuzzer):
    name = "tensors"
    chunk = 1000

    def start(self, folder: Path) -> None:
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = True
        # Compiled (or read from the cache) before any case is timed.
        query, key, value = (x.requires_grad_() for x in features((1, 1, 3, 3, 2, 2), 0, torch.float32))
        clock_attention(query, key, value, impl="banded")[0].sum().backward()

    def case(self, chance: random.Random) -> str:
        torch.set_num_threads(chance.choice([1, 2, 7]))
        batch, heads = chance.choice([1, 1, 2, 3]), chance.choice([1, 2, 3])
        targets, sources = chance.choice(LENGTHS), chance.choice(LENGTHS)
        shape = (batch, heads, targets, sources, chance.choice(WIDTHS), chance.choice(WIDTHS))
        options = dict(chance.choice(OPTIONS))
        seed = chance.randrange(2**31)
        exact = [*features(shape, seed), torch.linspace(0.5, 2.0, heads, dtype=torch.float64)]
        scale = chance.choice([1.0, 1.0, 1.0, 0.0, 1e-3, 10.0])
        exact[0], exact[1] = exact[0] * scale, exact[1] * chance.choice([1.0, scale])
        masks = self.masks(chance, batch, targets, sources)
        for x, mask in zip(
            exact, (masks.get("query_padding_mask"), *[masks.get("key_padding_mask")] * 2), strict=False
        ):
            if mask is not None:
                x.masked_fill_(mask[:, None, :, None], torch.nan)
        weighted = chance.random() < 0.5
        found = self.results(exact, torch.float32, "banded", weighted, seed, masks | options)
        expected = self.results(exact, torch.float64, "reference", weighted, seed, masks | options)
        what = f"shape {shape}, options {options}, masks {list(masks)}, scale {scale}, seed {seed}"
        for place, (a, b) in enumerate(zip(found, expected, strict=True)):
            error = float((a.double() - b).abs().max()) if b.numel() else 0.0
            most = max(1.0, float(b.abs().max())) if b.numel() else 1.0
            allowed = OUTPUT_TOLERANCE * most if place < 1 + weighted else GRADIENT_TOLERANCE * most
            if place == len(found) - 1:
                allowed += SCORE_TOLERANCE * self.best_scores(exact, masks | options)
            # Not a number on one side only compares as neither: `not <=` catches it.
            if not error <= allowed:
                plain = self.results(exact, torch.float32, "portable", weighted, seed, masks | options)[place]
                # Ill-conditioned in fp32 by any formula: counted apart.
                if error <= OTHERS * float((plain.double() - b).abs().max()):
                    return "outside, as plain fp32 is"
                raise DifferenceError(f"result {place} is off by {error:.3g} ({most:.3g} the largest value): {what}")
        return f"{torch.get_num_threads()} threads"

    def masks(self, chance: random.Random, batch: int, targets: int, sources: int) -> dict[str, Any]:
        masks: dict[str, Any] = {}
        for name, length in (("query_padding_mask", targets), ("key_padding_mask", sources)):
            if chance.random() < 0.5:
                rows = []
                for _ in range(batch):
                    valid = chance.randrange(1, length + 1)
                    holes = chance.random() < 0.3
                    rows.append([chance.random() < 0.5 if holes else step >= valid for step in range(length)])
                masks[name] = torch.tensor(rows)
        return masks

    def best_scores(self, exact: list[Tensor], options: dict[str, Any]) -> float:
        """The sum over rows of the best score of each, in size, for the head that has the most."""
        logits = clock_attention(*exact[:3], impl="reference", return_logits=True, **options)[-1].double()
        best = logits.amax(-1)  # (B, H, S)
        return float(best.masked_fill(~best.isfinite(), 0.0).abs().sum((0, 2)).max())

    def results(
        self, exact: list[Tensor], dtype: torch.dtype, impl: str, weighted: bool, seed: int, options: dict[str, Any]
    ) -> list[Tensor]:
        guarded = [GuardedTensor(x.to(dtype)) for x in exact]
        inputs = [one.tensor.detach().requires_grad_() for one in guarded]
        output, weights, *_ = clock_attention(
            *inputs[:3], logit_scale=inputs[3], impl=impl, return_weights=weighted, **options
        )
        draw = torch.Generator().manual_seed(seed)
        loss = (output * torch.randn(output.shape, generator=draw)).sum()
        if weighted:
            loss = loss + (weights * torch.randn(weights.shape, generator=draw)).sum()
        grads = torch.autograd.grad(loss, inputs)
        return [x.detach() for x in (output, *([weights] if weighted else []), *grads)]
