"""Does an environment with nothing but the runtime speak as torch does, without torch and within 250 MB?

    python packaging/runtime/check.py RUNTIME_PYTHON

`make runtime` builds the environment and calls this with a Python that has torch and the extra `onnx`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile

from clock_attention.runtime.export import export_runtime
from clock_attention.speech.voice.voice import Voice

TEXT = "The birch canoe slid on the smooth planks. Dr. Smith paid $5 at 7:30 p.m.!"
LARGEST = 250e6  # bytes of the packages and an exported voice
CLOSE = 1e-3  # of full scale
INSTALLED = """
import importlib.util
from importlib.metadata import distributions

assert importlib.util.find_spec("torch") is None, "torch can be imported"
needed = [each for each in distributions() if each.metadata["Name"] not in ("pip", "setuptools")]
print(sum(file.locate().stat().st_size for each in needed for file in each.files or () if file.locate().is_file()))
"""


def main(python: str) -> None:
    python = str(Path(python).absolute())  # not resolved: the link is what makes it another environment
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        voice = Voice.load()
        exported = export_runtime(voice, folder / "voice")
        packages = int(subprocess.run([python, "-c", INSTALLED], check=True, capture_output=True, text=True).stdout)
        size = packages + sum(file.stat().st_size for file in exported.iterdir())
        began = time.monotonic()
        command = [python, "-m", "clock_attention.runtime", str(exported), TEXT, "-o", str(folder / "speech.wav")]
        subprocess.run(command, check=True, cwd=folder, capture_output=True)
        seconds = time.monotonic() - began
        found, _ = soundfile.read(folder / "speech.wav", dtype="float32")
        expected = voice.speak(TEXT).audio
    difference = float(np.abs(found - expected).max()) if found.shape == expected.shape else np.inf
    print(
        f"{packages / 1e6:.0f} MB of packages, {(size - packages) / 1e6:.0f} MB of voice; {seconds:.1f} s for a cold "
        f"command, {len(found) / voice.language.mel.sample_rate:.1f} s of speech; {difference:.1e} from torch's"
    )
    if size > LARGEST:
        raise SystemExit(f"the runtime takes {size / 1e6:.0f} MB, expected {LARGEST / 1e6:.0f} at most")
    if not difference < CLOSE:
        raise SystemExit(f"the runtime's sound is {difference:.1e} from torch's, expected less than {CLOSE:g}")


if __name__ == "__main__":
    main(sys.argv[1])
