"""Dub subtitles into one sound file of exact length, cue by cue, in parallel; interrupted runs continue."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from clock_attention.files import locked, make_folder
from clock_attention.processes import become_worker
from clock_attention.speech.audio.sound_writing import SoundFile, check_sound_path
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.dubbing.slot import CueReport, Delivery, Slot, speak_slot
from clock_attention.speech.dubbing.subtitles import LONGEST, Cue

if TYPE_CHECKING:
    from clock_attention.speech.vocoder.vocoder import Vocoder
    from clock_attention.speech.voice.voice import Voice

CHUNK = 1 << 20  # samples of silence that are written at once
PENDING = 4  # queued cues per process

Overlaps = Literal["mix", "trim"]


@dataclass(frozen=True)
class DubOptions:
    """Options for dubbing a track."""

    voice: str = "default"
    speaker: str | None = None  # of a voice with several
    lexicon: Path | None = None
    vocoder: str | Path | Vocoder = "auto"
    delivery: Delivery = field(default_factory=Delivery)
    overlaps: Overlaps = "mix"  # both at once, or the earlier one ends where the later begins
    length: float | None = None  # seconds of the whole track; None: the end of the last cue
    stems: Path | None = None  # folder that keeps a sound file for each cue
    jobs: int = 1


def dub(
    cues: Sequence[Cue],
    out: str | Path,
    options: DubOptions | None = None,
    progress: Callable[[CueReport], None] | None = None,
) -> list[CueReport]:
    """Dub subtitles: speak every cue in exactly its slot, and write the whole track as .wav or .flac.

    Finished cues are kept in a folder next to `out` until the whole track is written, so the same call continues where
    an interrupted one stopped.
    """
    steps = dub_in_steps(cues, out, options)
    while True:
        try:
            report = next(steps)
        except StopIteration as end:
            reports: list[CueReport] = end.value
            return reports
        if progress is not None:
            progress(report)


def dub_in_steps(
    cues: Sequence[Cue], out: str | Path, options: DubOptions | None = None, voice: Voice | None = None
) -> Generator[CueReport, None, list[CueReport]]:
    """`dub` as a generator: yields each cue's report when it is spoken, in any order; returns them all, sorted by time.

    Args:
        voice: a voice that is already loaded, for `jobs=1`; otherwise it is loaded according to the options.
    """
    options = options or DubOptions()
    out = check_sound_path(out)
    cues = trimmed(cues) if options.overlaps == "trim" else list(cues)
    last = max(cue.end for cue in cues)
    if options.length is not None and not last <= options.length + 1e-9 <= LONGEST + 1e-9:
        raise ValueError(
            f"length: got {options.length:g} s, expected {last:g} s, the end of the last cue, … {LONGEST:g} s"
        )
    parts = options.stems or out.with_name(out.name + ".parts")
    make_folder(parts)
    with locked(parts, "cues"):
        voice = voice or opened(options)
        mel = voice.language.mel
        slots = [Slot.of(cue, mel.sample_rate, mel.hop_length) for cue in cues]
        reports = {}
        for report in spoken(voice, slots, options, parts):
            reports[report.number] = report
            yield report
        total = round((last if options.length is None else options.length) * mel.sample_rate)
        with SoundFile(out, mel.sample_rate) as file:
            for wave in mixed(slots, reports, parts, total):
                file.write(wave)
    if options.stems is None:
        shutil.rmtree(parts)
    found = with_overlaps([reports[cue.number] for cue in cues])
    return found if options.stems is not None else [replace(report, file="") for report in found]


def opened(options: DubOptions) -> Voice:
    """Load the voice that dubs a track; autoregressive ones are refused, as they cannot guarantee a duration."""
    from clock_attention.speech.voice.voice import Voice

    voice = Voice.load(options.voice)
    if options.speaker is not None:
        voice = voice.with_speaker(options.speaker)
    if voice.card.model.autoregressive:
        raise ValueError(f"{options.voice}: an autoregressive voice cannot promise a duration; use a parallel one")
    return voice if options.lexicon is None else voice.with_lexicon(options.lexicon)


def spoken(voice: Voice, slots: Sequence[Slot], options: DubOptions, parts: Path) -> Iterator[CueReport]:
    """Speak the cues of a track and yield their reports as they finish, in any order."""
    if options.jobs <= 1 or len(slots) <= 1:
        for slot in slots:
            yield speak_slot(voice, options.vocoder, slot, options.delivery, parts)
        return
    waiting = iter(slots)
    running: set[Future[CueReport]] = set()
    # Spawned: torch's threads do not survive a fork.
    with ProcessPoolExecutor(options.jobs, get_context("spawn"), begin_worker, (options, parts)) as pool:
        try:
            while True:
                while len(running) < options.jobs * PENDING and (following := next(waiting, None)) is not None:
                    running.add(pool.submit(work, following))
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_worker: tuple[Voice, DubOptions, Path] | None = None


def begin_worker(options: DubOptions, parts: Path) -> None:
    """Load the voice in a worker process that dubs cues of a track."""
    global _worker
    become_worker()
    _worker = opened(options), options, parts


def work(slot: Slot) -> CueReport:
    """Dub one cue of a track in a worker process."""
    assert _worker is not None
    voice, options, parts = _worker
    return speak_slot(voice, options.vocoder, slot, options.delivery, parts)


def trimmed(cues: Sequence[Cue]) -> list[Cue]:
    """Cues of a track, sorted by time, each trimmed to end no later than the next one begins."""
    found: list[Cue] = []
    for cue, following in zip(cues, [*cues[1:], None], strict=True):
        if following is None or cue.end <= following.start or following.start <= cue.start:
            found.append(cue)
        else:
            found.append(replace(cue, end=following.start))
    return found


def with_overlaps(reports: Sequence[CueReport]) -> list[CueReport]:
    """Reports of a track, sorted by time, that say which cues overlap another."""
    latest, shared = 0.0, set()
    previous: CueReport | None = None
    for report in reports:
        if report.start < latest - 1e-6:
            shared.add(report.number)
            if previous is not None:
                shared.add(previous.number)
        if report.end >= latest:
            latest, previous = report.end, report
    return [replace(report, overlaps=report.number in shared) for report in reports]


def mixed(slots: Sequence[Slot], reports: dict[int, CueReport], parts: Path, total: int) -> Iterator[Wave]:
    """The sound of the whole track, block by block. Only the cues that sound at the moment are in memory."""
    import soundfile

    reached = 0
    buffer = np.zeros(0, np.float32)

    def until(place: int) -> Iterator[Wave]:
        nonlocal reached, buffer
        while reached < place:
            count = min(place - reached, CHUNK)
            piece, buffer = buffer[:count], buffer[count:]
            yield np.pad(piece, (0, count - len(piece)))
            reached += count

    for slot in slots:
        yield from until(min(slot.start, total))
        name = reports[slot.cue.number].file
        if name:
            wave, _ = soundfile.read(parts / name, dtype="float32")
            buffer = np.pad(buffer, (0, max(0, len(wave) - len(buffer))))
            buffer[: len(wave)] += wave
    yield from until(total)
