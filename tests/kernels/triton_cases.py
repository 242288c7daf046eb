"""Random problems for the Triton kernels under their interpreter, and how far they are from the fp64 reference."""

from __future__ import annotations

import functools
import random
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from clock_attention import clock_attention

CLOCKS: list[dict[str, Any]] = [
    {"clocks": "normalized"},
    {"clocks": "normalized", "variance": "empirical", "phi": "softplus"},
    {"clocks": "normalized", "variance": "exact", "phi": "exp"},
    {"clocks": "unnormalized"},
    {"clocks": "unnormalized", "variance": "exact"},
    {"clocks": "causal", "pace": 1.5},
    {"clocks": "causal", "pace": 0.7, "causal_norm": "cumulative", "variance": "surrogate"},
    {"clocks": "causal", "pace": 2.5, "causal_norm": "rms"},
]
OUTPUT, GRADIENT = 2e-5, 1e-4  # fp32, relative to the largest element or 1
WIDTHS = (8, 12, 16, 24, 32, 40, 64, 80, 128, 200, 256)
NARROW = 2000  # cases of narrow heads
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15, 16, 17, 31, 33, 49)


def patch_interpreter() -> None:
    """Make the interpreter faster, its bf16 right and its TF32 that of the matrix units.

    It replaces triton's functions anew in every launch and call, where once is enough, looks for overflows of 32 bits
    in every sum and makes a table of types for every cast: half its time. Its matrix product takes the bits of bf16
    for integers, and fp32 as it is, where matrix units multiply numbers of 11 bits.
    """
    from triton.runtime import interpreter

    if getattr(interpreter._patch_lang, "once", False):
        return
    interpreter.InterpreterBuilder.create_dot = multiply
    interpreter.interpreter_builder.options = replace(interpreter.interpreter_builder.options, sanitize_overflow=False)
    of_element = functools.cache(interpreter._get_np_dtype)
    interpreter._get_np_dtype = lambda type: np.dtype(np.uint64) if type.scalar.is_ptr() else of_element(type.scalar)
    original, patched = interpreter._patch_lang, set()
    nothing_to_restore = SimpleNamespace(restore=lambda: None)

    def patch(function: Any) -> SimpleNamespace:
        if id(function.__globals__) not in patched:
            original(function)
            patched.add(id(function.__globals__))
        return nothing_to_restore

    patch.once = True  # type: ignore[attr-defined]
    interpreter._patch_lang = patch


def multiply(builder: Any, a: Any, b: Any, added: Any, precision: Any, imprecise: Any) -> Any:
    """a b + added, as a matrix unit takes it."""
    from triton.runtime import interpreter

    def wide(x: Any) -> np.ndarray:
        if x.dtype.scalar == interpreter.tl.bfloat16:
            return (x.data.astype(np.uint32) << 16).view(np.float32)
        return x.data.astype(np.float32)

    left, right = wide(a), wide(b)
    if precision == interpreter._ir.INPUT_PRECISION.TF32x3 and a.dtype.scalar == interpreter.tl.float32:
        (left, left_rest), (right, right_rest) = in_two_parts(left), in_two_parts(right)
        product = (left_rest @ right + left @ right_rest) + (left @ right + added.data)
    else:
        product = left @ right + added.data
    return interpreter.TensorHandle(product.astype(added.data.dtype), added.dtype.scalar)


