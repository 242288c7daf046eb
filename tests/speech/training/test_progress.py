"""Progress of a training: log and lines."""

import csv

import pytest

from clock_attention.speech.training import progress
from clock_attention.speech.training.progress import Reporter, RunLog, log_columns, read_log, readable_duration, short

NAMES = (("l1",), ("valid_l1",))


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_rows_after_the_step_resumed_from_are_written_again(tmp_path):
    log = RunLog(tmp_path, 0, *NAMES)
    for step in (10, 20, 30):
        log.write({"step": step, "l1": 1 / step})
    log.close()
    again = RunLog(tmp_path, 20, *NAMES)
    again.write({"step": 30, "l1": 0.5, "valid_l1": 0.25})
    again.close()
    assert [(row["step"], row["l1"], row["valid_l1"]) for row in rows(tmp_path / "log.csv")] == [
        ("10", "0.1", ""),
        ("20", "0.05", ""),
        ("30", "0.5", "0.25"),
    ]


def test_the_unfinished_line_of_a_killed_process_is_not_read(tmp_path):
    columns = log_columns(*NAMES)
    (tmp_path / "log.csv").write_text(",".join(columns) + "\n" + "10" + "," * (len(columns) - 1) + "\n20,1")
    assert [row["step"] for row in read_log(tmp_path / "log.csv")] == ["10"]
    assert read_log(tmp_path / "no.csv") == []


def test_numbers_are_short():
    assert [short(value) for value in (3, 1 / 3, 1e-9)] == ["3", "0.333333", "1e-09"]


def test_a_file_gets_a_plain_line_now_and_then(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    reporter = Reporter(100, 1100)
    for step in (101, 200):
        now[0] += 36.0
        reporter.advance(step, 0.5, 36)
    reporter.close()
    assert capsys.readouterr().out.splitlines() == [
        "step 101/1100  L1 0.5000  1.0 utterances/s  10.0 h left",
        "step 200/1100  L1 0.5000  1.0 utterances/s  11 min left",
    ]
    quiet = Reporter(0, 10, quiet=True)
    quiet.say("nothing")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("losses", [("l1",), ("l1", "length")])
def test_columns_begin_with_when(losses):
    assert log_columns(losses, ())[:2] == ("step", "epoch")


@pytest.mark.parametrize(("seconds", "text"), [(89, "89 s"), (90, "2 min"), (5399, "90 min"), (5400, "1.5 h")])
def test_durations(seconds: float, text: str) -> None:
    assert readable_duration(seconds) == text
