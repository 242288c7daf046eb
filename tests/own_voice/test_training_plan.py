"""Steps follow from the minutes and the speed of the machine, and are planned once."""

import json
import subprocess
import sys
import tempfile

import pytest
import torch

from clock_attention.files import HOST
from clock_attention.own_voice import fine_tuning, training_plan
from clock_attention.own_voice.create import Creation, create
from clock_attention.own_voice.order import Order
from clock_attention.own_voice.training_plan import planned, warnings_about_time
from tests.speech.corpora import tiny_store

CONSENT = "A synthetic voice: nobody had to be asked"


@pytest.fixture
def order(recordings, quick, tmp_path):
    def ordered(minutes, **changes):
        return Order(recordings, tmp_path / "me", CONSENT, **{**quick, "steps": None, "minutes": minutes, **changes})

    return ordered


def test_the_faster_number_of_threads_is_planned(order, tmp_path, monkeypatch):
    monkeypatch.setattr(fine_tuning, "FEWEST_STEPS", 6)
    store = tiny_store(tmp_path / "store", timed=True)
    seconds = {1: 6.0, 2: 60.0}  # beside another program
    monkeypatch.setattr(training_plan, "seconds_per_step", lambda count, *_: seconds[count])
    for threads, (steps, used) in {None: (7, 1), 2: (6, 2)}.items():
        plan = planned(order(0.7, workers=2, threads=threads), None, store)
        assert (plan["steps"], plan["threads"], plan["seconds_per_step"]) == (steps, used, seconds[used])
    given = planned(order(0.7, workers=2, threads=None, steps=40), None, store)
    assert (given["steps"], given["threads"]) == (40, 2)


def test_the_planned_threads_train_and_too_few_steps_are_warned_about(order, monkeypatch):
    plan = {"steps": 6, "worthwhile": 500, "seconds_per_step": 6.0, "threads": 2}
    monkeypatch.setattr(Creation, "plan", lambda _: plan)
    trained, warnings = [], []
    real, before = Creation.train, torch.get_num_threads()
    monkeypatch.setattr(Creation, "train", lambda *a: trained.append(torch.get_num_threads()) or real(*a))
    create(order(0.7), quiet=True, warn=warnings.append)
    assert trained == [2]
    assert torch.get_num_threads() == before
    assert "6 steps of training fit into 0.7 minutes" in warnings[-1]
    assert "500 sound better, and would take 50 minutes" in warnings[-1]


def test_time_for_less_than_the_fewest_steps_is_not_said_to_be_enough(order):
    plan = {"steps": 200, "worthwhile": 500, "seconds_per_step": 6.0, "threads": 1}
    (warning,) = warnings_about_time(order(0.1), plan)
    assert warning.startswith(
        "200 steps of training, the least for a voice, take 20.0 minutes instead of 0.1 at the speed"
    )
    assert warning.endswith("500 sound better, and would take 50 minutes")


def test_the_training_that_is_timed_leaves_nothing_behind_even_if_killed(order, tmp_path, monkeypatch):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    left_over = tmp_path / "temporary" / f"clock-attention-timing-{HOST}-{ended.pid}-abcdefgh"
    left_over.mkdir(parents=True)
    planned = []
    real = Creation.plan
    monkeypatch.setattr(Creation, "plan", lambda self: planned.append(real(self)) or planned[0])
    monkeypatch.setattr(Creation, "train", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        create(order(1), quiet=True)
    assert planned
    assert list((tmp_path / "temporary").iterdir()) == []


def test_interrupted_while_timing_the_steps_nothing_is_planned(order, monkeypatch):
    short = training_plan.train
    monkeypatch.setattr(training_plan, "train", lambda *a, **k: short(*a, **{**k, "max_steps": 1}))
    with pytest.raises(KeyboardInterrupt):
        create(order(0.001), quiet=True)
    assert "result" not in json.loads((order(0.001).work / "stages" / "plan.json").read_text())


def test_steps_follow_from_the_minutes_and_are_remembered(order, monkeypatch):
    monkeypatch.setattr(fine_tuning, "FEWEST_STEPS", 3)
    found = create(order(0.001), quiet=True)
    assert found["plan"]["steps"] == fine_tuning.FEWEST_STEPS
    assert json.loads((order(0.001).work / "stages" / "plan.json").read_text())["result"] == found["plan"]
