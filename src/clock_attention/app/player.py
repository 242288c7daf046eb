"""The player of the web page: sound, waveform, words and phonemes on one time axis, with a playhead that follows.

It is one piece of HTML per speech, the sound inside it, and one script for all of them that listens on the document:
nothing is fetched from anywhere, and nothing has to be set up again when the page replaces a player by the next.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape

import numpy as np
import soundfile

from clock_attention.speech.voice.speech import Speech
from clock_attention.timestamps import Interval

PIXELS_PER_SECOND = 150  # at least; phonemes below that are too narrow to read
MOST_PIXELS_PER_SECOND = 600
PIXELS_PER_LETTER = 8.5
WAVEFORM_POINTS = 120  # per second
VOWELS = set("æɑAɔWIɛɜiɪOYuʊʌəᵊᵻɐ")


def player(speech: Speech, label: str, plays: str = "") -> str:
    """HTML of one utterance. `label` is its accessible name.

    `plays` is "begins" for sound that starts by itself, "continues" for more of what the last player has played.
    """
    tiers = speech.tiers()
    minimum = round(speech.seconds * pixels_per_second(tiers["words"]))
    return f"""
<figure class="clock-player" aria-label="{escape(label)}">
  <audio controls preload="auto" data-plays="{plays}" src="data:audio/wav;base64,{encoded(speech)}"></audio>
  <div class="clock-scroll"><div class="clock-track" style="min-width:{minimum}px" data-seconds="{speech.seconds:.4f}">
    {waveform(speech)}
    <div class="clock-tier clock-words">{blocks(tiers["words"], speech.seconds)}</div>
    <div class="clock-tier clock-phones">{blocks(tiers["phones"], speech.seconds)}</div>
    <div class="clock-head"></div>
  </div></div>
  <figcaption>{caption(speech)}</figcaption>
</figure>"""


def pixels_per_second(words: Sequence[Interval]) -> float:
    """So many that every word fits."""
    needed = [
        (PIXELS_PER_LETTER * len(word.label) + 6) / (word.end - word.start) for word in words if word.end > word.start
    ]
    return min(max([PIXELS_PER_SECOND, *needed]), MOST_PIXELS_PER_SECOND)


def encoded(speech: Speech) -> str:
    buffer = io.BytesIO()
    soundfile.write(buffer, speech.audio, speech.sample_rate, subtype="PCM_16", format="WAV")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def caption(speech: Speech) -> str:
    frames, phonemes = len(speech.mel), len(speech.phonemes)
    return (
        f"<b>{speech.seconds:.2f} s</b> · {frames} mel frames · {phonemes} phonemes, {frames / phonemes:.1f} each "
        "· click a word or phoneme to hear it from there"
    )


def waveform(speech: Speech) -> str:
    """The envelope of the sound as one shape."""
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


def blocks(intervals: Sequence[Interval], seconds: float) -> str:
    """One button per labelled interval, placed by its share of the time."""
    return "".join(
        block(escape(interval.label), interval.start, interval.end, seconds)
        for interval in intervals
        if interval.label and interval.end > interval.start
    )


def block(label: str, start: float, end: float, seconds: float) -> str:
    left, width = 100 * start / seconds, 100 * (end - start) / seconds
    return (
        f'<button type="button" class="{kind(label)}" data-start="{start:.4f}" data-end="{end:.4f}" '
        f'title="{label} {start:.2f}–{end:.2f} s" style="left:{left:.3f}%;width:{width:.3f}%">'
        f"<span>{label}</span></button>"
    )


def kind(label: str) -> str:
    return "vowel" if label.lstrip("ˈˌ") in VOWELS else "other"


CSS = """
.clock-player { margin: 0; padding: 4px 2px; }
.clock-player audio { width: 100%; height: 42px; margin-bottom: 8px; }
.clock-scroll { overflow-x: auto; border: 1px solid var(--border-color-primary); border-radius: 8px; }
.clock-track { position: relative; width: 100%; height: 148px; background: var(--background-fill-primary); }
.clock-wave { position: absolute; left: 0; top: 6px; width: 100%; height: 64px; }
.clock-wave polygon { fill: var(--color-accent); opacity: .45; }
.clock-tier { position: absolute; left: 0; right: 0; height: 30px; }
.clock-words { top: 76px; }
.clock-phones { top: 110px; }
.clock-tier button { position: absolute; top: 0; height: 100%; min-width: 0; padding: 0; margin: 0; overflow: hidden;
  border: 0; border-left: 1px solid var(--background-fill-primary); border-radius: 4px; cursor: pointer;
  background: var(--background-fill-secondary); color: var(--body-text-color);
  font: 14px/30px var(--font), sans-serif; text-align: center; white-space: nowrap; }
