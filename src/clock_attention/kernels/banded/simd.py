"""SIMD: a vector type of eight numbers for Numba, its operations, and typed pointers to load it from.

Numba vectorises plain loops, but does not keep a block of accumulators in registers across an outer loop, which is
what makes a kernel fast. A `Lanes` value is an LLVM vector of eight floats or doubles: on x86 one or two registers,
on other machines whatever LLVM makes of it. It needs no compiler on the user's machine, as Numba bundles LLVM.

Multiplications and additions may contract to fused ones, nothing else is reordered: a sum over lanes always runs in
the same order, so results do not depend on neighbouring data.

With NUMBA_DISABLE_JIT=1 all of this is replaced by `simd_numpy`, the same operations in NumPy, and the kernel runs as
plain Python: slow, but a debugger can step through it, and it tests the compiled code.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

LANES = 8  # numbers in a vector
INT64 = ir.IntType(64)
CONTRACT = ("contract",)


class Lanes(types.Type):
    """The SIMD type: eight float32 or float64 values."""

    def __init__(self, dtype: types.Float) -> None:
        self.dtype = dtype
        super().__init__(name=f"Lanes({dtype})")


def llvm_float(dtype: types.Float) -> ir.Type:
    """LLVM's scalar type of a SIMD lane."""
    return ir.FloatType() if dtype == types.float32 else ir.DoubleType()


def llvm_lanes(dtype: types.Float) -> ir.VectorType:
    """LLVM's SIMD vector type."""
    return ir.VectorType(llvm_float(dtype), LANES)


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):
    """How Numba stores the SIMD type: as LLVM's vector."""

    def __init__(self, dmm: Any, fe_type: Lanes) -> None:
        super().__init__(dmm, fe_type, llvm_lanes(fe_type.dtype))


def register_arithmetic(function: Callable, emit: Callable) -> None:
    """Give the SIMD type one of Python's binary operators."""

    @infer_global(function)
    class Binary(AbstractTemplate):
        def generic(self, args: tuple, kws: dict) -> Any:
            if len(args) == 2 and isinstance(args[0], Lanes) and args[0] == args[1]:
                return signature(args[0], *args)
            return None

    @lower_builtin(function, Lanes, Lanes)
    def lower(context: Any, builder: Any, sig: Any, args: tuple) -> Any:
        return emit(builder, *args)


register_arithmetic(operator.add, lambda b, x, y: b.fadd(x, y, flags=CONTRACT))
register_arithmetic(operator.sub, lambda b, x, y: b.fsub(x, y, flags=CONTRACT))
register_arithmetic(operator.mul, lambda b, x, y: b.fmul(x, y, flags=CONTRACT))
register_arithmetic(operator.truediv, lambda b, x, y: b.fdiv(x, y))


def constant(dtype: types.Float, value: float) -> ir.Constant:
    """A SIMD constant, the same in every lane."""
    return ir.Constant(llvm_lanes(dtype), [ir.Constant(llvm_float(dtype), value)] * LANES)


def broadcast(builder: Any, scalar: Any) -> Any:
    """LLVM code that puts a scalar into every SIMD lane."""
    kind = ir.VectorType(scalar.type, LANES)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), zeros)


def vector_intrinsic(builder: Any, name: str, vector: Any) -> Any:
    """One of LLVM's unary functions on a whole SIMD vector (llvmlite names them for scalars only)."""
    suffix = "f32" if isinstance(vector.type.element, ir.FloatType) else "f64"
    kind = ir.FunctionType(vector.type, [vector.type])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}{suffix}")
    return builder.call(function, [vector])


def element(builder: Any, pointer: Any, index: Any) -> Any:
    """LLVM code for the address of pointer[index]."""
    return builder.gep(pointer, [index])


@intrinsic
def pointer(typingctx: Any, address: Any, like: Any) -> Any:
    """Turn an address into a pointer to SIMD memory, to numbers of the type of `like`."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(sig.return_type))

    return types.CPointer(like)(types.int64, like), codegen


@intrinsic
def shift(typingctx: Any, base: Any, count: Any) -> Any:
    """Shift a pointer to SIMD memory: base + count, in elements."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return element(builder, *args)

    return base(base, types.int64), codegen


@intrinsic
def is_null(typingctx: Any, base: Any) -> Any:
    """Whether a pointer to SIMD memory is null."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.icmp_unsigned("==", builder.ptrtoint(args[0], INT64), ir.Constant(INT64, 0))

    return types.boolean(base), codegen


@intrinsic
def null_like(typingctx: Any, base: Any) -> Any:
    """The null pointer to SIMD memory of this type."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return ir.Constant(args[0].type, None)

    return base(base), codegen


