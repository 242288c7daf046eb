"""Shards of work, here and in other processes."""

from functools import partial

import pytest
import torch

from clock_attention.speech.corpus.shards import Progress, run_shards


class Doubling:
    """Writes a shard's sum to a file."""

    made = 0

    def __init__(self, folder):
        self.folder = folder
        type(self).made += 1

    def shard(self, number, items):
        (self.folder / str(number)).write_text(f"{sum(items)} {torch.get_num_threads()}")
        return Progress(len(items), 0, float(sum(items)), resumed=False)


def run(folder, shards, workers):
    finished = {}
    run_shards(partial(Doubling, folder), iter(shards), finished.__setitem__, workers)
    return finished


def test_one_worker_works_here_with_one_thread(tmp_path, monkeypatch):
    monkeypatch.setattr(Doubling, "made", 0)
    shards = [(number, range(number)) for number in (4, 2, 7)]
    finished = run(tmp_path, shards, 1)
    assert list(finished) == [4, 2, 7]
    assert finished[4] == Progress(4, 0, 6.0, resumed=False)
    assert (tmp_path / "7").read_text() == "21 1"  # sums must not depend on the number of threads
    assert Doubling.made == 1


def test_no_shard_makes_no_worker(tmp_path, monkeypatch):
    monkeypatch.setattr(Doubling, "made", 0)
    assert run(tmp_path, [], 1) == {}
    assert Doubling.made == 0


@pytest.mark.slow
def test_several_processes_do_the_same(tmp_path, monkeypatch):
    from pathlib import Path

    monkeypatch.syspath_prepend(Path(__file__).parents[3])
    shards = [(number, range(number)) for number in range(5)]
    finished = run(tmp_path, shards, 2)
    assert sorted(finished) == list(range(5))
    assert [(tmp_path / str(number)).read_text() for number in range(5)] == ["0 1", "0 1", "1 1", "3 1", "6 1"]
