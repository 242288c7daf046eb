"""Stages are done once, and again when what they depend on has changed."""

import pytest

from clock_attention.own_voice.stages import Stages, digest_of


def run(folder, log, first=1, second=1):
    stages = Stages(folder)
    stages.run("a", first, lambda: log.append("a") or {"value": first})
    return stages.run("b", second, lambda: log.append("b") or {"value": second})


def test_a_change_repeats_its_stage_and_those_after_it(tmp_path):
    log = []
    assert run(tmp_path, log) == {"value": 1}
    assert run(tmp_path, log) == {"value": 1}
    assert log == ["a", "b"]
    run(tmp_path, log, second=2)
    assert log == ["a", "b", "b"]
    run(tmp_path, log, first=2, second=2)
    assert log == ["a", "b", "b", "a", "b"]


def test_a_stage_whose_output_is_gone_or_whose_file_is_damaged_is_repeated(tmp_path):
    log = []

    def work():
        log.append(1)
        (tmp_path / "out").write_text("x")
        return {}

    for _ in range(2):
        Stages(tmp_path).run("a", 1, work, [tmp_path / "out"])
    assert len(log) == 1
    (tmp_path / "out").unlink()
    Stages(tmp_path).run("a", 1, work, [tmp_path / "out"])
    (tmp_path / "a.json").write_text("{")
    Stages(tmp_path).run("a", 1, work, [tmp_path / "out"])
    assert len(log) == 3


def test_digests_change_with_names_and_contents(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_text("1")
    first = digest_of(tmp_path / "a")
    assert digest_of(tmp_path / "a") == first
    (tmp_path / "a" / "x").write_text("2")
    second = digest_of(tmp_path / "a")
    (tmp_path / "a" / "x").rename(tmp_path / "a" / "y")
    assert len({first, second, digest_of(tmp_path / "a")}) == 3


def test_a_stage_that_is_done_again_repeats_those_after_it(tmp_path):
    """Also where a later one changes what the first made, and nothing that it depends on looks different."""
    log = []
    for _ in range(3):
        stages = Stages(tmp_path / "stages")
        stages.run("a", 1, lambda: log.append("a") or (tmp_path / "out").touch() or {}, [tmp_path / "out"])
        stages.run("b", 1, lambda: log.append("b") or {})
        if len(log) == 2:
            (tmp_path / "out").unlink()
    assert log == ["a", "b", "a", "b"]


def test_what_an_interrupted_stage_left_is_kept_for_itself_alone(tmp_path):
    own, found = tmp_path / "own", []

    def interrupted():
        found.append(sorted(path.name for path in own.glob("*")))
        own.mkdir(exist_ok=True)
        (own / f"part{len(found)}").touch()
        raise KeyboardInterrupt

    for inputs in (1, 1, 2):
        with pytest.raises(KeyboardInterrupt):
            Stages(tmp_path / "stages").run("a", inputs, interrupted, own=own)
    assert found == [[], ["part1"], []]


def test_killed_while_the_folder_is_emptied_the_stage_is_not_taken_for_done(tmp_path, monkeypatch):
    own, log = tmp_path / "own", []

    def work():
        log.append(1)
        own.mkdir(exist_ok=True)
        return {}

    Stages(tmp_path / "stages").run("a", 1, work, own=own)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            Stages(tmp_path / "stages").run("a", 2, work, own=own)
    Stages(tmp_path / "stages").run("a", 1, work, own=own)
    assert len(log) == 2


def test_what_only_checks_is_no_reason_to_repeat_what_follows(tmp_path):
    log = []
    for inputs in (1, 2):
        stages = Stages(tmp_path)
        stages.run("check", inputs, lambda: log.append("check") or {}, chained=False)
        stages.run("train", 1, lambda: log.append("train") or {})
    assert log == ["check", "train", "check"]