@intrinsic
def get(typingctx: Any, base: Any, index: Any) -> Any:
    """Read one number from SIMD memory."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(element(builder, *args))

    return base.dtype(base, types.int64), codegen


@intrinsic
def put(typingctx: Any, base: Any, index: Any, value: Any) -> Any:
    """Store one number in SIMD memory, converted to the pointer's type."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], element(builder, args[0], args[1]))
        return context.get_dummy_value()

    return types.none(base, types.int64, base.dtype), codegen


@intrinsic
def load(typingctx: Any, base: Any, index: Any) -> Any:
    """Load eight numbers, base[index:index + 8], from SIMD memory."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        dtype = sig.return_type.dtype
        place = builder.bitcast(element(builder, *args), llvm_lanes(dtype).as_pointer())
        return builder.load(place, align=dtype.bitwidth // 8)

    return Lanes(base.dtype)(base, types.int64), codegen


@intrinsic
def prefetch(typingctx: Any, base: Any, index: Any) -> Any:
    """Prefetch the cache line of base[index] in SIMD memory; has no other effect, whatever the address."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, ir.IntType(32), ir.IntType(32), ir.IntType(32)])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        options = [ir.Constant(ir.IntType(32), number) for number in (0, 3, 1)]  # read, high locality, data
        builder.call(function, [builder.bitcast(element(builder, *args), byte), *options])
        return context.get_dummy_value()

    return types.none(base, types.int64), codegen


@intrinsic
def store(typingctx: Any, base: Any, index: Any, lanes: Any) -> Any:
    """Store eight numbers in SIMD memory: base[index:index + 8] = lanes."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        dtype = sig.args[2].dtype
        place = builder.bitcast(element(builder, args[0], args[1]), llvm_lanes(dtype).as_pointer())
        builder.store(args[2], place, align=dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.none(base, types.int64, Lanes(base.dtype)), codegen


@intrinsic
def splat(typingctx: Any, value: Any, like: Any) -> Any:
    """SIMD vector with the same number in every lane, of the type of `like`."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return broadcast(builder, args[0])

    return Lanes(like)(like, like), codegen


@intrinsic
def cast(typingctx: Any, lanes: Any, like: Any) -> Any:
    """SIMD vector rounded or widened to the type of `like`."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        source, target = sig.args[0].dtype, sig.return_type.dtype
        if source == target:
            return args[0]
        convert = builder.fptrunc if target == types.float32 else builder.fpext
        return convert(args[0], llvm_lanes(target))

    return Lanes(like)(lanes, like), codegen


@intrinsic
def fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """SIMD a·b + c, fused where the machine can."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.fadd(builder.fmul(args[0], args[1], flags=CONTRACT), args[2], flags=CONTRACT)

    return a(a, b, c), codegen


@intrinsic
def add(typingctx: Any, a: Any, b: Any) -> Any:
    """SIMD a + b, never contracted: both are rounded first, however they were computed."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.fadd(args[0], args[1])

    return a(a, b), codegen


@intrinsic
def subtract(typingctx: Any, a: Any, b: Any) -> Any:
    """SIMD a − b, never contracted: a is rounded first, as it was when it was stored."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.fsub(args[0], args[1])

    return a(a, b), codegen


@intrinsic
def larger(typingctx: Any, a: Any, b: Any) -> Any:
    """The larger of two SIMD vectors, lane by lane."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return a(a, b), codegen


@intrinsic
def smaller(typingctx: Any, a: Any, b: Any) -> Any:
    """The smaller of two SIMD vectors, lane by lane."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", *args), *args)

    return a(a, b), codegen


@intrinsic
def absolute(typingctx: Any, a: Any) -> Any:
    """SIMD |a|, lane by lane."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return vector_intrinsic(builder, "fabs", args[0])

    return a(a), codegen


@intrinsic
def root(typingctx: Any, a: Any) -> Any:
    """SIMD √a, lane by lane."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return vector_intrinsic(builder, "sqrt", args[0])

    return a(a), codegen


@intrinsic
def keep_from(typingctx: Any, a: Any, threshold: Any, x: Any) -> Any:
    """SIMD selection: x where a ≥ threshold, else 0, lane by lane."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">=", args[0], args[1]), args[2], constant(sig.return_type.dtype, 0))

    return x(a, threshold, x), codegen


@intrinsic
def keep_first(typingctx: Any, x: Any, count: Any, fill: Any) -> Any:
    """SIMD vector with x in the first `count` lanes and `fill` in the others."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        numbers = ir.Constant(ir.VectorType(INT64, LANES), list(range(LANES)))
        inside = builder.icmp_signed("<", numbers, broadcast(builder, args[1]))
        return builder.select(inside, args[0], broadcast(builder, args[2]))

    return x(x, types.int64, x.dtype), codegen


