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
from clock_attention.kernels.banded import table
from tests.fuzz.rounding import rounding
from tests.fuzz.runner import DifferenceError, Fuzzer
from tests.kernels.attention_cases import OPTIONS, content_of, features

OUTPUT_TOLERANCE = 1e-5  # of outputs and weights in fp32, relative to the largest value, or to 1
GRADIENT_TOLERANCE = 1e-4  # of gradients, likewise
# Ill-conditioned cases may be off by so many times what rounding alone does to the literal algorithm (see `rounding`):
# an operation there is several in the kernel, such as a sum over channels.
ROUNDINGS = 4.0
DRAWS = 3  # of random roundings
LENGTHS = (1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100)
WIDTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 32, 33)
CONTENT_WIDTHS = (0, 0, 0, 0, 1, 5, 16, 33)
PAGE = mmap.PAGESIZE


def largest(x: Tensor) -> float:
    return float(x.abs().max()) if x.numel() else 0.0


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
    chunk = 250

    def start(self, folder: Path) -> None:
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = True
        assert torch.empty(8, dtype=torch.uint8).view(torch.float32).isnan().all()  # what scratch is made of
        # Compiled (or read from the cache) before any case is timed. Estimated variances run in fp64 at any precision.
        for precision in (torch.float32, torch.float64):
            query, key, value = (x.requires_grad_() for x in features((1, 1, 3, 3, 2, 2), 0, precision))
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
        content = chance.choice(CONTENT_WIDTHS)
        exact += content_of("features" if content else "none", shape, seed, width=content)
        for x, mask in zip(exact[4:], (masks.get("query_padding_mask"), masks.get("key_padding_mask")), strict=False):
            if mask is not None:
                x.masked_fill_(mask[:, None, :, None], torch.nan)
        exact = [x.float().double() for x in exact]  # both precisions get the same numbers
        found = self.results(exact, torch.float32, "banded", weighted, seed, masks | options)
        expected = self.results(exact, torch.float64, "reference", weighted, seed, masks | options)
        what = f"shape {shape}, content {content}, options {options}, masks {list(masks)}, scale {scale}, seed {seed}"
        errors = [largest(a.double() - b) for a, b in zip(found, expected, strict=True)]
        allowed = [
            (OUTPUT_TOLERANCE if place < 1 + weighted else GRADIENT_TOLERANCE) * max(1.0, largest(b))
            for place, b in enumerate(expected)
        ]
        threads = f"{torch.get_num_threads()} threads"
        # Not a number on one side only compares as neither: `not <=` catches it.
        if all(error <= most for error, most in zip(errors, allowed, strict=True)):
            return threads
        moved = self.moved_by_rounding(exact, expected, weighted, seed, masks | options)
        for place, (error, most, move) in enumerate(zip(errors, allowed, moved, strict=True)):
            if not error <= most + ROUNDINGS * move:
                size = largest(expected[place])
                raise DifferenceError(
                    f"result {place} is off by {error:.3g}, rounding moves it by {move:.3g}, its largest value is "
                    f"{size:.3g}: {what}"
                )
        return f"{threads}, ill-conditioned"

    def moved_by_rounding(
        self, exact: list[Tensor], expected: list[Tensor], weighted: bool, seed: int, options: dict[str, Any]
    ) -> list[float]:
        """The most that random roundings of fp32 have moved each result of the literal algorithm."""
        moves = []
        for draw in range(DRAWS):
            with rounding(seed + draw):
                rounded = self.results(exact, torch.float64, "reference", weighted, seed, options)
            moves.append([largest(a - b) for a, b in zip(rounded, expected, strict=True)])
        return [max(move) for move in zip(*moves, strict=True)]

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

    def results(
        self, exact: list[Tensor], dtype: torch.dtype, impl: str, weighted: bool, seed: int, options: dict[str, Any]
    ) -> list[Tensor]:
        guarded = [GuardedTensor(x.to(dtype)) for x in exact]
        table.memory.__dict__.pop("scratch", None)  # kept from the last call, it would be full of plausible numbers
        inputs = [one.tensor.detach().requires_grad_() for one in guarded]
        content = (inputs[4], inputs[5]) if len(inputs) > 4 else None
        output, weights, *_ = clock_attention(
            *inputs[:3], content=content, logit_scale=inputs[3], impl=impl, return_weights=weighted, **options
        )
        draw = torch.Generator().manual_seed(seed)
        loss = (output * torch.randn(output.shape, generator=draw)).sum()
        if weighted:
            loss = loss + (weights * torch.randn(weights.shape, generator=draw)).sum()
        grads = torch.autograd.grad(loss, inputs)
        return [x.detach() for x in (output, *([weights] if weighted else []), *grads)]
