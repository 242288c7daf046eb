"""The timeline in the guide to dubbing, from the measurement.

python docs/figures/dubbing.py
"""

from __future__ import annotations

import json
from pathlib import Path

from clock_attention.speech.dubbing.report import save_timeline
from clock_attention.speech.dubbing.slot import CueReport

ROOT = Path(__file__).parents[2]

if __name__ == "__main__":
    files = json.loads((ROOT / "results" / "dub.json").read_text("utf-8"))["slots"]
    dialogue = next(row for row in files if row["file"] == "dialogue.srt")
    reports = [CueReport(**report) for report in dialogue["reports"]]
    save_timeline(reports, ROOT / "docs" / "figures" / "dubbing.png", 1.6)
