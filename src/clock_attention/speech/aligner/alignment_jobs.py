"""Alignment of many recordings as parallel jobs, with a table of their outcomes: what failed and why.

A recording that fails becomes a row with a reason; the others are written all the same. A repeated run skips recordings
that have already been aligned with the same text, audio and options.
"""

from __future__ import annotations

import csv
import hashlib
import io
import logging
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, astuple, dataclass, fields
from itertools import islice
from pathlib import Path

from clock_attention.files import write_atomically
from clock_attention.processes import become_worker
from clock_attention.speech.aligner.aligner import Aligner
from clock_attention.speech.aligner.alignment_files import save_alignment
from clock_attention.speech.aligner.features import RATE
from clock_attention.speech.aligner.long_recordings import some_words
from clock_attention.speech.aligner.results import AlignedRecording
from clock_attention.speech.audio.sound_reading import FOREIGN, stream_audio
from clock_attention.speech.corpus.recording_checks import Recording

logger = logging.getLogger(__name__)

TABLE = "alignment.csv"
ALIGNED, FAILED = "aligned", "failed"
LOWEST_RATE = 11_025  # Hz
FEW = 12  # recordings that can be aligned in the time that another process needs to start


@dataclass(frozen=True)
class Options:
    """Options of alignment jobs: `force` overrides checks; `mix` mixes several channels; `cues` are lines or words.

    The others only identify what a finished alignment was made with.
    """

    force: bool = False
    mix: bool = False
    cues: str = "lines"
    model: str = ""
    adapted: bool = False
    lexicon: str = ""


@dataclass(frozen=True)
class AlignmentJob:
    """One alignment job: a recording, the files to write, and the path of a figure, if requested."""

    recording: Recording
    outputs: tuple[Path, ...]
    plot: Path | None = None

    def inputs(self, options: Options) -> str:
        """Hash of all inputs of an alignment job; changes whenever the result would."""
        audio = Path(self.recording.path)
        facts = audio.stat() if audio.exists() else None
        made_from = (self.recording.text, facts and (facts.st_size, facts.st_mtime_ns), asdict(options))
        return hashlib.sha256(repr(made_from).encode()).hexdigest()[:16]

    @property
    def is_written(self) -> bool:
        return all(path.exists() for path in (*self.outputs, *([self.plot] if self.plot else [])))


@dataclass(frozen=True)
class Outcome:
    """The outcome of an alignment job, a row of the table."""

    recording: str
    status: str
    score: str = ""
    seconds: str = ""
    words: str = ""
    unspoken: str = ""  # words of the text that are not spoken
    unwritten: str = ""  # seconds of speech that are not in the text
    reason: str = ""
    inputs: str = ""

    @classmethod
    def of(cls, name: str, aligned: AlignedRecording, inputs: str) -> Outcome:
        unspoken = [flag.word for flag in aligned.flags if flag.kind == "written-not-spoken"]
        unwritten = sum(flag.end - flag.start for flag in aligned.flags if flag.kind == "spoken-not-written")
        words = sum(bool(word.label) for word in aligned.words)
        return cls(
            recording=name,
            status=ALIGNED,
            score=f"{aligned.score:.3f}",
            seconds=f"{aligned.duration:.3f}",
            words=str(words),
            unspoken=" ".join(unspoken),
            unwritten=f"{unwritten:.2f}" if unwritten else "",
            inputs=inputs,
        )


class MisfitError(ValueError):
    """Raised if the text of an alignment job does not fit the recording."""

    def __init__(self, score: float, threshold: float) -> None:
        super().__init__(
            f"the text does not fit the recording (score {score:.2f}, expected at least {threshold:.2f}): "
            "check that they belong together"
        )


def align_one(
    aligner: Aligner, job: AlignmentJob, options: Options, report: Callable[[float], None] = lambda seconds: None
) -> AlignedRecording:
    """Run one alignment job: align the recording and write its files, or raise an error and write none."""
    recording = job.recording
    check_recording(Path(recording.path), options)
    aligned = aligner.align(recording.path, recording.text, report=report)
    if not aligned.fits and not options.force:
        raise MisfitError(aligned.score, aligner.threshold)
    if job.plot is not None:
        save_figure(aligner, recording, aligned, job.plot)
    save_alignment(aligned, job.outputs, recording.text, aligner.reader, options.cues)
    return aligned


def check_recording(path: Path, options: Options) -> None:
    """Check an alignment job's recording: rejects multiple channels (perhaps several speakers) and telephone audio."""
    import soundfile

    if path.suffix.lower() in FOREIGN:
        return
    try:
        header = soundfile.info(str(path))
    except (soundfile.LibsndfileError, OSError, TypeError, RuntimeError) as error:
        raise ValueError(f"cannot read {path} as audio: {error}") from None
    if header.channels > 1 and not (options.mix or options.force):
        raise ValueError(
            f"{path}: {header.channels} channels, expected one; they may hold different speakers: "
            "extract the one to align, or mix them with the option mix"
        )
    if header.samplerate < LOWEST_RATE and not options.force:
        raise ValueError(
            f"{path}: sampled at {header.samplerate} Hz, expected at least {LOWEST_RATE}: half of the frequencies "
            "that distinguish sounds are missing, so boundaries may be wrong (the option force aligns it anyway)"
        )


