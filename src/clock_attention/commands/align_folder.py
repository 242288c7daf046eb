"""`clock-attention align` with many recordings: a table of what was done, what failed and why."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clock_attention.commands.align_inputs import SHOWN, adapted, check_not_an_input
from clock_attention.commands.terminal import bar, complaints, say, warn
from clock_attention.timestamps import FORMATS

if TYPE_CHECKING:
    from clock_attention.speech.aligner import Aligner
    from clock_attention.speech.aligner.alignment_jobs import AlignmentJob, Options, Outcome
    from clock_attention.speech.corpus.recording_checks import Recording
    from clock_attention.speech.corpus.store import Rejection


def folder_of(out: Sequence[Path]) -> Path | None:
    """The single output folder that -o names, for `align` with many recordings."""
    if len(out) > 1:
        raise ValueError("-o: got several, expected one folder, and formats with --format")
    if out and out[0].suffix.lower() in [suffix.lower() for suffix in FORMATS]:
        raise ValueError(f"-o {out[0]}: expected a folder for several recordings, and formats with --format")
    return out[0] if out else None


def align_folder(
    inputs: Sequence[Path],
    out: Path | None,
    suffixes: Sequence[str],
    plot: Path | None,
    opened: partial[Aligner],
    *,
    adapt: bool,
    options: Options,
    overwrite: bool,
    jobs: int | None,
) -> int:
    """Align all recordings of a folder; returns the number of those that could not be aligned."""
    from clock_attention.files import locked, make_folder
    from clock_attention.speech.aligner.alignment_jobs import FAILED, TABLE, Outcome, Table, align_all, default_workers
    from clock_attention.speech.aligner.recordings import find_recordings
    from clock_attention.speech.corpus.sources import KINDS

    began = time.monotonic()
    found = find_recordings(inputs)
    if not found.recordings and not found.rejected:
        raise ValueError(f"{', '.join(map(str, inputs))}: no recordings ({KINDS})")
    folder = make_folder(out if out is not None else inputs[0] if inputs[0].is_dir() else inputs[0].parent)
    todo = jobs_of(found.recordings, out, suffixes, plot)
    with locked(folder, "alignments"):
        table = Table(folder / TABLE)
        for rejection in found.rejected:
            table.append(Outcome(rejection.id, FAILED, reason=rejected(rejection)))
        left = [job for job in todo if overwrite or not table.is_done(job, options)]
        workers = jobs or default_workers()
        aligner = opened() if left else None  # here too: a problem with the model is reported once, and first
        if adapt and aligner is not None:
            aligner = adapted(aligner, found.recordings)
            workers = 1
        with bar("aligning", len(todo)) as advance_to:
            advance_to(len(todo) - len(left))
            for number, outcome in enumerate(align_all(left, opened, options, workers, aligner), start=1):
                table.append(outcome)
                advance_to(len(todo) - len(left) + number)
        table.finish([row.id for row in found.rejected] + [row.id for row in found.recordings])
    return summarize(table.rows.values(), found.without_audio, folder / TABLE, len(todo) - len(left), began)


def jobs_of(
    recordings: Sequence[Recording], out: Path | None, suffixes: Sequence[str], plot: Path | None
) -> list[AlignmentJob]:
    """Jobs of `align` with many recordings: output files are named after the recordings, beside them or in a folder."""
    from clock_attention.speech.aligner.alignment_jobs import AlignmentJob

    jobs = []
    for recording in recordings:
        stem = Path(recording.path).with_suffix("") if out is None else out / recording.id
        outputs = tuple(stem.with_name(f"{stem.name}{suffix}") for suffix in suffixes)
        for path in outputs:
            check_not_an_input(path)
        picture = None if plot is None else plot / f"{recording.id}.png"
        jobs.append(AlignmentJob(recording, outputs, picture))
    return jobs


def rejected(rejection: Rejection) -> str:
    """Why `align` with many recordings rejected one, as text for a row of the table."""
    return rejection.detail if rejection.reason == "no transcript" else f"{rejection.reason}: {rejection.detail}"


def summarize(rows: Any, without_audio: Sequence[Path], table: Path, earlier: int, began: float) -> int:
    """Print the failures and counts of `align` with many recordings; returns the number of failures."""
    from clock_attention.speech.aligner.alignment_jobs import FAILED

    failures: list[Outcome] = [row for row in rows if row.status == FAILED]
    for row in failures[:SHOWN]:
        complaints.print(f"{row.recording}: {row.reason}", style="red", highlight=False, soft_wrap=True)
    if len(failures) > SHOWN:
        complaints.print(f"… and {len(failures) - SHOWN} more", style="red", highlight=False)
    if without_audio:
        names = ", ".join(path.name for path in without_audio[:5]) + (" …" if len(without_audio) > 5 else "")
        warn(f"{len(without_audio)} transcripts without a recording: {names}")
    count = len(rows) - len(failures)
    before = f" ({earlier} of them earlier)" if earlier else ""
    say(f"{count} aligned{before}, {len(failures)} failed, in {time.monotonic() - began:.1f} s: all in {table}")
    return len(failures)
