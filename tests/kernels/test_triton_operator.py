"""The Triton operator: disjoint writes, launches by shape alone, registration, compiled graphs, single steps."""

import collections

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

pytest.importorskip("triton", reason="triton is not installed: make gpu-tools")

from clock_attention import ClockAttention, clock_attention
from clock_attention.kernels import triton as kernels
from clock_attention.kernels.triton import operator

from .attention_cases import features
from .triton_cases import Case, patch_interpreter, random_case, run_interpreted

pytestmark = [
    pytest.mark.skipif(not kernels.interpreted(), reason="TRITON_INTERPRET is off: `make gpu-check` runs on the GPU"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # the interpreter's numpy, for what is masked afterwards
]
TRITON = {"impl": "triton", "return_weights": False}
WRITTEN = {  # every element, by one launch: the one with this part where a kernel is launched in parts
    "read_clock": dict.fromkeys(("offsets", "anchors", "sums", "statistics")),
    "choose_tiles": {"ranges": None},
    "attend_tile": {"out": None, "softmax": None},
    "write_weights": {"out": None},
    "query_gradients": {
        **dict.fromkeys(("grad_clock", "grad_variance", "grad_scale"), "CLOCKS"), "grad_content": "CONTENTS",
    },
    "key_gradients": {
        **dict.fromkeys(("grad_clock", "grad_variance"), "CLOCKS"), "grad_value": "VALUES", "grad_content": "CONTENTS",
    },
}  # fmt: skip


@pytest.fixture(autouse=True)
def _interpreter():
    patch_interpreter()


@pytest.fixture
def launched(monkeypatch):
    """Every launch: kernel, grid, and all arguments that are no tensors."""
    from triton.runtime import interpreter

    found = []
    launch = interpreter.GridExecutor.__call__

    def remember(self, *arguments, **options):
        numbers = [x for x in arguments if not isinstance(x, torch.Tensor)]
        found.append((self.fn.__name__, self.grid, (numbers, options)))
        launch(self, *arguments, **options)

    monkeypatch.setattr(interpreter.GridExecutor, "__call__", remember)
    return found


@pytest.mark.parametrize(
    "case",
    [
        Case(9, queries=33, keys=17, heads=2, padding="anywhere", content_width=3, weights=True),
        random_case(53),  # clocks that are far apart
    ],
    ids=["everything", "far"],
)
def test_every_result_is_written_exactly_once(monkeypatch, case):
    """No race is possible between programs that never write to the same place: counts the stores of every kernel.

    Results are poisoned with NaN before their kernel runs, so that what nobody writes shows as well.
    """
    from triton.runtime import interpreter

    writes: collections.Counter[int] = collections.Counter()
    stores = collections.Counter()
    seen = set()
    store, launch = interpreter.InterpreterBuilder.create_masked_store, interpreter.GridExecutor.__call__

    def counting_store(self, pointers, value, mask, *rest):
        writes.update(np.broadcast_to(pointers.data, mask.data.shape)[mask.data].tolist())
        return store(self, pointers, value, mask, *rest)

    def counting_launch(self, *arguments, **options):
        kernel = self.fn.__name__
        writes.clear()
        results = {}
        parts = {None, *(name for name, on in options.items() if on is True)}
        for name, x in zip(self.arg_names, arguments, strict=False):
            if isinstance(x, torch.Tensor) and x.numel() and WRITTEN.get(kernel, {}).get(name, "never") in parts:
                x.fill_(torch.nan if x.is_floating_point() else -(2**31))
                results[f"{kernel}:{name}"] = x
        launch(self, *arguments, **options)
        assert max(writes.values(), default=1) == 1  # nothing at all is written twice by a launch
        for name, x in results.items():
            places = range(x.data_ptr(), x.data_ptr() + x.numel() * x.element_size(), x.element_size())
            assert all(writes[place] == 1 for place in places), name
        seen.update(results)
        stores[kernel] += len(writes)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_masked_store", counting_store)
    monkeypatch.setattr(interpreter.GridExecutor, "__call__", counting_launch)
    assert all(x.isfinite().all() for x in run_interpreted(case))
    expected = {f"{kernel}:{name}" for kernel, names in WRITTEN.items() for name in names}
    assert seen == {name for name in expected if case.content_width or "content" not in name}
    assert (stores["far_scales"] > 0) == (case.seed == 53)  # it replaces what it improves, and nothing else


class WithoutReadingBack(TorchDispatchMode):
    """Fails on operations for which the host would have to wait for a GPU."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        waiting = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "aten::equal", "index.Tensor")
        masks = any(isinstance(x, torch.Tensor) and x.dtype == torch.bool for x in args[1:2])
        assert not any(word in function.name() for word in waiting), function
        assert "index_put" not in function.name() or not masks, function
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "options",
    [{}, {"clocks": "causal", "pace": 1.5, "causal_norm": "rms"}, {"variance": "empirical", "phi": "softplus"}],
    ids=["default", "causal", "empirical"],
)
def test_a_cuda_graph_could_capture_it(options, launched):
    """Nothing is read back, and what is launched, how and how often follows from shapes: other data, other padding."""
    found = []
    for seed, lengths in ((1, (20, 17)), (2, (3, 1))):
        query, key, value, *content = (
            (1 + 30 * seed * torch.randn(1, 1, n, 16, generator=torch.Generator().manual_seed(seed))).requires_grad_()
            for n in (20, 17, 17, 20, 17)
        )
        padding = [torch.arange(n)[None] >= length for n, length in zip((20, 17), lengths, strict=True)]
        with WithoutReadingBack():
            output, weights = clock_attention(
                query, key, value, *padding, content=tuple(content), impl="triton", return_weights=True, **options
            )
            torch.autograd.grad(output.sum() + weights[..., 0].sum(), (query, key, value, *content))
        found.append(list(launched))
        launched.clear()
    assert [kernel for kernel, _, _ in found[0]] == [
        "read_clock", "read_clock", "choose_tiles", "attend_tile", "write_weights",
        "read_clock", "read_clock", "choose_tiles", "query_gradients", "query_gradients",
        "far_scales", "key_gradients", "key_gradients",
    ]  # fmt: skip
    assert found[0] == found[1]


@pytest.mark.parametrize("content", [False, True])
def test_a_step_of_a_batch_of_states_is_one_launch_and_equals_plain_torch(content, launched):
    attention = ClockAttention(12, 3, clocks="causal", pace=2.0, content_dim=4 if content else None)
    query, memory = torch.randn(3, 4, 12), torch.randn(3, 70, 12)
    padded = torch.arange(70) >= torch.tensor([[70], [3], [65]])
    with torch.no_grad():
        state, other = attention.start(memory, padded), attention.start(memory, padded)
        for s in range(3):
            attention.impl = "portable"
            expected, weights, state = attention.step(query[:, s], state)
            attention.impl = "triton"
            launched.clear()
            found, found_weights, other = attention.step(query[:, s], other)
            assert [kernel for kernel, _, _ in launched] == ["attend_step"]
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(found_weights, weights, rtol=1e-5, atol=1e-6)


def test_a_step_that_needs_gradients_has_them():
    attention = ClockAttention(8, 2, clocks="causal", pace=2.0, impl="triton")
    output, _, _ = attention.step(torch.randn(2, 8), attention.start(torch.randn(2, 5, 8)))
    output.sum().backward()
    assert attention.v_proj.weight.grad.any()


def test_what_it_cannot_serve_raises_by_name():
    query, key, value = features((1, 1, 4, 3, 2, 2), 0, torch.float32)
    wide = torch.zeros(1, 1, 4, 300)
    many, long = (torch.zeros(1).expand(shape) for shape in ((70_000, 1, 4, 2), (1, 1, 50_000, 2)))
    for reason, call in (
        ("attn_mask", lambda: clock_attention(query, key, value, attn_mask=torch.zeros(4, 3), **TRITON)),
        ("fp64", lambda: clock_attention(query.double(), key.double(), value.double(), **TRITON)),
        ("70000 sequences", lambda: clock_attention(many, many, many, **TRITON)),
        ("32 bits", lambda: clock_attention(long, long, long, impl="triton", return_weights=True)),
        ("300 channels", lambda: clock_attention(wide, wide, wide, **TRITON)),
        ("scores", lambda: clock_attention(query, key, value, content=torch.zeros(1, 1, 4, 3), **TRITON)),
        ("logits", lambda: clock_attention(query, key, value, return_logits=True, **TRITON)),
    ):
        with pytest.raises(ValueError, match=f"impl: got 'triton', but .*{reason}"):
            call()


def test_second_derivatives_are_refused_with_a_way_out():
    query, key, value = (x.requires_grad_() for x in features((1, 1, 5, 4, 2, 2), 0, torch.float32))
    output, _ = clock_attention(query, key, value, **TRITON)
    (first,) = torch.autograd.grad(output.square().sum(), query, create_graph=True)
    with pytest.raises(NotImplementedError, match="impl='portable'"):
        first.sum().backward()


def test_compiles_as_one_graph():
    def loss(query, key, value):
        return clock_attention(query, key, value, **TRITON)[0].square().sum()

    inputs = [x.requires_grad_() for x in features((1, 1, 9, 5, 2, 2), 15, torch.float32)]
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for a, b in zip(
        torch.autograd.grad(compiled(*inputs), inputs), torch.autograd.grad(loss(*inputs), inputs), strict=True
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("content", [False, True])
def test_the_operator_is_registered_correctly(content):
    query, key, value = features((1, 1, 6, 4, 2, 3), 13, torch.float32)
    clocks = [torch.rand_like(x, dtype=torch.float64).cumsum(2).requires_grad_() for x in (query, key)]
    variances = [torch.rand(1, 1, n).add(0.1).requires_grad_() for n in (6, 4)]
    evidence = [torch.randn(1, 1, n, 2).requires_grad_() if content else None for n in (6, 4)]
    valid = (torch.arange(6)[None] < 5, torch.arange(4)[None] < 4)
    scale = torch.ones(1, requires_grad=True)
    arguments = (*clocks, value.requires_grad_(), *variances, *valid, scale, *evidence, content, 1e-6, content)
    torch.library.opcheck(operator.attend, arguments)
