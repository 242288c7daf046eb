"""The banded kernel is the literal algorithm, for everything it serves, and says so when it does not serve it."""

import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clock_attention import clock_attention
from clock_attention.kernels import band_tasks, banded, threads
from clock_attention.kernels.clock_loops import GIVEN

from .attention_cases import OPTIONS, features, gradients, padding, shapes

BANDED = {"impl": "banded"}


def scales(heads: int) -> torch.Tensor:
    return torch.linspace(0.5, 2.0, heads)


def holes(batch: int, length: int, seed: int) -> torch.Tensor:
    """Padding anywhere, True = padding, sometimes everywhere."""
    g = torch.Generator().manual_seed(seed)
    return torch.rand(batch, length, generator=g) < torch.rand(batch, 1, generator=g)


@given(shapes(), st.integers(0, 999), st.sampled_from(OPTIONS), st.sampled_from([padding, holes, None]))
def test_outputs_weights_and_gradients_equal_the_reference(shape, seed, options, mask):
    """In fp32 against fp64, with NaN in the padding, the weights' own gradient included."""
    batch, heads, targets, sources = shape[:4]
    exact = [*features(shape, seed), scales(heads).double()]
    masks = {}
    if mask is not None:
        masks = {
            "query_padding_mask": mask(batch, targets, seed),
            "key_padding_mask": mask(batch, sources, seed + 1),
        }
        for x, padded in zip(exact, (*masks.values(), masks["key_padding_mask"]), strict=False):
            x.masked_fill_(padded[:, None, :, None], torch.nan)
    found, expected = [], []
    for results, dtype, impl in ((found, torch.float32, "banded"), (expected, torch.float64, "reference")):
        inputs = [x.to(dtype).requires_grad_() for x in exact]
        output, weights = clock_attention(*inputs[:3], **masks, **options, logit_scale=inputs[3], impl=impl)
        g = torch.Generator().manual_seed(seed)
        loss = (output * torch.randn(output.shape, generator=g)).sum()
        loss = loss + (weights * torch.randn(weights.shape, generator=g)).sum()
        results += [output, weights, *torch.autograd.grad(loss, inputs)]
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-4 * max(1.0, float(b.detach().abs().max())))
    torch.testing.assert_close(found[0].double(), expected[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("side", ["query", "key"])
def test_numbers_that_are_none_are_not_hidden(side, bad, options):
    """A training that diverges must be seen to: NaN comes out where the reference has it, and in every gradient."""
    inputs = dict(zip(("query", "key", "value"), features((2, 2, 50, 20, 16, 8), 7, torch.float32), strict=True))
    inputs[side][1, 0, 10] = bad
    found = {}
    for impl in ("banded", "reference"):
        given = [x.clone().requires_grad_() for x in inputs.values()]
        output, weights = clock_attention(*given, **options, return_weights=True, impl=impl)
        found[impl] = [output, weights, *torch.autograd.grad(output.sum() + weights.square().sum(), given)]
    for a, b in zip(found["banded"][:2], found["reference"][:2], strict=True):
        assert not b[1, 0].isfinite().all()
        assert torch.equal(a.isfinite(), b.isfinite())
    for gradient in found["banded"][2:4]:
        assert gradient[0].isfinite().all()
        assert not gradient[1, 0].isfinite().any()


def test_second_derivatives_are_refused_with_a_way_out():
    query, key, value = (x.requires_grad_() for x in features((1, 2, 5, 4, 8, 8), 0, torch.float32))
    output, _ = clock_attention(query, key, value, **BANDED)
    (first,) = torch.autograd.grad(output.square().sum(), query, create_graph=True)
    with pytest.raises(NotImplementedError, match="impl='portable'"):
        first.sum().backward()


@pytest.mark.parametrize("shape", [(2, 4, 650, 100, 64, 64), (1, 1, 4096, 1024, 64, 64), (1, 1, 100, 650, 32, 48)])
def test_long_sequences_are_exact_to_1e_5(shape):
    exact = gradients(features(shape, 1), impl="reference")
    found = gradients(features(shape, 1, torch.float32), **BANDED)
    assert (found[0] - exact[0]).abs().max() <= 1e-5
    for gradient, truth in zip(found[1:], exact[1:], strict=True):
        assert (gradient - truth).abs().max() <= 2e-5 * max(1.0, float(truth.abs().max()))


def step_like(shape: tuple[int, ...], at: float) -> torch.Tensor:
    """Features whose clock stands still and then jumps: every query meets a crowd of keys."""
    x = torch.full(shape, -3.0, dtype=torch.float64) + 0.01 * torch.randn(shape, dtype=torch.float64)
    place = int(at * (shape[2] - 2))
    x[:, :, place : place + 2] = 40.0
    return x


@pytest.mark.parametrize("scale", [0.02, 1.0, 40.0, 0.0, -1.0])
@pytest.mark.parametrize("kind", ["flat", "steps", "opposite"])
def test_adversarial_clocks(kind, scale):
    """Wide bands, clocks that meet nowhere, and scales for which no bound holds."""
    shape = (1, 2, 83, 57, 9, 4)
    query, key, value = features(shape, 3)
    if kind == "flat":
        query, key = query * 0 + 1.0, key * 0 - 2.0
    elif kind == "steps":
        query, key = step_like(query.shape, 0.3), step_like(key.shape, 0.8)
    else:
        query, key = query + torch.linspace(-9, 9, 83)[:, None], key + torch.linspace(9, -9, 57)[:, None]
    exact = gradients((query, key, value), impl="reference", logit_scale=scale)
    found = gradients((query.float(), key.float(), value.float()), logit_scale=scale, **BANDED)
    for a, b in zip(found, exact, strict=True):
        # A jump in one step makes rounded features matter more than anything the kernel does.
        tolerance = 2e-3 if kind == "steps" else 2e-4
        torch.testing.assert_close(a.double(), b, rtol=tolerance, atol=tolerance * max(1.0, float(b.abs().max())))


def test_a_step_never_depends_on_later_queries_bitwise():
    query, key, value = features((2, 2, 150, 40, 16, 16), 5, torch.float32)
    options = {"clocks": "causal", "pace": 3.5, "return_weights": True, **BANDED}
    output, weights = clock_attention(query, key, value, **options)
    for s in (0, 7, 63, 64, 100, 148):
        changed = query.clone()
        changed[:, :, s + 1 :] = 30 * torch.randn_like(changed[:, :, s + 1 :])
        after, after_weights = clock_attention(changed, key, value, **options)
        assert torch.equal(after[:, :, : s + 1], output[:, :, : s + 1])
        assert torch.equal(after_weights[:, :, : s + 1], weights[:, :, : s + 1])


def test_results_do_not_depend_on_the_number_of_threads_or_on_the_run():
    inputs = features((1, 3, 700, 90, 16, 24), 6, torch.float32)
    before = torch.get_num_threads()
    results = {}
    try:
        for count in (1, 2, 2):
            torch.set_num_threads(count)  # three heads on two threads: queries are shared out in chunks
            found = gradients(inputs, **BANDED)
            first = results.setdefault(count, found)
            assert all(torch.equal(a, b) for a, b in zip(found, first, strict=True))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(results[1][0], results[2][0])
    for a, b in zip(results[1], results[2], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_batch_neighbours_and_padding_change_nothing():
    query, key, value = features((3, 2, 70, 30, 8, 8), 7, torch.float32)
    masks = {"query_padding_mask": torch.arange(70) >= torch.tensor([[70], [41], [9]]),
             "key_padding_mask": torch.arange(30) >= torch.tensor([[30], [17], [8]])}  # fmt: skip
    together, _ = clock_attention(query, key, value, **masks, **BANDED)
    for item, (s, t) in enumerate(((70, 30), (41, 17), (9, 8))):
        cut = (query[item : item + 1, :, :s], key[item : item + 1, :, :t], value[item : item + 1, :, :t])
        alone, _ = clock_attention(*cut, **BANDED)
        assert torch.equal(together[item : item + 1, :, :s], alone)
        assert not together[item, :, s:].any()


def test_layouts_are_read_as_they_are():
    """Heads split from a projection, expanded values, and channels that are not contiguous."""
    query, key, value = features((2, 3, 40, 21, 16, 16), 8, torch.float32)
    expected, _ = clock_attention(query, key, value, **BANDED)
    split = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (query, key, value)]
    assert torch.equal(clock_attention(*split, **BANDED)[0], expected)
    strided = [x.mT.contiguous().mT for x in (query, key, value)]
    assert torch.equal(clock_attention(*strided, **BANDED)[0], expected)
    shared = value[:, :1].expand(-1, 3, -1, -1)
    assert torch.equal(
        clock_attention(query, key, shared, **BANDED)[0], clock_attention(query, key, shared.clone(), **BANDED)[0]
    )
    joined = expected.transpose(1, 2)
    assert joined.is_contiguous()  # joining the heads afterwards copies nothing


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_is_computed_in_fp32(dtype):
    inputs = features((1, 2, 66, 20, 16, 16), 9, dtype)
    output, _ = clock_attention(*inputs, **BANDED)
    exact, _ = clock_attention(*(x.float() for x in inputs), **BANDED)
    assert output.dtype == dtype
    assert torch.equal(output, exact.to(dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under_autocast, _ = clock_attention(*(x.float() for x in inputs), variance="exact", **BANDED)
    assert under_autocast.dtype == torch.float32
    torch.testing.assert_close(
        under_autocast, clock_attention(*(x.float() for x in inputs), variance="exact", impl="portable")[0]
    )


def test_weights_are_built_on_request_only():
    inputs = features((1, 1, 30, 20, 8, 8), 10, torch.float32)
    output, none = clock_attention(*inputs, return_weights=False, **BANDED)
    same, weights = clock_attention(*inputs, return_weights=True, **BANDED)
    assert none is None
    assert torch.equal(output, same)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 1, 30))
    torch.testing.assert_close(weights @ inputs[2], output)


def test_dropped_weights_are_within_the_stated_tolerance():
    """Keys outside the band together weigh less than fp32 can tell: 2⁻²⁴ of a row."""
    inputs = features((1, 2, 300, 200, 32, 8), 11)
    _, exact = clock_attention(*inputs, impl="reference")
    _, found = clock_attention(*(x.float() for x in inputs), **BANDED)
    assert (found == 0).float().mean() > 0.5  # there is a band
    assert (exact * (found == 0)).sum(-1).max() <= banded.DROPPED


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"attn_mask": torch.zeros(6, 5, dtype=torch.bool)}, "attn_mask is given"),
        ({"vmap": True}, "torch.func transform"),
    ],
)
def test_what_it_cannot_serve_raises_by_name_and_falls_back_under_auto(change, reason):
    query, key, value = features((2, 1, 6, 5, 4, 4), 12, torch.float32)

    def call(query: torch.Tensor, impl: str) -> torch.Tensor:
        if "vmap" in change:
            return torch.func.vmap(lambda q: clock_attention(q[None], key[:1], value[:1], impl=impl)[0])(query)
        return clock_attention(query, key, value, **change, impl=impl)[0]

    with pytest.raises(ValueError, match=reason):
        call(query, "banded")
    torch.testing.assert_close(call(query, "auto"), call(query, "portable"))


