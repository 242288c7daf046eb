"""The report of a dubbing."""

import json

from matplotlib.image import imread

from clock_attention.speech.dubbing.report import as_text, clock, draw_timeline, save_report, save_timeline, summary
from clock_attention.speech.dubbing.slot import EMPTY, FAST, IMPOSSIBLE, SPOKEN, CueReport

REPORTS = [
    CueReport(1, 0.0, 2.0, "Fine.", SPOKEN, 172, 172, 2.0, 1.0, words=1),
    CueReport(2, 2.0, 3.0, "Far too much.", FAST, 86, 86, 2.5, 2.5, 1, 0.56, 3),
    CueReport(3, 3.0, 3.1, "Never.", IMPOSSIBLE, 8, 0, 2.0, 20.0, 1, 1.2, 1, overlaps=True),
    CueReport(4, 3650.0, 3700.0, "", EMPTY, 4000),
]


def test_counts_and_paces():
    found = summary(REPORTS)
    assert {found[name] for name in ("spoken", "too_fast", "impossible", "empty", "overlapping")} == {1}
    assert (found["median_pace"], found["fastest_pace"], found["seconds"]) == (2.5, 20.0, 3700.0)
    assert summary([])["median_pace"] is None


def test_only_cues_that_need_attention_have_a_line():
    first, *lines = as_text(REPORTS, 1.6).splitlines()
    assert first.startswith("4 cues: 1 spoken, 1 faster than 1.6 times natural, 1 impossible, 1 empty, 1 overlapping")
    assert lines == [
        "cue 2 at 0:00:02.000: needs pace 2.50 (2.50 s in 1.00 s); cut 0.56 s, about 1 of 3 words: Far too much.",
        "cue 3 at 0:00:03.000: cannot be spoken: it would need pace 20.00 (2.00 s in 0.10 s); cut 1.20 s, about 1 of 1 "
        "words: Never.",
    ]
    assert clock(3725.5) == "1:02:05.500"


def test_the_format_follows_the_name(tmp_path):
    save_report(REPORTS, tmp_path / "x.json", 1.6)
    written = json.loads((tmp_path / "x.json").read_text("utf-8"))
    assert [cue["number"] for cue in written["cues"]] == [1, 2, 3, 4]
    save_report(REPORTS, tmp_path / "x.txt", 1.6)
    assert (tmp_path / "x.txt").read_text("utf-8") == as_text(REPORTS, 1.6)


def test_an_hour_is_drawn_on_a_bounded_number_of_rows(tmp_path):
    figure = draw_timeline(REPORTS, 1.6)
    assert len(figure.axes[0].get_yticks()) <= 60  # a minute each, or a sixtieth of the whole
    save_timeline(REPORTS[:2], tmp_path / "x.png", 1.6, dpi=40)
    assert imread(tmp_path / "x.png").std() > 0
