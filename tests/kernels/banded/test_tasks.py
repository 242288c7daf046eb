"""Heads and chunks of queries as tasks: the same result on any number of threads."""

import torch

from clock_attention.kernels.banded import tasks

from ..attention_cases import content_of, features, gradients

BANDED = {"impl": "banded"}


def test_without_a_folder_for_the_cache_it_compiles_all_the_same(caplog, monkeypatch):
    def cfunc(signature, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: "compiled"

    monkeypatch.setattr(tasks.numba, "cfunc", cfunc)
    assert tasks.compile_entry(False, False) == "compiled"
    assert "NUMBA_CACHE_DIR" in caplog.text


def test_results_do_not_depend_on_the_number_of_threads_or_on_the_run():
    shape = (1, 3, 700, 90, 16, 24)
    inputs = (*features(shape, 6, torch.float32), *content_of("features", shape, 6, torch.float32))
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
