"""Shared by all tests: seeded inputs, reproducible property tests, one thread each (the suite runs in parallel)."""

import os

import pytest
import torch
from hypothesis import HealthCheck, settings

# Before anything imports triton, torch.compile included: its kernels are tested in its interpreter.
os.environ.setdefault("TRITON_INTERPRET", "1")
# Before anything makes a console: tables are read as on a wide terminal, not cut at 80 columns.
os.environ["COLUMNS"] = "200"

settings.register_profile(
    "default",
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("default")
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
