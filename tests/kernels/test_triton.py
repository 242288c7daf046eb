"""The Triton kernels in their interpreter: equal to the fp64 reference, disjoint writes, a registered operator.

`benchmarks/triton_interpreter.py` runs thousands of such cases; these are the ones that show each property.
"""

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="triton is not installed: make gpu-tools")

from clock_attention import ClockAttention, clock_attention
from clock_attention.kernels import selfcheck
from clock_attention.kernels import triton as kernels
from clock_attention.kernels.triton import geometry, operator, readings, scores

from .attention_cases import features
from .triton_cases import CLOCKS, Case, judge, patch_interpreter, random_case, run, run_interpreted

pytestmark = [
    pytest.mark.skipif(not kernels.interpreted(), reason="TRITON_INTERPRET is off: `make gpu-check` runs on the GPU"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # the interpreter's numpy, for what is masked afterwards
]
TRITON = {"impl": "triton", "return_weights": False}


@pytest.fixture(autouse=True)
def _interpreter():
    patch_interpreter()


@pytest.mark.parametrize("seed", [3, 424, 1266, *range(6)])
def test_random_problems_are_within_bounds(seed):
    found = judge(random_case(seed))
    assert found["good"], found


@pytest.mark.parametrize("seed", [161, 248, 266, 318, 375, 398, 402, 451, 507, 568, 650, 938, 1051])
def test_rows_with_large_logits_keep_their_gradients(seed):
    """Once out of bounds: a log-sum-exp rounded at the size of the logits, and ∂/∂logit that did not add to 0."""
    found = judge(random_case(seed))
    assert found["good"], found


@pytest.mark.parametrize("seed", [389, 442, 684, 741, 870, 1138])
def test_features_that_hardly_differ_keep_their_clocks(seed):
    """Once out of bounds: a mean rounded to fp32 in the time norm, which is a drift of the clock."""
    found = judge(random_case(seed))
    assert found["good"], found
    assert not found["ill_conditioned"]


EVERYTHING = {"content_width": 4, "log_variance_term": True, "padding": "anywhere", "weights": True, "heads": 2}


@pytest.mark.parametrize(
    "case",
    [
        Case(1, queries=1, keys=1),
        Case(2, queries=33, keys=1, **EVERYTHING),
        Case(3, queries=1, keys=33, clocks=CLOCKS[5]),
        Case(4, queries=33, keys=19, width=9, value_width=17, **EVERYTHING),
        Case(5, queries=40, keys=33, full_band=True),
        Case(6, queries=40, keys=33, scale=-0.5),
    ],
    ids=["one-step", "one-key", "one-query", "all-options", "full-band", "negative-scale"],
)
def test_extremes_are_within_bounds(case):
    found = judge(case)
    assert found["good"], found


def test_no_valid_step_at_all_gives_zeros():
    query, key, value = (x.requires_grad_() for x in features((2, 1, 5, 4, 2, 3), 0, torch.float32))
    nothing = torch.tensor([[True] * 4, [False] * 4])
    output, _ = clock_attention(query, key, value, key_padding_mask=nothing, **TRITON)
    assert not output[0].any()
    assert output[1].any()
    gradients = torch.autograd.grad(output.sum(), (query, key, value))
    assert all(g.isfinite().all() and not g[0].any() for g in gradients)


@pytest.mark.parametrize("side", [0, 1])
def test_numbers_that_are_none_are_not_hidden(side):
    inputs = list(features((1, 2, 20, 17, 2, 3), 7, torch.float32))
    inputs[side][0, 0, 10] = torch.nan
    found, _ = clock_attention(*inputs, **TRITON)
    expected, _ = clock_attention(*inputs, impl="reference")
    assert torch.equal(found.isnan(), expected.isnan())


def chosen_tiles(query: torch.Tensor, key: torch.Tensor, cut: geometry.Geometry, **options: object) -> torch.Tensor:
    """[first, last) of every query tile, as `choose_tiles` left them."""
    kept = []
    original = operator.Meeting.__init__

    def remember(self, *arguments):
        original(self, *arguments[:-1], cut)
        kept.append(self)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(operator.Meeting, "__init__", remember)
        clock_attention(query, key, key, **TRITON, **options)
    return kept[0].ranges


def test_a_sharp_scale_leaves_a_band_of_one_or_two_tiles():
    line = torch.zeros(1, 1, 64, 2)
    ranges = chosen_tiles(line, line, geometry.Geometry(16, 16), logit_scale=1e4)
    assert ((ranges[..., 1] - ranges[..., 0]) <= 2).all()
    assert (ranges[0, 0, :, 0] <= torch.arange(4)).all()
    assert (ranges[0, 0, :, 1] > torch.arange(4)).all()


def test_a_step_never_depends_on_later_queries_bitwise():
    query, key, value = features((1, 1, 37, 20, 2, 3), 5, torch.float32)
    options = {"clocks": "causal", "pace": 2.0, **TRITON}
    output, _ = clock_attention(query, key, value, **options)
    for s in (0, 17, 31):
        changed = query.clone()
        changed[:, :, s + 1 :] = 30 * torch.randn_like(changed[:, :, s + 1 :])
        after, _ = clock_attention(changed, key, value, **options)
        assert torch.equal(after[:, :, : s + 1], output[:, :, : s + 1])


def test_results_are_deterministic():
    case = Case(8, queries=33, keys=33, heads=2)
    assert all(torch.equal(a, b) for a, b in zip(run_interpreted(case), run_interpreted(case), strict=True))


def test_every_result_is_written_exactly_once(monkeypatch):
    """No race is possible between programs that never write to the same place: counts the stores of every kernel.

    Gradients are poisoned with NaN before their kernel runs, so that what nobody writes shows as well.
    """
    from triton.runtime import interpreter

    writes: collections.Counter[int] = collections.Counter()
    seen = set()
    store, launch = interpreter.InterpreterBuilder.create_masked_store, interpreter.GridExecutor.__call__

    def counting_store(self, pointers, value, mask, *rest):
        writes.update(np.broadcast_to(pointers.data, mask.data.shape)[mask.data].tolist())
        return store(self, pointers, value, mask, *rest)

    def counting_launch(self, *arguments, **options):
        writes.clear()
        results = {}
        for name, x in zip(self.arg_names, arguments, strict=False):
            if not isinstance(x, torch.Tensor) or name in ("grad_out", "grad_weights") or not x.numel():
                continue
            gradient = name.startswith("grad_")
            if gradient or (self.fn.__name__ == "attend_tile" and name in ("out", "softmax")):
                x.fill_(torch.nan)
                results[f"{self.fn.__name__}:{name}"] = x
        launch(self, *arguments, **options)
        assert max(writes.values()) == 1  # nothing at all is written twice by a launch
        for name, x in results.items():
            places = range(x.data_ptr(), x.data_ptr() + x.numel() * x.element_size(), x.element_size())
            assert all(writes[place] == 1 for place in places), name
        seen.update(results)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_masked_store", counting_store)
    monkeypatch.setattr(interpreter.GridExecutor, "__call__", counting_launch)
    found = run_interpreted(Case(9, queries=33, keys=17, heads=2, padding="anywhere", content_width=3))
    assert all(x.isfinite().all() for x in found)
    assert {name.split(":")[0] for name in seen} == {"attend_tile", "query_gradients", "key_gradients"}
    assert len(seen) == 2 + 4 + 4


@pytest.mark.parametrize("content", [False, True])
def test_a_step_of_a_batch_of_states_is_one_launch_and_equals_plain_torch(content):
    attention = ClockAttention(12, 3, clocks="causal", pace=2.0, content_dim=4 if content else None)
    query, memory = torch.randn(3, 4, 12), torch.randn(3, 70, 12)
    padded = torch.arange(70) >= torch.tensor([[70], [3], [65]])
    with torch.no_grad():
        state, other = attention.start(memory, padded), attention.start(memory, padded)
        for s in range(3):
            attention.impl = "portable"
            expected, weights, state = attention.step(query[:, s], state)
            attention.impl = "triton"
            found, found_weights, other = attention.step(query[:, s], other)
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
    for reason, call in (
        ("attn_mask", lambda: clock_attention(query, key, value, attn_mask=torch.zeros(4, 3), **TRITON)),
        ("fp64", lambda: clock_attention(query.double(), key.double(), value.double(), **TRITON)),
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


@pytest.fixture
def _fresh_verdicts(monkeypatch, tmp_path):
    monkeypatch.setattr(selfcheck, "verdicts", {})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.slow
@pytest.mark.usefixtures("_fresh_verdicts")
def test_the_self_check_trusts_a_right_kernel_once_and_for_all(monkeypatch):
    assert selfcheck.trusted("cpu", 0)
    monkeypatch.setattr(selfcheck, "largest_differences", lambda device: pytest.fail("checked again"))
    assert selfcheck.trusted("cpu", 0)
    selfcheck.verdicts.clear()  # another process
    assert selfcheck.trusted("cpu", 0)


@pytest.mark.usefixtures("_fresh_verdicts")
@pytest.mark.parametrize(
    ("differences", "reason"),
    [
        (lambda device: {"output": 0.3, "gradients": 1e-6}, "output off by 3.0e-01"),
        (lambda device: {"output": 1e-6, "gradients": float("nan")}, "gradients by nan"),
        (lambda device: 1 / 0, "does not run"),
    ],
)
def test_the_self_check_warns_once_with_figures_and_falls_back(monkeypatch, caplog, differences, reason):
    monkeypatch.setattr(selfcheck, "largest_differences", differences)
    assert not selfcheck.trusted("cpu", 0)
    assert not selfcheck.trusted("cpu", 0)
    assert caplog.text.count(reason) == 1
    assert not selfcheck.verdict_file().exists()


def test_the_environment_replaces_auto(monkeypatch):
    inputs = features((1, 1, 5, 4, 2, 2), 1, torch.float32)
    called = []
    monkeypatch.setattr(kernels, "attend", lambda *arguments: called.append(1) or (inputs[2], None, None, None))
    monkeypatch.setenv("CLOCK_ATTENTION_IMPL", "triton")
    clock_attention(*inputs)
    assert called
    clock_attention(*inputs, impl="portable")
    assert len(called) == 1
    monkeypatch.setenv("CLOCK_ATTENTION_IMPL", "nonsense")
    with pytest.raises(ValueError, match="CLOCK_ATTENTION_IMPL: got 'nonsense'"):
        clock_attention(*inputs)


ROOT = Path(__file__).parents[2]


def test_forward_and_backward_find_the_same_bits_for_a_pair():
    """A row with one key has the weight 1 in the backward pass too, however far apart the clocks are."""
    query, key, value = features((1, 1, 40, 40, 2, 3), 21, torch.float32)
    value.requires_grad_()
    output, weights = clock_attention(
        query, key, value, clocks="unnormalized", logit_scale=-30.0, impl="triton", return_weights=True
    )
    assert torch.equal(weights.amax(-1), torch.ones_like(weights[..., 0]))
    (gradient,) = torch.autograd.grad(output.sum(), value)
    torch.testing.assert_close(gradient[..., 0], weights.sum(-2), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("at_once", [False, True])
def test_gradients_of_keys_in_two_launches_equal_those_in_one(at_once, monkeypatch):
    case = Case(10, queries=20, keys=17, content_width=3, tiles=(16, 16))
    expected = run_interpreted(case)
    cut = geometry.Geometry(16, 16, keys_at_once=at_once)
    monkeypatch.setattr(geometry, "tile_geometry", lambda *sizes: cut)
    assert all(torch.equal(a, b) for a, b in zip(run(case, "triton", torch.float32), expected, strict=True))


def test_the_table_of_resources_is_of_these_kernels_and_within_budget():
    """Compiled for four chips by `benchmarks/triton_resources.py`: no spills, a quarter of the threads resident."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import gpu_cost
        import triton_resources
    finally:
        sys.path.pop(0)
    cut = geometry.tile_geometry(64, 64, 0, torch.bfloat16)
    assert (cut.queries, cut.keys, cut.forward_warps) == (gpu_cost.QUERIES, gpu_cost.KEYS, gpu_cost.WARPS)
    table = json.loads((ROOT / "results/triton_resources.json").read_text())
    assert table["sources"] == triton_resources.fingerprint(), "stale: python benchmarks/triton_resources.py --out …"
    assert {row["target"] for row in table["rows"]} == set(triton_resources.TARGETS)
    assert [row for row in table["rows"] if not triton_resources.within_budget(row)] == []


@pytest.mark.slow
def test_kernels_compile_without_a_gpu_within_budget():
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    command = [
        sys.executable,
        "benchmarks/triton_resources.py",
        "--only",
        "sm_90",
        "--widths",
        "64",
        "--dtypes",
        "bf16",
    ]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_constants_agree():
    assert 1 + max(readings.VARIANCE.value, readings.FLOOR.value, readings.PULL.value) == operator.FIELDS
    assert scores.SOFTMAX.value == operator.SOFTMAX
    assert run(Case(1), "reference", torch.float64)[0].shape == (1, 1, 17, 3)
