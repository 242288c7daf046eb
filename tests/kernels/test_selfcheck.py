"""The Triton kernel is compared with plain torch before `impl="auto"` uses it."""

import pytest

pytest.importorskip("triton", reason="triton is not installed: make gpu-tools")

from clock_attention.kernels import selfcheck
from clock_attention.kernels import triton as kernels

from .triton_cases import patch_interpreter

pytestmark = [
    pytest.mark.skipif(not kernels.interpreted(), reason="TRITON_INTERPRET is off: `make gpu-check` runs on the GPU"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # the interpreter's numpy, for what is masked afterwards
]


@pytest.fixture(autouse=True)
def _interpreter():
    patch_interpreter()


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