def in_two_parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of 11 bits that TF32 multiplies, and what they leave out, as far as another 11 bits hold it."""

    def rounded(x: np.ndarray) -> np.ndarray:
        bits = ((np.ascontiguousarray(x).view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
        return np.where(np.isfinite(x), bits, x)

    first = rounded(x)
    return first, np.where(np.isfinite(x), rounded(x - first), np.float32(0))


@dataclass
class Case:
    """One problem: sizes, tiles, options and what is asked for."""

    seed: int
    batch: int = 1
    heads: int = 1
    queries: int = 17
    keys: int = 17
    width: int = 2
    value_width: int = 3
    content_width: int = 0
    tiles: tuple[int, int] | None = (16, 16)  # None: as the package cuts them
    clocks: dict[str, Any] = field(default_factory=dict)
    log_variance_term: bool = False
    padding: str = "none"  # "end", "anywhere"
    scale: float = 1.0
    full_band: bool = False
    weights: bool = False
    dtype: str = "float32"
    signal: str = "random"  # "shared": both sides carry the same slow signal; "flat"; "opposite"
    precision: str = "tf32x3"  # of fp32 products: "tf32x3" as on NVIDIA, "ieee" as on AMD


def random_case(seed: int) -> Case:
    r = random.Random(seed)
    heads = r.choice((1, 1, 1, 2))
    return Case(
        seed,
        batch=r.choice((1, 1, 1, 2)) if heads == 1 else 1,
        heads=heads,
        queries=r.choice(LENGTHS),
        keys=r.choice(LENGTHS),
        width=r.choice((1, 2, 2, 3)),
        value_width=r.choice((1, 3, 8, 17)),
        content_width=r.choice((0, 0, 1, 4)),
        tiles=r.choice(((16, 16), (32, 16), (16, 32), (32, 32), (64, 32))),
        clocks=r.choice(CLOCKS),
        log_variance_term=r.random() < 0.25,
        padding=r.choice(("none", "end", "anywhere")),
        scale=r.choice((1.0, 1.0, 0.3, 3.0, 0.02, 0.0, -0.5)),
        full_band=r.random() < 0.1,
        weights=r.random() < 0.25,
        dtype=r.choice(("float32",) * 8 + ("bfloat16", "float16")),
        signal=r.choice(("random", "random", "shared", "flat", "opposite")),
        precision=r.choice(("tf32x3", "tf32x3", "ieee")),
    )


def wide_case(seed: int) -> Case:
    """As `random_case`, but with heads as wide as they are in use, cut into the package's own tiles."""
    r = random.Random(f"wide {seed}")
    return replace(
        random_case(seed),
        queries=r.choice((1, 5, 16, 17, 33)),
        keys=r.choice((1, 4, 16, 17, 33)),
        width=r.choice(WIDTHS),
        value_width=r.choice(WIDTHS),
        content_width=r.choice((0, r.choice(WIDTHS))),
        tiles=None,
    )


def numbered_case(number: int) -> Case:
    """Narrow heads with tiles of all shapes first, then wide ones."""
    return random_case(number) if number < NARROW else wide_case(number)


def tensors(case: Case) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Query, key, value, scale and contents in fp64, holding numbers of the case's dtype; NaN under the padding."""
    g = torch.Generator().manual_seed(case.seed)
    sizes = [(case.queries, case.width), (case.keys, case.width), (case.keys, case.value_width)]
    if case.content_width:
        sizes += [(case.queries, case.content_width), (case.keys, case.content_width)]
    found = [torch.randn(case.batch, case.heads, *size, generator=g, dtype=torch.float64) for size in sizes]
    if case.content_width > 4:
        for x in found[3:]:
            x.mul_(case.content_width**-0.25)  # as 1/√d does for dot products
    for x, length, sign in ((found[0], case.queries, 1), (found[1], case.keys, -1)):
        ramp = torch.linspace(0, 1, length, dtype=torch.float64)[:, None]
        if case.signal == "shared":
            x.mul_(0.1).add_(torch.sin(7 * ramp))
        elif case.signal == "flat":
            x.mul_(0.01).add_(sign)
        elif case.signal == "opposite":
            x.add_(sign * (4 * ramp - 2))
    masks = {}
    if case.padding != "none":
        for side, length in (("query", case.queries), ("key", case.keys)):
            if case.padding == "end":
                lengths = torch.randint(1, length + 1, (case.batch, 1), generator=g)
                masks[f"{side}_padding_mask"] = torch.arange(length) >= lengths
            else:
                masks[f"{side}_padding_mask"] = torch.rand(case.batch, length, generator=g) < 0.3
        owners = ("query", "key", "key", "query", "key")
        for x, owner in zip(found, owners, strict=False):
            x.masked_fill_(masks[f"{owner}_padding_mask"][:, None, :, None], torch.nan)
    scale = torch.full((case.heads,), case.scale, dtype=torch.float64) * (1 + 0.1 * torch.arange(case.heads))
    found.insert(3, scale)
    dtype = getattr(torch, case.dtype)
    return [x if x is scale else x.to(dtype).double() for x in found], masks