def test_other_devices_are_refused():
    query, key, value = (x.to("meta") for x in features((2, 1, 6, 5, 4, 4), 12, torch.float32))
    with pytest.raises(ValueError, match="runs on the CPU only"):
        clock_attention(query, key, value, impl="banded")


def operator_arguments(given: bool) -> tuple:
    query, key, value = (x.requires_grad_() for x in features((2, 2, 20, 9, 5, 3), 13, torch.float32))
    scale = scales(2).requires_grad_()
    valid = (~padding(2, 20, 1), ~padding(2, 9, 2))
    if not given:
        return query, key, value, None, None, *valid, scale, 0, 0, 0, False, 1e-6
    clocks = [torch.rand_like(x, dtype=torch.float64).cumsum(2).requires_grad_() for x in (query, key)]
    variances = [torch.rand(2, 2, n).add(0.1).requires_grad_() for n in (20, 9)]
    return *clocks, value, *variances, *valid, scale, GIVEN, GIVEN, 0, True, 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("return_weights", [False, True])
def test_the_operator_is_registered_correctly(given, return_weights):
    torch.library.opcheck(banded.banded, (*operator_arguments(given), return_weights))


@pytest.mark.slow
def test_gradients_in_fp64_by_finite_differences():
    query, key, value = (x.requires_grad_() for x in features((1, 2, 11, 6, 3, 2), 14))
    scale = scales(2).double().requires_grad_()
    for options in ({}, {"clocks": "causal", "pace": 2.0}, {"clocks": "unnormalized"}, {"variance": "exact"}):
        assert torch.autograd.gradcheck(
            lambda q, k, v, s, options=options: clock_attention(q, k, v, logit_scale=s, **options, **BANDED),
            (query, key, value, scale),
        )


