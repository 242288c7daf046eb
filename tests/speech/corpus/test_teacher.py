from pathlib import Path

import numpy as np
import pytest

from clock_attention.speech.corpus.teacher import Teacher, TeacherPhrase, plan_readings, read_lines

LINES = [
    (f"line{number}", f"Line {number} has some words, and then some more words after a comma.") for number in range(40)
]


def test_text_files_of_three_kinds_are_read(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text('\ufeffOne "line.\n\nAnother line.\n', encoding="utf-8")
    (tmp_path / "two.csv").write_text("a|First\nb|Second\n", encoding="utf-8")
    (tmp_path / "three.csv").write_text('a|Nr. 1|Number "one\nb|Second|\n', encoding="utf-8")
    assert read_lines(tmp_path / "plain.txt")[0] == [("plain-00001", 'One "line.'), ("plain-00003", "Another line.")]
    assert read_lines(tmp_path / "two.csv")[0] == [("a", "First"), ("b", "Second")]
    assert read_lines(tmp_path / "three.csv")[0] == [("a", 'Number "one'), ("b", "Second")]


def test_corpora_at_other_speeds_hold_the_same_phrases() -> None:
    plain = plan_readings(LINES, seed=5, limit=30)
    mixed = plan_readings(LINES, seed=5, limit=30, speeds=(0.6, 1.0, 1.6))
    assert [reading.text for reading in plain] == [reading.text for reading in mixed]
    assert [reading.group for reading in plain] == [reading.group for reading in mixed]
    assert {reading.speed for reading in mixed} == {0.6, 1.0, 1.6}
    assert len({reading.id for reading in mixed}) == 30
    assert [reading.text for reading in plan_readings(LINES, seed=6, limit=30)] != [reading.text for reading in plain]


def test_speeds_beyond_the_teacher_are_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.5…2\.0"):
        plan_readings(LINES, seed=0, speeds=(3.0,))


def test_the_teacher_is_deterministic_and_obeys_speed() -> None:
    teacher = Teacher()
    reading = TeacherPhrase("a", "a", "The birch canoe slid on the smooth planks.", 1.0, 0)
    wave = teacher(reading)
    assert wave.dtype == np.float32
    np.testing.assert_array_equal(wave, Teacher()(reading))
    slow = teacher(TeacherPhrase("a", "a", reading.text, 0.6, 0))
    assert 1.3 < len(slow) / len(wave) < 2.0
    assert len(teacher(TeacherPhrase("b", "b", " ", 1.0, 0))) == 0
