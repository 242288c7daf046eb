"""One cue in its time slot: how fast it has to be spoken, whether that is too fast, and its sound."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clock_attention.files import write_atomically
from clock_attention.speech.audio.sound_writing import save_sound
from clock_attention.speech.dubbing.subtitles import Cue
from clock_attention.speech.text.phonemes import PAUSES, WORD_BOUNDARY, UnreadableTextError
from clock_attention.speech.voice.pacing import Pacing
from clock_attention.speech.voice.planning import natural_lengths, readings
from clock_attention.speech.voice.request import Request
from clock_attention.speech.voice.speech import join

if TYPE_CHECKING:
    from clock_attention.speech.vocoder.vocoder import Vocoder
    from clock_attention.speech.voice.voice import Voice

SPOKEN, FAST, EMPTY, IMPOSSIBLE = "spoken", "too fast", "empty", "impossible"
LONGEST_SLOT = 600  # seconds that are held in memory; a cue that is shown for longer is silent after that


@dataclass(frozen=True)
class Delivery:
    """How all cues are spoken in their slots: limits of the pace, pitch, energy, pauses, seed."""

    slowest: float = 0.8  # pace down to which a cue is drawn out to fill its slot; silence fills the rest
    fastest: float = 1.6  # pace above which a cue is reported
    pitch: float = 0.0
    energy: float = 0.0
    pause: float = 0.2  # seconds between the sentences of a cue, at natural pace
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.3 <= self.slowest <= 1:
            raise ValueError(f"slowest: got {self.slowest:g}, expected 0.3 … 1 times natural speed")
        if not 1 <= self.fastest <= 4:
            raise ValueError(f"fastest: got {self.fastest:g}, expected 1 … 4 times natural speed")


@dataclass(frozen=True)
class Slot:
    """The time slot of a cue: the cue and its range of samples."""

    cue: Cue
    start: int  # first sample
    samples: int
    hop: int

    @classmethod
    def of(cls, cue: Cue, sample_rate: int, hop: int) -> Slot:
        start, end = round(cue.start * sample_rate), round(cue.end * sample_rate)
        return cls(cue, start, min(end - start, LONGEST_SLOT * sample_rate), hop)

    @property
    def frames(self) -> int:
        """Number of whole mel frames in the slot."""
        return self.samples // self.hop

    def key(self, delivery: Delivery, voice: str) -> str:
        """A key that changes whenever the same cue would sound different."""
        parts = [self.cue.text, self.samples, asdict(delivery), voice]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class CueReport:
    """The result for a cue in its slot. Times are in seconds; `frames` and `spoken_frames` are mel frames."""

    number: int
    start: float
    end: float
    text: str
    status: str
    frames: int
    spoken_frames: int = 0
    natural_seconds: float = 0.0
    pace: float = 0.0  # the multiple of natural speed that it has, or would need
    cut_words: int = 0  # words to leave out so that it needs no more than the fastest pace
    cut_seconds: float = 0.0
    words: int = 0
    skipped: int = 0  # phonemes without a frame
    overlaps: bool = False
    file: str = ""


def speak_slot(voice: Voice, vocoder: str | Path | Vocoder, slot: Slot, delivery: Delivery, folder: Path) -> CueReport:
    """Speak a cue in exactly the frames of its slot, into a file in the folder; a finished file is kept."""
    cue = slot.cue
    name = f"{cue.number:05d}-{slot.key(delivery, voice_name(voice, vocoder))}"
    sound, notes = folder / f"{name}.wav", folder / f"{name}.json"
    if (known := finished_report(notes)) and (not known.file or (known.file == sound.name and sound.is_file())):
        return replace(known, number=cue.number, start=cue.start, end=cue.end)
    report, audio = perform(voice, vocoder, slot, delivery)
    if audio is not None:
        save_sound(sound, audio, voice.language.mel.sample_rate)
        report = replace(report, file=sound.name)
    write_atomically(notes, json.dumps(asdict(report), ensure_ascii=False))
    return report


def finished_report(notes: Path) -> CueReport | None:
    """The report of a slot that an earlier run has spoken; None if there is no valid one."""
    try:
        return CueReport(**json.loads(notes.read_text("utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def perform(
    voice: Voice, vocoder: str | Path | Vocoder, slot: Slot, delivery: Delivery
) -> tuple[CueReport, np.ndarray[Any, np.dtype[np.float32]] | None]:
    """Speak one cue for its slot: the report and the sound, None if nothing can be spoken."""
    cue = slot.cue
    report = CueReport(cue.number, cue.start, cue.end, cue.text, EMPTY, slot.frames)
    options = {"pitch": delivery.pitch, "energy": delivery.energy, "pause": delivery.pause, "seed": delivery.seed}
    rate = voice.frames_per_second
    try:
        request = Request.of(cue.text, lexicon=voice.lexicon, **options)  # type: ignore[arg-type]
        sentences = list(readings(voice, request))
    except UnreadableTextError:
        sentences = []
    if not sentences:
        return report, None
    phrases = [phrase for sentence in sentences for phrase in sentence.phrases]
    natural = sum(natural_lengths(voice, phrases)) + sum(round(phrase.pause * rate) for phrase in phrases)
    phonemes = sum(len(phrase.phonemes) for phrase in phrases)
    words = sum(len(phrase.phonemes.words) for phrase in phrases)
    needed = natural / max(slot.frames, 1)
    over = max(0.0, natural / delivery.fastest - slot.frames) / rate  # seconds at the fastest pace
    report = replace(
        report,
        status=SPOKEN if needed <= delivery.fastest else FAST,
        natural_seconds=natural / rate,
        pace=needed,
        words=words,
        cut_seconds=over,
        cut_words=math.ceil(words * over / (natural / delivery.fastest / rate) - 1e-9),
    )
    if slot.frames < phonemes:
        return replace(report, status=IMPOSSIBLE), None
    frames = max(min(slot.frames, math.ceil(natural / delivery.slowest)), phonemes)
    timed = replace(request, pacing=Pacing.of(None, None, frames / rate))
    speech = join(list(voice.perform(timed, vocoder, sentences)), request.text)
    audio = np.zeros(slot.samples, np.float32)
    audio[: len(speech.audio)] = speech.audio
    tokens = zip(speech.phonemes.tokens, speech.alignment.durations, strict=True)
    skipped = sum(count == 0 and token not in PAUSES and token != WORD_BOUNDARY for token, count in tokens)
    return (
        replace(report, spoken_frames=len(speech.mel), pace=natural / len(speech.mel), skipped=int(skipped)),
        audio,
    )


def voice_name(voice: Voice, vocoder: str | Path | Vocoder) -> str:
    """What identifies a voice in the file names of slots."""
    lexicon = sorted(voice.lexicon.entries.items()) if voice.lexicon is not None else []
    sound = vocoder if isinstance(vocoder, str | Path) else vocoder.fingerprint
    return f"{voice.identity}:{sound}:{hashlib.sha256(repr(lexicon).encode()).hexdigest()}"
