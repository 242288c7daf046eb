"""Files that appear whole or not at all, locks that die with their process, and left-overs that somebody removes."""

import os
import signal
import subprocess
import sys

import pytest

from clock_attention.files import (
    LockedError,
    check_ending,
    check_writable,
    locked,
    make_folder,
    read_utf8,
    replacing,
    temporary_name,
    visible_files,
    write_atomically,
)

HOLD = """
import sys, time
from pathlib import Path
from clock_attention.files import locked
with locked(Path(sys.argv[1]), "a test"):
    print("held", flush=True)
    time.sleep(60)
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def ended_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "x.json"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "lone surrogate \ud800")

    def fail() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["x.json"]


def test_left_overs_of_dead_processes_are_removed_and_those_of_living_ones_are_not(tmp_path):
    path = tmp_path / "x.wav"
    mine = temporary_name(path)
    dead = mine.with_name(mine.name.replace(str(os.getpid()), str(ended_process())))
    alive = mine.with_name(mine.name.replace(str(os.getpid()), str(os.getppid())))
    elsewhere = mine.with_name(mine.name.replace(".wav.", ".wav.0ff1ce"))  # of another machine, or not ours at all
    for file in (dead, alive, elsewhere):
        file.write_text("half")
    write_atomically(path, "whole")
    assert names(tmp_path) == sorted([alive.name, elsewhere.name, "x.wav"])


def test_names_as_long_as_the_file_system_allows_can_be_written(tmp_path):
    path = tmp_path / ("é" * 127)
    write_atomically(path, "whole")
    assert names(tmp_path) == [path.name]


def test_a_folder_has_one_writer_and_a_killed_one_does_not_lock_it(tmp_path):
    run = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(run)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(LockedError, match=rf"writing a run there .process {process.pid} on "), locked(run, "a run"):
            pass
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    with locked(run, "a run"):
        pass


def test_what_cannot_be_a_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="file is a file, expected a folder"):
        make_folder(tmp_path / "file" / "run")
    with pytest.raises(NotADirectoryError, match="file is a file, expected a folder"):
        make_folder(tmp_path / "file")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_named(tmp_path):
    (tmp_path / "kept").mkdir(mode=0o500)
    with pytest.raises(PermissionError, match="kept is not writable"):
        make_folder(tmp_path / "kept" / "run")


def test_unwritable_places_are_refused_before_any_work(tmp_path):
    (tmp_path / "file").write_text("")
    for path, complaint in (
        (tmp_path, "is a folder"),
        (tmp_path / "nowhere" / "a.txt", "does not exist"),
        (tmp_path / "file" / "a.txt", "is a file, expected a folder"),
    ):
        with pytest.raises(ValueError, match=complaint):
            check_writable(path)
    assert check_writable(str(tmp_path / "a.txt")) == tmp_path / "a.txt"


def test_links_in_a_circle_come_to_an_end(tmp_path):
    folder = tmp_path / "recordings"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "x.wav").touch()
    (tmp_path / "outside.wav").touch()
    for name, target in (("up", ".."), ("self", "."), ("a/back", "../a"), ("again", "a"), ("loop", "loop")):
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe.wav")  # opening it would wait for somebody who writes
    assert [path.resolve() for path in visible_files(folder)] == [folder / "a" / "x.wav"]


def test_other_encodings_are_refused_with_a_way_out(tmp_path):
    (tmp_path / "x.csv").write_bytes("a|déjà".encode("latin1"))
    with pytest.raises(ValueError, match=r"is not UTF-8 \(byte 3\): convert it, e\.g\. with iconv"):
        read_utf8(tmp_path / "x.csv")


def test_endings_are_checked_in_any_case(tmp_path):
    assert check_ending(tmp_path / "x.NPY", (".npy",)).name == "x.NPY"
    with pytest.raises(ValueError, match=r"x\.txt: expected a name ending in \.npy, \.npz"):
        check_ending(tmp_path / "x.txt", (".npy", ".npz"))