.clock-words button { font-weight: 600; }
.clock-phones button.vowel {
  background: color-mix(in srgb, var(--color-accent) 16%, var(--background-fill-secondary)); }
.clock-tier button:hover { outline: 1px solid var(--color-accent); outline-offset: -1px; }
.clock-tier button.now { background: var(--color-accent) !important; }
.clock-tier button.now span { color: white; }
.clock-head { position: absolute; top: 0; bottom: 0; width: 2px; left: 0; background: var(--body-text-color);
  pointer-events: none; opacity: .75; }
@media (max-width: 640px) {
  .clock-length { flex-direction: column !important; }
  .clock-length > * { width: 100% !important; min-width: 0 !important; }
}
.clock-player figcaption { font-size: 13px; color: var(--body-text-color-subdued); padding: 6px 2px 0; }
"""

SCRIPT = """
<script>
(() => {
  const show = (player) => {
    const audio = player.querySelector('audio'), track = player.querySelector('.clock-track');
    const now = audio.currentTime, share = Math.min(1, now / Number(track.dataset.seconds));
    track.querySelector('.clock-head').style.left = `${100 * share}%`;
    for (const block of track.querySelectorAll('.clock-tier button'))
      block.classList.toggle('now', now > 0 && now >= Number(block.dataset.start) && now < Number(block.dataset.end));
    const scroll = player.querySelector('.clock-scroll'), at = share * track.offsetWidth;
    if (!audio.paused && (at < scroll.scrollLeft || at > scroll.scrollLeft + 0.9 * scroll.clientWidth))
      scroll.scrollLeft = at - 0.1 * scroll.clientWidth;
  };
  const follow = (player) => {
    show(player);
    const audio = player.querySelector('audio');
    if (player.isConnected && !audio.paused && !audio.ended) requestAnimationFrame(() => follow(player));
  };
  // Speech grows sentence by sentence: each new player goes on where the last one was, unless the visitor stopped it.
  let reached = 0, stopped = false;
  document.addEventListener('timeupdate', (event) => {
    if (event.target.dataset && event.target.dataset.plays) reached = event.target.currentTime;
  }, true);
  document.addEventListener('pause', (event) => {
    if (event.target.dataset && event.target.dataset.plays && event.target.isConnected) stopped = !event.target.ended;
  }, true);
  document.addEventListener('loadeddata', (event) => {
    const audio = event.target, plays = audio.dataset && audio.dataset.plays;
    if (!plays) return;
    if (plays === 'begins') { reached = 0; stopped = false; }
    else audio.currentTime = Math.min(reached, audio.duration);
    if (!stopped) audio.play().catch(() => {});
  }, true);
  // Media events do not bubble: listen in the capture phase.
  for (const name of ['play', 'pause', 'seeked', 'ended', 'loadeddata'])
    document.addEventListener(name, (event) => {
      const player = event.target.closest && event.target.closest('.clock-player');
      if (!player) return;
      if (name === 'play')
        for (const other of document.querySelectorAll('.clock-player audio'))
          if (other !== event.target) other.pause();
      name === 'play' ? follow(player) : show(player);
    }, true);
  document.addEventListener('click', (event) => {
    const block = event.target.closest && event.target.closest('.clock-tier button');
    if (!block) return;
    const audio = block.closest('.clock-player').querySelector('audio');
    audio.currentTime = Number(block.dataset.start) + 0.001;
    audio.play();
  });
})();
</script>
"""
