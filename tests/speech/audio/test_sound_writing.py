"""Sound files appear whole, and nothing is left of interrupted ones."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from clock_attention.files import temporary_name
from clock_attention.speech.audio.sound_writing import save_sound


def test_a_sound_file_removes_what_a_killed_process_left_of_it(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    mine = temporary_name(tmp_path / "x.wav")
    left = mine.with_name(mine.name.replace(f"-{os.getpid()}.", f"-{process.pid}."))
    left.write_bytes(b"half of a sentence")
    save_sound(tmp_path / "x.wav", np.zeros(100, np.float32), 22050)
    assert [path.name for path in tmp_path.iterdir()] == ["x.wav"]