@pytest.mark.parametrize("options", [{}, {"clocks": "causal", "pace": 2.0}, {"clocks": "unnormalized", "phi": "exp"}])
def test_compiles_as_one_graph(options):
    def loss(query, key, value, padded):
        output, _ = clock_attention(query, key, value, padded, return_weights=False, **options)
        return (output * output).sum()

    inputs = [x.requires_grad_() for x in features((2, 2, 20, 9, 8, 8), 15, torch.float32)]
    padded = padding(2, 20, 3)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for a, b in zip(
        torch.autograd.grad(compiled(*inputs, padded), inputs),
        torch.autograd.grad(loss(*inputs, padded), inputs),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_several_python_threads_at_once():
    cases = [features((2, 2, 90 + i, 30, 16, 16), i, torch.float32) for i in range(4)]
    expected = [gradients(inputs, **BANDED) for inputs in cases]
    with ThreadPoolExecutor(4) as executor:
        for _ in range(3):
            for found, truth in zip(executor.map(lambda x: gradients(x, **BANDED), cases), expected, strict=True):
                assert all(torch.equal(a, b) for a, b in zip(found, truth, strict=True))


def test_without_libgomp_a_pool_of_python_threads_does_the_same(monkeypatch):
    inputs = features((2, 2, 90, 30, 16, 16), 16, torch.float32)
    expected = gradients(inputs, **BANDED)
    monkeypatch.setattr(threads, "team", lambda: None)
    assert all(torch.equal(a, b) for a, b in zip(gradients(inputs, **BANDED), expected, strict=True))


def test_empty_batch():
    query, key, value = (x[:0] for x in features((1, 2, 6, 5, 4, 3), 17, torch.float32))
    output, weights = clock_attention(query, key, value, **BANDED)
    assert output.shape == (0, 2, 6, 3)
    assert weights.shape == (0, 2, 6, 5)


def test_compile_time_is_logged_once(caplog, monkeypatch):
    monkeypatch.setattr(threads, "entries", {})
    inputs = features((1, 1, 9, 5, 4, 4), 18, torch.float32)
    with caplog.at_level(logging.INFO, logger="clock_attention"):
        clock_attention(*inputs, return_weights=False, **BANDED)
        clock_attention(*inputs, return_weights=False, **BANDED)
    assert len([record for record in caplog.records if "ready after" in record.message]) == 1


def test_without_a_folder_for_the_cache_it_compiles_all_the_same(caplog, monkeypatch):
    def cfunc(signature, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: "compiled"

    monkeypatch.setattr(band_tasks.numba, "cfunc", cfunc)
    assert band_tasks.compile_entry(False, False) == "compiled"
    assert "NUMBA_CACHE_DIR" in caplog.text


def test_another_process_reads_the_cache():
    """This process has compiled the kernel or found it; a worker must find it."""
    threads.entry(False, False)
    code = "from clock_attention.kernels import threads; assert threads.entry(False, False).cache_hits == 1"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ, timeout=300)