def run(case: Case, impl: str, dtype: torch.dtype) -> list[Tensor]:
    """Output, weights where they are asked for, and the gradients of a random projection of both."""
    exact, masks = tensors(case)
    wide = torch.promote_types(dtype, torch.float32)
    leaves = [x.to(wide if x.dim() == 1 else dtype).requires_grad_() for x in exact]
    query, key, value, scale, *content = leaves
    options = {**case.clocks, "log_variance_term": case.log_variance_term, **masks}
    output, weights = clock_attention(
        query, key, value, logit_scale=scale, content=tuple(content) or None, impl=impl, return_weights=case.weights,
        **options,
    )  # fmt: skip
    g = torch.Generator().manual_seed(case.seed)
    loss = (output.double() * torch.randn(output.shape, generator=g, dtype=torch.float64)).sum()
    if case.weights:
        loss = loss + (weights.double() * torch.randn(weights.shape, generator=g, dtype=torch.float64)).sum()
    gradients = torch.autograd.grad(loss, leaves)
    return [x.detach().double() for x in (output, *((weights,) if case.weights else ()), *gradients)]


def largest(found: list[Tensor], truth: list[Tensor]) -> list[float]:
    """Differences relative to the largest element, or to 1 where that is smaller; NaN counts as infinitely far."""
    errors = []
    for a, b in zip(found, truth, strict=True):
        error = float(((a - b).abs().max() / b.abs().max().clamp(min=1.0)).nan_to_num(torch.inf)) if b.numel() else 0.0
        errors.append(error)
    return errors


def run_interpreted(case: Case) -> list[Tensor]:
    from clock_attention.kernels.triton import geometry, meeting

    patch_interpreter()
    with ExitStack() as stack:
        if case.tiles is not None:
            cut = geometry.Geometry(*case.tiles)
            stack.enter_context(mock.patch.object(geometry, "tile_geometry", return_value=cut))
        if case.full_band:
            stack.enter_context(mock.patch.object(meeting, "DROPPED", 0.0))
        stack.enter_context(mock.patch.object(geometry, "precision", return_value=case.precision))
        return run(case, "triton", getattr(torch, case.dtype))


def judge(case: Case) -> dict[str, Any]:
    """The case, its errors and whether they are within bounds."""
    truth = run(case, "reference", torch.float64)
    found = run_interpreted(case)
    errors = largest(found, truth)
    results = 2 if case.weights else 1  # output and weights; the rest are gradients
    if case.dtype == "float32":
        bounds = [OUTPUT] * results + [GRADIENT] * (len(errors) - results)
    else:  # twice what the literal algorithm loses in the same dtype, or a rounding of the result
        ours = float(torch.finfo(getattr(torch, case.dtype)).eps)
        bounds = [2 * e + ours for e in largest(run(case, "reference", getattr(torch, case.dtype)), truth)]
    good = all(e <= b for e, b in zip(errors, bounds, strict=True))
    conditioned = False
    if not good and case.dtype != "float32":
        # The literal algorithm rounds every step in 16 bits and may be right by accident where nothing in 16 bits can
        # be: the time norm of features that are equal in them multiplies a gradient's last bit by 1/√ε = 1000. Plain
        # torch on fp32 clocks is the yardstick then.
        plain = largest(run(case, "portable", getattr(torch, case.dtype)), truth)
        conditioned = all(e <= max(b, 2 * p) for e, b, p in zip(errors, bounds, plain, strict=True))
    return {
        "case": asdict(case), "good": good or conditioned, "ill_conditioned": conditioned,
        "output": max(errors[:results]), "gradient": max(errors[results:]),
        "of_bound": max(e / b for e, b in zip(errors, bounds, strict=True)), "errors": errors, "bounds": bounds,
    }  # fmt: skip