def halves(builder: Any, combine: Callable, vector: Any) -> Any:
    """Combine the lanes of a SIMD vector pairwise, always in the same order."""
    for width in (4, 2, 1):
        mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [(i + width) % LANES for i in range(LANES)])
        vector = combine(vector, builder.shuffle_vector(vector, vector, mask))
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


@intrinsic
def total(typingctx: Any, x: Any) -> Any:
    """The sum of the lanes of a SIMD vector."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return halves(builder, builder.fadd, args[0])

    return x.dtype(x), codegen


@intrinsic
def largest(typingctx: Any, x: Any) -> Any:
    """The largest lane of a SIMD vector."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return halves(builder, lambda a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b), args[0])

    return x.dtype(x), codegen


def each_lane(builder: Any, function: Any, vector: Any) -> Any:
    """Apply a scalar function to every SIMD lane, for the rare functions without a vector form here."""
    result = vector
    for i in range(LANES):
        place = ir.Constant(ir.IntType(32), i)
        result = builder.insert_element(result, builder.call(function, [builder.extract_element(vector, place)]), place)
    return result


# Cephes' expf: degree 5 on |x| ≤ ½ ln 2, two ulps.
EXP_POLYNOMIAL = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


@intrinsic
def exponential(typingctx: Any, x: Any) -> Any:
    """SIMD eˣ; float32 by polynomial, 0 below −87 and clamped above 88."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        (x,) = args
        if sig.return_type.dtype == types.float64:
            return each_lane(builder, builder.module.declare_intrinsic("llvm.exp", [ir.DoubleType()]), x)

        def number(value: float) -> ir.Constant:
            return constant(types.float32, value)

        def multiply_add(a: Any, b: Any, c: Any) -> Any:
            return builder.fadd(builder.fmul(a, b, flags=CONTRACT), c, flags=CONTRACT)

        alive = builder.fcmp_ordered(">", x, number(-87.0))
        x = builder.select(alive, x, number(-87.0))
        x = builder.select(builder.fcmp_ordered("<", x, number(88.0)), x, number(88.0))
        power = vector_intrinsic(builder, "rint", builder.fmul(x, number(1.44269504088896341)))
        r = multiply_add(power, number(-0.693359375), x)  # ln 2 in two parts: the first has few bits
        r = multiply_add(power, number(2.12194440e-4), r)
        poly = number(EXP_POLYNOMIAL[0])
        for coefficient in EXP_POLYNOMIAL[1:]:
            poly = multiply_add(poly, r, number(coefficient))
        poly = multiply_add(poly, builder.fmul(r, r), builder.fadd(r, number(1.0)))
        integers = ir.VectorType(ir.IntType(32), LANES)
        exponent = builder.add(builder.fptosi(power, integers), ir.Constant(integers, [127] * LANES))
        scale = builder.bitcast(builder.shl(exponent, ir.Constant(integers, [23] * LANES)), x.type)
        return builder.select(alive, builder.fmul(poly, scale), number(0.0))

    return x(x), codegen


@intrinsic
def logarithm(typingctx: Any, x: Any) -> Any:
    """SIMD ln x, lane by lane."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = llvm_float(sig.return_type.dtype)
        return each_lane(builder, builder.module.declare_intrinsic("llvm.log", [kind]), args[0])

    return x(x), codegen


@intrinsic
def transpose(typingctx: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any) -> Any:
    """Transpose eight SIMD rows of eight lanes into eight columns."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def shuffle(x: Any, y: Any, order: list[int]) -> Any:
            return builder.shuffle_vector(x, y, ir.Constant(ir.VectorType(ir.IntType(32), LANES), order))

        rows = list(args)
        for low, high, step in (
            ([0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15], 1),
            ([0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15], 2),
            ([0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15], 4),
        ):
            mixed: list[Any] = [None] * LANES
            for i in range(LANES):
                if not i & step:
                    mixed[i] = shuffle(rows[i], rows[i + step], low)
                    mixed[i + step] = shuffle(rows[i], rows[i + step], high)
            rows = mixed
        order = [0, 2, 1, 3, 4, 6, 5, 7]
        return context.make_tuple(builder, sig.return_type, [rows[i] for i in order])

    return types.UniTuple(a, LANES)(a, b, c, d, e, f, g, h), codegen


@intrinsic
def take_ticket(typingctx: Any, counter: Any) -> Any:
    """An LLVM instruction like the SIMD ones: atomic fetch-and-add, by which threads share out tasks."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", args[0], ir.Constant(INT64, 1), "monotonic")

    return types.int64(counter), codegen


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    from clock_attention.kernels.banded import simd_numpy

    globals().update({name: getattr(simd_numpy, name) for name in simd_numpy.OPERATIONS})