def save_figure(aligner: Aligner, recording: Recording, aligned: AlignedRecording, path: Path) -> None:
    """Draw the figure of an alignment job; the beginning of a long recording is aligned again for its posterior."""
    from clock_attention.speech.aligner.alignment_figure import beginning, caption, save_alignment_figure

    phonemes = aligner.read(recording.text)
    seconds, words = beginning(aligned, phonemes)
    complete = aligned.posterior is not None and seconds >= aligned.duration
    first = next(stream_audio(recording.path, RATE, seconds=max(seconds, 1.0) + 1.0))
    wave = first[: round(seconds * RATE)]
    if not complete:
        phonemes = some_words(phonemes, 0, words)
        aligned = aligner.align_emissions(aligner.emissions(wave), phonemes, len(wave) / RATE, posterior=True)
    title = caption(recording.text, aligned, complete)
    save_alignment_figure(path, aligned, phonemes, wave, RATE, title)


def outcome_of(aligner: Aligner, job: AlignmentJob, options: Options) -> Outcome:
    """Run one alignment job; any error becomes the reason in its outcome."""
    name = job.recording.id
    try:
        for path in (*job.outputs, *([job.plot] if job.plot else [])):
            path.parent.mkdir(parents=True, exist_ok=True)
        return Outcome.of(name, align_one(aligner, job, options), job.inputs(options))
    except (ValueError, OSError) as error:
        reason = str(error)
    except Exception as error:  # a bug that shows in one of ten thousand recordings must not lose the others
        reason = f"{type(error).__name__}: {error}"
    return Outcome(name, FAILED, reason=" ".join(reason.split()))


Opener = Callable[[], Aligner]
_aligner: Aligner | None = None


def align_all(
    jobs: Sequence[AlignmentJob], opener: Opener, options: Options, workers: int, aligner: Aligner | None = None
) -> Iterator[Outcome]:
    """Run alignment jobs in processes, each with an aligner from `opener`, or with `aligner` if one is enough."""
    workers = min(workers, -(-len(jobs) // FEW))
    if workers <= 1:
        aligner = aligner or opener()
        for job in jobs:
            yield outcome_of(aligner, job, options)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, start_worker, (opener,)) as pool:
        waiting = iter(jobs)
        running: set[Future[Outcome]] = set()
        while True:
            # Few in flight, so that an interrupt by the user need not wait for a long queue.
            for job in islice(waiting, 2 * workers - len(running)):
                running.add(pool.submit(run_job, job, options))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                try:
                    yield future.result()
                except BrokenProcessPool:
                    raise OSError(
                        "a worker process ended before its work was done, perhaps for lack of memory: "
                        "repeat the command to continue from here; fewer processes need less memory"
                    ) from None


def start_worker(opener: Opener) -> None:
    """Open the aligner in a worker process for alignment jobs."""
    global _aligner
    become_worker()
    _aligner = opener()


def run_job(job: AlignmentJob, options: Options) -> Outcome:
    """Run one alignment job in a worker process."""
    assert _aligner is not None
    return outcome_of(_aligner, job, options)


class Table:
    """Outcomes of alignment jobs in `alignment.csv`; each is appended at once, so that a stopped run can continue."""

    COLUMNS = tuple(field.name for field in fields(Outcome))

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, Outcome] = {row.recording: row for row in self._read()}

    def _read(self) -> Iterator[Outcome]:
        if not self.path.exists():
            return
        with open(self.path, encoding="utf-8", newline="") as file:
            for row in csv.reader(file):
                # The last line may be incomplete; a different kind of table has other columns.
                if len(row) == len(self.COLUMNS) and row[1] in (ALIGNED, FAILED):
                    yield Outcome(*row)

    def is_done(self, job: AlignmentJob, options: Options) -> bool:
        row = self.rows.get(job.recording.id)
        return bool(row and row.status == ALIGNED and job.is_written and row.inputs == job.inputs(options))

    def append(self, outcome: Outcome) -> None:
        new = not self.path.exists()
        self.rows[outcome.recording] = outcome
        with open(self.path, "a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            if new:
                writer.writerow(self.COLUMNS)
            writer.writerow(astuple(outcome))

    def finish(self, order: Iterable[str]) -> None:
        """Rewrite the table with one row per recording, in order; recordings not in `order` are left out."""
        content = io.StringIO()
        writer = csv.writer(content)
        writer.writerow(self.COLUMNS)
        writer.writerows(astuple(self.rows[name]) for name in order if name in self.rows)
        write_atomically(self.path, content.getvalue())


def default_workers() -> int:
    """Default number of processes for alignment jobs: the number of available processors."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
