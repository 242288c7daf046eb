"""What a creation leaves behind for people."""

import pytest
from matplotlib.image import imread

from clock_attention.own_voice.report import (
    draw_curves,
    explanation,
    left_out,
    measures_table,
    minutes_used,
    note,
    numbers,
    worst_table,
)

MEASURED = {
    "sentences": 24,
    "wer": [0.08, 0.05, 0.104],
    "recognizer": "moonshine",
    "distillmos": [4.28, 4.2, 4.35],
    "distillmos_copy": [4.06, 4.0, 4.1],
    "movement": 0.77,
    "bins": 0.71,
    "variance": 0.7,
    "skips": 0,
    "repeats": 1,
    "texts": ["Hello."],
}


def test_measures_have_their_intervals_and_a_comparison():
    rows = {row[0]: row[1:] for row in measures_table(MEASURED)}
    assert rows["word error rate (moonshine)"][0] == "8.0 % [5.0, 10.4]"
    assert rows["DistillMOS"] == ["4.28 [4.20, 4.35]", "4.06 [4.00, 4.10]"]
    assert "DNSMOS overall" not in rows
    assert "Not measured, because a package is not installed: dnsmos, similarity." in explanation(MEASURED)
    assert "texts" not in numbers(MEASURED)
    assert "recognizer" not in numbers(MEASURED)


def test_everything_that_was_left_out_is_counted_by_reason():
    found = {
        "gather": {"left_out": {"no text": (2, 7.0)}, "seconds": 600.0},
        "prepare": {
            "left_out": [("a", "clipped", "", 4.0), ("b", "clipped", "", 5.6), ("c", "missing", "", 3.0)],
            "removed": [2, 6.0],
        },
        "align": {"left_out": ["d"], "seconds_left_out": 20.4, "worst": [("d", None, "does not fit", "text")]},
    }
    assert left_out(found) == [
        ["reading", "no text", "2", "7"],
        ["preparing", "clipped", "2", "10"],
        ["preparing", "missing", "1", "3"],
        ["preparing", "removed by hand", "2", "6"],
        ["aligning", "the text does not fit", "1", "20"],
    ]
    assert minutes_used(found) == pytest.approx((600 - 12.6 - 6 - 20.4) / 60)
    assert worst_table(found)[1] == ["d", "", "does not fit", "text"]
    nothing = {"gather": {"left_out": {}}, "prepare": {"left_out": [], "removed": [0, 0]}, "align": {"left_out": []}}
    assert left_out(nothing) == []


@pytest.mark.parametrize("rows", ["", "100,0.5,\n200,0.4,0.45\n"])
def test_curves_are_drawn_where_something_was_logged(rows, tmp_path):
    (tmp_path / "log.csv").write_text("step,train_l1,valid_l1\n" + rows)
    assert draw_curves(tmp_path / "log.csv", tmp_path / "samples" / "curves.png") == bool(rows)
    assert (tmp_path / "samples").exists() == bool(rows)
    if rows:
        assert imread(tmp_path / "samples" / "curves.png").std() > 0


def test_a_note_ends_with_one_mark():
    assert note("the room is audible") == "Note: the room is audible."
    assert note("does somebody else speak?") == "Note: does somebody else speak?"
