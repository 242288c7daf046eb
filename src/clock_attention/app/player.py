"""The player of the web page: sound, waveform, words and phonemes on one time axis, with a playhead that follows.

Each speech is one HTML fragment with the audio embedded. The scripts in `static` are shared by all players and listen
on the document: nothing is fetched, and no setup is needed when the page replaces a player.
"""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from secrets import token_hex

import numpy as np
import soundfile

from clock_attention.speech.text.phonemes import NO_WORD
from clock_attention.speech.voice.speech import Speech
from clock_attention.timestamps import Interval

PIXELS_PER_SECOND = 150  # minimum; below it, phonemes are too narrow to read
MOST_PIXELS_PER_SECOND = 600
PIXELS_PER_LETTER = 8.5
WAVEFORM_POINTS = 120  # points per second
VOWELS = set("æɑAɔWIɛɜiɪOYuʊʌəᵊᵻɐ")
HINT = "Drag the dots to change when words begin and end, then speak with these times."


def player(speech: Speech, label: str, plays: str = "", *, again: tuple[str, str] | None = None) -> str:
    """HTML of the web page's player for one utterance. `label` is its accessible name.

    `plays` is "begins" for audio that starts automatically, "continues" for audio that extends the last player's.
    `again` makes the words adjustable: it names the voice and the decoding that speak them again at the times they
    are dragged to.
    """
    tiers = speech.tiers()
    minimum = round(speech.seconds * pixels_per_second(tiers["words"]))
    facts = f'data-seconds="{speech.seconds:.4f}"'
    if again:
        voice, decoding = map(escape, again)
        facts += f' data-voice="{voice}" data-decoding="{decoding}"'
        facts += f' data-frame="{speech.alignment.frame_seconds!r}" data-text="{escape(speech.text)}"'
        facts += f' data-speech="{token_hex(8)}"'  # marks this player as a new one for the scripts
    return f"""
<figure class="clock-player" aria-label="{escape(label)}">
  <audio controls preload="auto" data-plays="{plays}" src="data:audio/wav;base64,{encoded(speech)}"></audio>
  <div class="clock-scroll"><div class="clock-track" style="min-width:{minimum}px" {facts}>
    {waveform(speech)}
    {grips(tiers["words"], speech.seconds) if again else ""}
    <div class="clock-tier clock-words">{blocks(tiers["words"], speech.seconds, phonemes_of_words(speech))}</div>
    <div class="clock-tier clock-phones">{blocks(tiers["phones"], speech.seconds)}</div>
    <div class="clock-head"></div>
  </div></div>
  {TOOLS if again else ""}
  <figcaption>{caption(speech)}</figcaption>
</figure>"""


TOOLS = f"""
<div class="clock-tools">
  <button type="button" class="clock-again" disabled>Speak with these times</button>
  <button type="button" class="clock-reset" disabled>Reset</button>
  <label><input type="checkbox" class="clock-along"> later words move along</label>
  <output class="clock-note" aria-live="polite">{HINT}</output>
</div>"""


def pixels_per_second(words: Sequence[Interval]) -> float:
    """Scale of the player's time axis: pixels per second, enough for every word to fit."""
    needed = [
        (PIXELS_PER_LETTER * len(word.label) + 6) / (word.end - word.start) for word in words if word.end > word.start
    ]
    return min(max([PIXELS_PER_SECOND, *needed]), MOST_PIXELS_PER_SECOND)


def encoded(speech: Speech) -> str:
    """The player's audio as a WAV file in base64."""
    buffer = io.BytesIO()
    soundfile.write(buffer, speech.audio, speech.sample_rate, subtype="PCM_16", format="WAV")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def caption(speech: Speech) -> str:
    """The player's caption: seconds, mel frames, and what a click does."""
    return (
        f"<b>{speech.seconds:.2f} s</b> · {len(speech.mel)} mel frames · click a word or phoneme to hear it from there"
    )


def waveform(speech: Speech) -> str:
    """The player's drawing of the waveform: its envelope as one shape."""
    points = max(2, round(speech.seconds * WAVEFORM_POINTS))
    parts = np.array_split(np.abs(speech.audio), points)
    height = np.array([part.max() if len(part) else 0.0 for part in parts])
    height = 48 * height / max(height.max(), 1e-3)
    top = " ".join(f"{x},{50 - y:.1f}" for x, y in enumerate(height))
    bottom = " ".join(f"{x},{50 + y:.1f}" for x, y in reversed(list(enumerate(height))))
    return (
        f'<svg class="clock-wave" viewBox="0 0 {points - 1} 100" preserveAspectRatio="none" aria-hidden="true">'
        f'<polygon points="{top} {bottom}"/></svg>'
    )


def phonemes_of_words(speech: Speech) -> list[int]:
    """Number of phonemes in each word of the player, which is the minimum number of frames for it."""
    return list(Counter(word for word in speech.phonemes.word_index if word != NO_WORD).values())


def blocks(intervals: Sequence[Interval], seconds: float, least: Sequence[int] = ()) -> str:
    """The player's row of buttons, one per labelled interval, positioned by time."""
    return "".join(
        block(interval, seconds, f' data-least="{least[place]}"' if least else "")
        for place, interval in enumerate(intervals)
        if interval.label and interval.end > interval.start
    )


def block(interval: Interval, seconds: float, facts: str) -> str:
    """HTML of one button of the player: a word or phoneme, positioned by its time."""
    start, end, label = interval.start, interval.end, escape(interval.label)
    left, width = 100 * start / seconds, 100 * (end - start) / seconds
    return (
        f'<button type="button" class="{kind(interval.label)}" data-start="{start:.4f}" data-end="{end:.4f}"{facts} '
        f'title="{label} {start:.2f}–{end:.2f} s" style="left:{left:.3f}%;width:{width:.3f}%">'
        f"<span>{label}</span></button>"
    )


def kind(label: str) -> str:
    """CSS class of a phoneme in the player: vowel or other."""
    return "vowel" if label.lstrip("ˈˌ") in VOWELS else "other"


def grips(words: Sequence[Interval], seconds: float) -> str:
    """The player's handles for dragging the boundaries of words."""
    return (
        '<div class="clock-grips">'
        + "".join(
            f'<i role="slider" tabindex="0" data-ends="{ends}" data-begins="{begins}" aria-valuemin="0" '
            f'aria-valuemax="{seconds:.2f}" aria-valuenow="{at:.2f}" aria-label="{escape(name)}" '
            f'style="left:{100 * at / seconds:.3f}%"></i>'
            for at, ends, begins, name in edges(words)
        )
        + "</div>"
    )


def edges(words: Sequence[Interval]) -> Iterator[tuple[float, int | str, int | str, str]]:
    """Word boundaries in the player: time, index of the word that ends, index of the word that begins, and a name."""
    if not words:
        return
    yield words[0].start, "", 0, f"start of {words[0].label}"
    for place, (word, following) in enumerate(pairwise(words)):
        if following.start - word.end < 1e-3:
            yield word.end, place, place + 1, f"between {word.label} and {following.label}"
        else:
            yield word.end, place, "", f"end of {word.label}"
            yield following.start, "", place + 1, f"start of {following.label}"
    yield words[-1].end, len(words) - 1, "", f"end of {words[-1].label}"
