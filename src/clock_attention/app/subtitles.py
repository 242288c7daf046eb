"""The web page's player for dubbed subtitles: audio, cues on the time axis, and advice about cues that do not fit."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape

import soundfile

from clock_attention.app.speaker import Dubbed
from clock_attention.speech.dubbing.report import clock, summary
from clock_attention.speech.dubbing.slot import EMPTY, FAST, IMPOSSIBLE, SPOKEN, CueReport

PIXELS_PER_SECOND = 42
MOST_SHOWN = 40  # cues in the list of those that need attention
LANES = 2  # rows for overlapping cues
CLASSES = {SPOKEN: "spoken", FAST: "fast", EMPTY: "empty", IMPOSSIBLE: "impossible"}

FILE_CHOICE = """
<label class="clock-file"><input type="file" accept=".srt,.vtt,text/vtt"><span>Open a file (.srt, .vtt)</span>
<output>It stays in your browser until you press “Dub”.</output></label>"""
EXAMPLE = """1
00:00:00,500 --> 00:00:03,200
The ferry leaves in ten minutes.

2
00:00:03,400 --> 00:00:05,600
Then we had better run!

3
00:00:05,800 --> 00:00:07,000
The tickets, the bags and the dog are still upstairs.

4
00:00:08,000 --> 00:00:11,000
[door slams] Wait for me.
"""


def progress(finished: int, total: int) -> str:
    """HTML of the web page's progress bar while subtitles are dubbed."""
    return (
        f'<div class="clock-progress" role="status"><progress max="{total}" value="{finished}"></progress>'
        f"<span>{finished} of {total} cues</span></div>"
    )


def dubbed_player(dubbed: Dubbed, fastest: float) -> str:
    """HTML of the web page's player for dubbed subtitles; it uses the same scripts as the other players."""
    minimum = round(dubbed.seconds * PIXELS_PER_SECOND)
    return f"""
<figure class="clock-player clock-dubbed" aria-label="Dubbed subtitles">
  <audio controls preload="auto" data-plays="begins" src="data:audio/flac;base64,{encoded(dubbed.sound)}"></audio>
  <div class="clock-scroll"><div class="clock-track" style="min-width:{minimum}px" data-seconds="{dubbed.seconds:.4f}">
    {ruler(dubbed.seconds)}
    <div class="clock-tier clock-cues">{cue_blocks(dubbed.reports, dubbed.seconds)}</div>
    <div class="clock-head"></div>
  </div></div>
  <figcaption>{caption(dubbed.reports, fastest)}</figcaption>
  {attention(dubbed.reports, fastest)}
</figure>"""


def encoded(path: str) -> str:
    """The dubbed audio for the web page's player as FLAC in base64: lossless, and half the size of WAV."""
    wave, rate = soundfile.read(path, dtype="int16")
    buffer = io.BytesIO()
    soundfile.write(buffer, wave, rate, subtype="PCM_16", format="FLAC")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def ruler(seconds: float) -> str:
    """The time ruler above the cues in the web page's player for dubbed subtitles."""
    step = 5 if seconds > 20 else 1
    return (
        '<div class="clock-ruler" aria-hidden="true">'
        + "".join(
            f'<span style="left:{100 * second / seconds:.3f}%">{second // 60}:{second % 60:02d}</span>'
            for second in range(0, int(seconds) + 1, step)
        )
        + "</div>"
    )


def cue_blocks(reports: Sequence[CueReport], seconds: float) -> str:
    """HTML of the dubbed cues as blocks on the time axis of the web page, in lanes where they overlap."""
    free = [0.0] * LANES  # when each lane is free again
    found = []
    for report in reports:
        lane = next((lane for lane in range(LANES) if free[lane] <= report.start + 1e-6), LANES - 1)
        free[lane] = max(free[lane], report.end)
        left, width = 100 * report.start / seconds, 100 * (report.end - report.start) / seconds
        share = 100 * report.spoken_frames / report.frames if report.frames else 0
        pace = f", pace {report.pace:.2f}" if report.words else ""
        text = escape(report.text or "no words")
        found.append(
            f'<button type="button" class="{CLASSES[report.status]} lane{lane}" data-start="{report.start:.4f}" '
            f'data-end="{report.end:.4f}" title="{text} ({report.start:.2f}–{report.end:.2f} s{pace})" '
            f'style="left:{left:.3f}%;width:{width:.3f}%;--share:{share:.1f}%"><span>{text}</span></button>'
        )
    return "".join(found)


def caption(reports: Sequence[CueReport], fastest: float) -> str:
    """The caption of dubbed subtitles on the web page: seconds, cues, paces, and how many do not fit."""
    found = summary(reports)
    parts = [f"<b>{found['seconds']:.2f} s</b>", f"{found['cues']} cues"]
    if found["fastest_pace"] is not None:
        parts.append(f"median pace {found['median_pace']:.2f}, fastest {found['fastest_pace']:.2f}")
    for status, what in ((FAST, f"faster than {fastest:g}"), (IMPOSSIBLE, "impossible"), (EMPTY, "without words")):
        if count := found[status.replace(" ", "_")]:
            parts.append(f"{count} {what}")
    if found["overlapping"]:
        parts.append(f"{found['overlapping']} at the same time as another")
    return " · ".join(parts)


def attention(reports: Sequence[CueReport], fastest: float) -> str:
    """The web page's list of subtitles that need attention: what to cut, cue by cue."""
    wrong = [report for report in reports if report.status in (FAST, IMPOSSIBLE)]
    if not wrong:
        return ""
    items = "".join(
        f'<li class="{CLASSES[report.status]}"><b>Cue {report.number}, {clock(report.start)[:-1]}</b> needs pace '
        f"{report.pace:.2f}{' and cannot be spoken' if report.status == IMPOSSIBLE else ''}: cut "
        f"{report.cut_seconds:.2f} s, about {report.cut_words} of {report.words} words, for {fastest:g}. "
        f"<q>{escape(report.text)}</q></li>"
        for report in wrong[:MOST_SHOWN]
    )
    more = f"<li>… and {len(wrong) - MOST_SHOWN} more in the report</li>" if len(wrong) > MOST_SHOWN else ""
    return f'<ul class="clock-attention">{items}{more}</ul>'
