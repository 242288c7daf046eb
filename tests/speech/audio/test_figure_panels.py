"""Panels of the figures of speech."""

import numpy as np
import pytest

from clock_attention.speech.audio.figure_panels import (
    check_figure_path,
    draw_mel,
    draw_wave,
    draw_weights,
    empty_figure,
    mark_words,
    share_time,
    write_figure,
)
from clock_attention.timestamps import Interval


def test_panels_share_a_time_axis_and_words_are_marked_in_all(tmp_path):
    figure = empty_figure(4, 4)
    axes = dict(zip(("wave", "mel", "map"), figure.subplots(3, 1), strict=True))
    draw_wave(axes["wave"], np.sin(np.arange(20000) / 9).astype(np.float32), 2.0)
    draw_mel(axes["mel"], np.zeros((50, 8)), 2.0)  # silence: no range of values to spread colours over
    draw_weights(axes["map"], np.eye(5), (0, 2, 5, 0))
    share_time(axes, 2.0)
    words = [Interval(0.1, 0.9, "$5 and $6"), Interval(0.9, 1.8, "a_b")]
    mark_words(axes, axes["wave"], words)
    assert all(axis.get_xlim() == (0, 2.0) for axis in axes.values())
    assert [axis.get_xlabel() for axis in axes.values()] == ["", "", "time (s)"]
    assert all(len([line for line in axis.lines if line.get_xdata()[0] == 0.9]) == 1 for axis in axes.values())
    for suffix in (".png", ".svg"):
        write_figure(figure, tmp_path / f"x{suffix}", dpi=40)
        assert (tmp_path / f"x{suffix}").stat().st_size > 1000


def test_a_long_wave_is_drawn_by_its_envelope():
    axis = empty_figure(4, 1).subplots()
    wave = np.zeros(300_000, np.float32)
    wave[123_456] = 0.5  # one sample must not get lost between two points
    draw_wave(axis, wave, 10.0)
    assert axis.dataLim.ymax == 0.5
    assert axis.get_ylim()[1] == pytest.approx(0.55)


def test_names_that_are_no_pictures_are_refused(tmp_path):
    assert check_figure_path(tmp_path / "x.PNG").name == "x.PNG"
    with pytest.raises(ValueError, match=r"expected a name ending in \.png, \.svg, \.pdf"):
        check_figure_path(tmp_path / "x.jpeg")
