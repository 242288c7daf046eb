"""How far fp32 rounding alone can move the results of the literal algorithm: the yardstick for ill-conditioned cases.

The algorithm runs in fp64, but the result of every operation, and every gradient on its way back through it, is off by
up to half a unit of fp32, at random. Clocks and distances are exempt, because implementations must compute them more
precisely than that: only what they hand on is rounded. Where results move by more than a tolerance, the problem itself
is ill-conditioned in fp32. No code of the implementations under test takes part in this.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from clock_attention.kernels import reference

HALF_UNIT = 2.0**-24  # of fp32, relative
ARITHMETIC = frozenset({
    "add", "sub", "rsub", "mul", "div", "true_divide", "pow", "square", "sum", "cumsum", "mean", "matmul", "sqrt",
    "rsqrt", "exp", "log", "logaddexp", "sigmoid", "softplus", "softmax", "__add__", "__radd__", "__sub__", "__rsub__",
    "__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__pow__", "__rpow__", "__matmul__",
})  # fmt: skip
EXACT = ("running_sum", "normalized", "paced", "gram_distance")  # of the reference: clocks and distances


class Rounded(torch.autograd.Function):
    """A tensor, and its gradient, each off by half a unit of fp32 at most."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, draw: torch.Generator, forwards: bool) -> Tensor:
        ctx.draw = draw
        return off_by_half_a_unit(x, draw) if forwards else x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return off_by_half_a_unit(grads[0], ctx.draw), None, None


def off_by_half_a_unit(x: Tensor, draw: torch.Generator) -> Tensor:
    return x * (1 + HALF_UNIT * (2 * torch.rand(x.shape, generator=draw, dtype=x.dtype) - 1))


class RoundingMode(TorchFunctionMode):
    """Every arithmetic operation on fp64 tensors is rounded as if it had been one on fp32 tensors."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.draw = torch.Generator().manual_seed(seed)
        self.exact = False

    def __torch_function__(self, func: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        rounds = isinstance(result, Tensor) and result.dtype == torch.float64 and func.__name__ in ARITHMETIC
        if not rounds or self.exact or torch._C._are_functorch_transforms_active():  # φ' of a caller's own φ
            return result
        rounded = Rounded.apply(result, self.draw, True)
        for x in args:  # what is one of the operands (times a mask of 1) is exact
            if isinstance(x, Tensor) and x.shape == result.shape:
                rounded = torch.where(result == x, result, rounded)
        return rounded

    def exactly(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """The same function without rounding inside. Distances are handed on in fp32; of clocks, only gradients are."""

        def run(*arguments: Any) -> Tensor:
            before, self.exact = self.exact, True
            try:
                result = function(*arguments)
            finally:
                self.exact = before
            return Rounded.apply(result, self.draw, function.__name__ == "gram_distance")

        return run


@contextlib.contextmanager
def rounding(seed: int) -> Iterator[None]:
    """Inside, `impl="reference"` in fp64 has the precision of fp32."""
    mode = RoundingMode(seed)
    with contextlib.ExitStack() as stack:
        for name in EXACT:
            stack.enter_context(mock.patch.object(reference, name, mode.exactly(getattr(reference, name))))
        stack.enter_context(mode)
        yield
