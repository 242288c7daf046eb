"""`python -m clock_attention.runtime VOICE TEXT -o FILE`: speak without torch."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main() -> int:
    """The command `python -m clock_attention.runtime`: speak without torch."""
    parser = argparse.ArgumentParser(prog="python -m clock_attention.runtime", description="Speak without torch.")
    parser.add_argument("voice", help="folder made by `clock-attention export --runtime`")
    parser.add_argument("text", nargs="?", help="what to say; without it, standard input is read")
    parser.add_argument("-o", "--out", type=Path, default=Path("speech.wav"), help=".wav or .flac")
    parser.add_argument("--pace", type=float, help="0.5 … 2; 2 is twice as fast")
    parser.add_argument("--duration", help="total duration: 3.2s or 3200ms")
    parser.add_argument("--ssml", action="store_true", help="the text is an SSML document")
    parser.add_argument("--timestamps", type=Path, help="also write words and phones: .TextGrid, .json, .srt")
    parser.add_argument("--threads", type=int, help="CPU threads")
    given = parser.parse_args()
    text = given.text if given.text is not None else sys.stdin.read()
    try:
        from clock_attention.runtime.voice import load

        voice = load(given.voice, threads=given.threads)
        content = {"ssml": text} if given.ssml else {"text": text}
        speech = voice.speak(**content, pace=given.pace, duration=given.duration)
        speech.save(given.out)
        if given.timestamps is not None:
            speech.save_timestamps(given.timestamps)
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{given.out}: {speech.seconds:.2f} s of speech", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
