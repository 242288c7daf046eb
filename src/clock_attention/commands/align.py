"""`clock-attention align`: when each word and phone of a recording is said."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from clock_attention.commands.speak import decoded
from clock_attention.commands.terminal import clear_errors, complaints, option
from clock_attention.timestamps import FORMATS

if TYPE_CHECKING:
    from clock_attention.speech.aligner import AlignedRecording, Aligner
    from clock_attention.speech.aligner.batch import Job, Options, Outcome
    from clock_attention.speech.corpus.checks import Recording
    from clock_attention.speech.corpus.store import Rejection

SHOWN = 20  # failures and warnings; all failures are in the table
ADAPTED_TO = 3600.0  # seconds of speech that adapting learns from at most
LONGEST_ADAPTED = 60.0  # seconds of one recording among them


def align(
    inputs: Annotated[
        list[Path],
        typer.Argument(help="A recording; or several, folders of them with .txt or .lab beside, LJSpeech folders."),
    ],
    text: Annotated[str | None, typer.Option(help="What is said in the recording.")] = None,
    text_file: Annotated[
        Path | None, typer.Option(help=r"The same in a file; - is standard input. \[default: .txt or .lab beside it]")
    ] = None,
    out: Annotated[
        list[Path] | None,
        typer.Option(
            "--out", "-o", help=r"A file by format, repeatable; or a folder. \[default: beside the recording]"
        ),
    ] = None,
    form: Annotated[
        list[str] | None,
        typer.Option("--format", help=r"TextGrid, json, srt, vtt, lab or ctm; repeatable. \[default: TextGrid]"),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw posterior and clocks: .png, .svg, .pdf; a folder for several.")
    ] = None,
    cues: Annotated[str, typer.Option(help="What a subtitle shows: lines or words.")] = "lines",
    lexicon: Annotated[
        Path | None, typer.Option(help='Words and their readings, .toml: Siobhan = "/ʃɪˈvɔːn/".')
    ] = None,
    adapt: Annotated[bool, typer.Option("--adapt", help="First adapt the model to these recordings.")] = False,
    model: Annotated[Path | None, typer.Option(help="Folder of an aligner model; default is the package's.")] = None,
    mix: Annotated[bool, typer.Option("--mix", help="Mix the channels of recordings that have several.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also write what the checks refuse, such as a text that does not fit.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Align again what has been aligned already.")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help=r"Processes. \[default: one a core]")] = None,
) -> None:
    """Find when each word and phone of a recording is said.

    The exit status is 1 where something could not be aligned; everything else is written.
    """
    with clear_errors():
        from clock_attention.speech.aligner.outputs import CUES

        if cues not in CUES:
            raise ValueError(f"--cues: got {cues!r}, expected {' or '.join(CUES)}")
        suffixes = [known_format(name) for name in form or ["TextGrid"]]
        if len(inputs) == 1 and not inputs[0].is_dir():
            recording = only_recording(inputs[0], text, text_file)
            job = only_job(recording, out or [], suffixes, plot)
            align_file(job, opener(model, lexicon), adapt=adapt, options=options_of(force, mix, cues, model))
            return
        if text is not None or text_file is not None:
            raise ValueError(
                f"got a text and {'a folder' if len(inputs) == 1 else 'several recordings'}: "
                "texts of several recordings are files beside them, or the rows of metadata.csv"
            )
        failed = align_folder(
            inputs,
            folder_of(out or []),
            suffixes,
            plot,
            opener(model, lexicon),
            adapt=adapt,
            options=options_of(force, mix, cues, model),
            overwrite=overwrite,
            jobs=jobs,
        )
    if failed:
        raise typer.Exit(1)


def options_of(force: bool, mix: bool, cues: str, model: Path | None) -> Options:
    from clock_attention.speech.aligner.batch import Options

    return Options(force=force, mix=mix, cues=cues, model="" if model is None else str(model.resolve()))


def opener(model: Path | None, lexicon: Path | None) -> partial[Aligner]:
    """What opens the aligner, here and in other processes."""
    return partial(open_aligner, model, lexicon)


def open_aligner(model: Path | None, lexicon: Path | None) -> Aligner:
    from clock_attention.speech.aligner import Aligner
    from clock_attention.speech.text.lexicon import load_lexicon
    from clock_attention.speech.text.phonemizers import phonemizer

    with option("--model"):
        aligner = Aligner.load(model)
    if lexicon is not None:
        with option("--lexicon"):
            aligner.reader = phonemizer(aligner.reader.name, load_lexicon(lexicon))
    return aligner


def known_format(name: str) -> str:
    known = {suffix.lower().lstrip("."): suffix for suffix in FORMATS}
    try:
        return known[name.lower().lstrip(".")]
    except KeyError:
        names = ", ".join(suffix[1:] for suffix in FORMATS)
        raise ValueError(f"--format: got {name!r}, expected one of {names}") from None


# One recording


def only_recording(audio: Path, text: str | None, text_file: Path | None) -> Recording:
    from clock_attention.speech.aligner.recordings import read_transcript, transcript_of
    from clock_attention.speech.corpus.checks import Recording

    if text is not None and text_file is not None:
        raise ValueError("got --text and --text-file: choose one")
    if not audio.is_file():
        raise FileNotFoundError(f"{audio}: no such file or folder")
    if text_file is not None and str(text_file) == "-":
        text = decoded(sys.stdin.buffer.read(), "standard input")
    elif text_file is not None:
        with option("--text-file"):
            text = read_transcript(text_file)
    elif text is None:
        try:
            text = read_transcript(transcript_of(audio))
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{error}; or give the text with --text or --text-file") from None
    if not text.strip():
        raise ValueError("the text is empty: give the words that are spoken")
    return Recording(audio.stem, text, str(audio))


def only_job(recording: Recording, out: Sequence[Path], suffixes: Sequence[str], plot: Path | None) -> Job:
    """The files of one recording, all checked before anything is done."""
    from clock_attention.speech.aligner.batch import Job
    from clock_attention.speech.aligner.outputs import check_format
    from clock_attention.speech.audio.panels import check_figure_path

    audio = Path(recording.path)
    outputs = []
    for path in out or [audio.parent]:
        if path.is_dir():
            outputs += [path / f"{recording.id}{suffix}" for suffix in suffixes]
        else:
            outputs.append(path)
    for path in outputs:
        check_format(path)
        check_not_an_input(path, [recording])
    if plot is not None:
        check_figure_path(plot)
    return Job(recording, tuple(outputs), plot)


def check_not_an_input(path: Path, recordings: Sequence[Recording]) -> None:
    """A .lab may be a transcript: it is not to be overwritten with labels."""
    if path.suffix.lower() == ".lab" and path.exists():
        first = next((line for line in path.read_text("utf-8", errors="replace").splitlines() if line.strip()), "")
        if not first[:1].isdigit():
            raise ValueError(f"{path}: exists and is a transcript, not labels; write into another folder with -o")


def align_file(job: Job, opened: partial[Aligner], *, adapt: bool, options: Options) -> None:
    from clock_attention.speech.aligner.batch import align_one
    from clock_attention.speech.audio.wave import audio_seconds

    began = time.monotonic()
    aligner = opened()
    if adapt:
        aligner = adapted(aligner, [job.recording])
    with bar("aligning", max(audio_seconds(job.recording.path), 1e-3)) as advance_to:
        aligned = align_one(aligner, job, options, advance_to)
    warn_of(aligned, aligner.threshold)
    words = sum(bool(word.label) for word in aligned.words)
    names = ", ".join(str(path) for path in (*job.outputs, *([job.plot] if job.plot else [])))
    say(
        f"{names}: {words} words in {aligned.duration:.2f} s, score {aligned.score:.2f}, "
        f"in {time.monotonic() - began:.1f} s"
    )


def warn_of(aligned: AlignedRecording, threshold: float) -> None:
    """Where text and recording differ."""
    if not aligned.fits:
        warn(f"the text does not fit the recording (score {aligned.score:.2f}, expected at least {threshold:.2f})")
    for flag in aligned.flags[:SHOWN]:
        if flag.kind == "written-not-spoken":
            warn(f"{flag.word!r} is written but was not found near {flag.start:.2f} s")
        else:
            warn(f"speech from {flag.start:.2f} to {flag.end:.2f} s is not written")
    if len(aligned.flags) > SHOWN:
        warn(f"{len(aligned.flags) - SHOWN} more differences (all are in the .json)")


# Many recordings


def folder_of(out: Sequence[Path]) -> Path | None:
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
    """Align everything that can be; the number of recordings that could not."""
    from clock_attention.files import locked, make_folder
    from clock_attention.speech.aligner.batch import FAILED, TABLE, Outcome, Table, align_all, default_workers
    from clock_attention.speech.aligner.recordings import find_recordings

    began = time.monotonic()
    found = find_recordings(inputs)
    if not found.recordings and not found.rejected:
        raise ValueError(f"{', '.join(map(str, inputs))}: no recordings (.wav, .flac, .ogg, .mp3)")
    home = make_folder(out if out is not None else inputs[0] if inputs[0].is_dir() else inputs[0].parent)
    todo = jobs_of(found.recordings, out, suffixes, plot)
    with locked(home, "alignments"):
        table = Table(home / TABLE)
        for rejection in found.rejected:
            table.append(Outcome(rejection.id, FAILED, reason=rejected(rejection)))
        left = [job for job in todo if overwrite or not table.is_done(job, options)]
        workers = jobs or default_workers()
        aligner = opened() if left else None  # here too: what is wrong with a model is said once, and first
        if adapt and aligner is not None:
            aligner = adapted(aligner, found.recordings)
            workers = 1
        with bar("aligning", len(todo)) as advance_to:
            advance_to(len(todo) - len(left))
            for number, outcome in enumerate(align_all(left, opened, options, workers, aligner), start=1):
                table.append(outcome)
                advance_to(len(todo) - len(left) + number)
        table.finish([row.id for row in found.rejected] + [row.id for row in found.recordings])
    return summarize(table.rows.values(), found.without_audio, home / TABLE, len(todo) - len(left), began)


def jobs_of(recordings: Sequence[Recording], out: Path | None, suffixes: Sequence[str], plot: Path | None) -> list[Job]:
    """Files are named after the recordings, beside them or in a folder with the same folders inside."""
    from clock_attention.speech.aligner.batch import Job

    jobs = []
    for recording in recordings:
        stem = Path(recording.path).with_suffix("") if out is None else out / recording.id
        outputs = tuple(stem.with_name(f"{stem.name}{suffix}") for suffix in suffixes)
        for path in outputs:
            check_not_an_input(path, recordings)
        picture = None if plot is None else plot / f"{recording.id}.png"
        jobs.append(Job(recording, outputs, picture))
    return jobs


def rejected(rejection: Rejection) -> str:
    return rejection.detail if rejection.reason == "no transcript" else f"{rejection.reason}: {rejection.detail}"


def summarize(rows: Any, without_audio: Sequence[Path], table: Path, earlier: int, began: float) -> int:
    from clock_attention.speech.aligner.batch import FAILED

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


# Both


def adapted(aligner: Aligner, recordings: Sequence[Recording]) -> Aligner:
    """Adapt to the recordings, or to an hour of them. Those that cannot be read are listed when they are aligned."""
    from clock_attention.speech.aligner.features import RATE
    from clock_attention.speech.audio.wave import audio_seconds

    chosen, total = [], 0.0
    for recording in recordings:
        try:
            if total < ADAPTED_TO and audio_seconds(recording.path) <= LONGEST_ADAPTED:
                chosen.append((aligner.wave(recording.path, None), recording.text))
                total += len(chosen[-1][0]) / RATE
        except ValueError:
            continue
    if not chosen:
        raise ValueError(f"--adapt: there is no recording of at most {LONGEST_ADAPTED:g} s to adapt to")

    def report(turn: int, count: int, score: float) -> None:
        say(f"adapting, pass {turn}: {count} of {len(chosen)} recordings, mean score {score:.2f}")

    with option("--adapt"):
        learned = aligner.adapt(chosen, sample_rate=RATE, report=report)
    learned.reader = aligner.reader
    return learned


@contextmanager
def bar(what: str, total: float) -> Iterator[Any]:
    """A progress bar on a terminal; call what it yields with how much is done."""
    columns = (TextColumn(what), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=complaints, transient=True, disable=not complaints.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


def say(line: str) -> None:
    complaints.print(line, highlight=False, soft_wrap=True)


def warn(line: str) -> None:
    complaints.print(f"warning: {line}", style="yellow", highlight=False, soft_wrap=True)
