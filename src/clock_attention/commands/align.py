"""`clock-attention align`: forced alignment of recordings with their texts."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clock_attention.commands.align_folder import align_folder, folder_of
from clock_attention.commands.align_inputs import SHOWN, adapted, check_not_an_input
from clock_attention.commands.speak import decoded
from clock_attention.commands.terminal import bar, clear_errors, option, say, warn
from clock_attention.timestamps import FORMATS

if TYPE_CHECKING:
    from clock_attention.speech.aligner import AlignedRecording, Aligner
    from clock_attention.speech.aligner.alignment_jobs import AlignmentJob, Options
    from clock_attention.speech.corpus.recording_checks import Recording


def align(
    inputs: Annotated[
        list[Path],
        typer.Argument(help="Recordings, folders of recordings with a .txt or .lab file each, or LJSpeech folders."),
    ],
    text: Annotated[str | None, typer.Option(help="Transcript of the recording.")] = None,
    text_file: Annotated[
        Path | None,
        typer.Option(help=r"Transcript file; - for standard input. \[default: .txt or .lab of the same name]"),
    ] = None,
    out: Annotated[
        list[Path] | None,
        typer.Option(
            "--out",
            "-o",
            help=r"Output file, format from its extension, repeatable; or a folder. \[default: next to the recording]",
        ),
    ] = None,
    form: Annotated[
        list[str] | None,
        typer.Option("--format", help=r"TextGrid, json, srt, vtt, lab or ctm; repeatable. \[default: TextGrid]"),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also draw posterior and clocks: .png, .svg, .pdf; folder for several.")
    ] = None,
    cues: Annotated[str, typer.Option(help="What a subtitle shows: lines or words.")] = "lines",
    lexicon: Annotated[
        Path | None, typer.Option(help='Words and their pronunciations, .toml: Siobhan = "/ʃɪˈvɔːn/".')
    ] = None,
    adapt: Annotated[bool, typer.Option("--adapt", help="First adapt the model to these recordings.")] = False,
    model: Annotated[Path | None, typer.Option(help="Folder of an aligner model; default: the bundled one.")] = None,
    mix: Annotated[bool, typer.Option("--mix", help="Mix down recordings with several channels.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write results even if a check fails, such as a text that does not fit.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Realign recordings that are already done.")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help=r"Number of processes. \[default: one per core]")] = None,
) -> None:
    """Align a recording with its text: times of every word and phone.

    The exit status is 1 if something could not be aligned; everything else is written.
    """
    with clear_errors():
        from clock_attention.speech.aligner.alignment_files import CUES
        from clock_attention.speech.aligner.alignment_jobs import Options

        if cues not in CUES:
            raise ValueError(f"--cues: got {cues!r}, expected {' or '.join(CUES)}")
        suffixes = [known_format(name) for name in form or ["TextGrid"]]
        options = Options(
            force=force,
            mix=mix,
            cues=cues,
            model="" if model is None else str(model.resolve()),
            adapted=adapt,
            lexicon=lexicon_digest(lexicon),
        )
        if len(inputs) == 1 and not inputs[0].is_dir():
            recording = only_recording(inputs[0], text, text_file)
            job = only_job(recording, out or [], suffixes, plot)
            align_file(job, opener(model, lexicon), adapt=adapt, options=options)
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
            options=options,
            overwrite=overwrite,
            jobs=jobs,
        )
    if failed:
        raise typer.Exit(1)


def lexicon_digest(path: Path | None) -> str:
    """Hash of a readable lexicon, for `align`; if it is not readable, opening the aligner reports what is wrong."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path is not None and path.is_file() else ""


def opener(model: Path | None, lexicon: Path | None) -> partial[Aligner]:
    """A function that opens the aligner of `align`, here and in other processes."""
    return partial(open_aligner, model, lexicon)


def open_aligner(model: Path | None, lexicon: Path | None) -> Aligner:
    """Open the aligner that --model and --lexicon of `align` name."""
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
    """The file format that --format of `align` names, in upper or lower case."""
    known = {suffix.lower().lstrip("."): suffix for suffix in FORMATS}
    try:
        return known[name.lower().lstrip(".")]
    except KeyError:
        names = ", ".join(suffix[1:] for suffix in FORMATS)
        raise ValueError(f"--format: got {name!r}, expected one of {names}") from None


def only_recording(audio: Path, text: str | None, text_file: Path | None) -> Recording:
    """The single recording of `align`: the audio and its text, from --text, --text-file or a file beside it."""
    from clock_attention.speech.aligner.recordings import read_transcript, transcript_of
    from clock_attention.speech.corpus.recording_checks import Recording

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


def only_job(recording: Recording, out: Sequence[Path], suffixes: Sequence[str], plot: Path | None) -> AlignmentJob:
    """The job of `align` with one recording: its output files, all checked before any work is done."""
    from clock_attention.speech.aligner.alignment_files import check_format
    from clock_attention.speech.aligner.alignment_jobs import AlignmentJob
    from clock_attention.speech.audio.figure_panels import check_figure_path

    audio = Path(recording.path)
    outputs = []
    for path in out or [audio.parent]:
        if path.is_dir():
            outputs += [path / f"{recording.id}{suffix}" for suffix in suffixes]
        else:
            outputs.append(path)
    for path in outputs:
        check_format(path)
        check_not_an_input(path)
    if plot is not None:
        check_figure_path(plot)
    return AlignmentJob(recording, tuple(outputs), plot)


def align_file(job: AlignmentJob, opened: partial[Aligner], *, adapt: bool, options: Options) -> None:
    """Align one recording with a progress bar, and print what was written."""
    from clock_attention.speech.aligner.alignment_jobs import align_one
    from clock_attention.speech.audio.sound_reading import audio_seconds

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
    """Print the warnings of `align`: where text and recording differ."""
    if not aligned.fits:
        warn(f"the text does not fit the recording (score {aligned.score:.2f}, expected at least {threshold:.2f})")
    for flag in aligned.flags[:SHOWN]:
        if flag.kind == "written-not-spoken":
            warn(f"{flag.word!r} is written but was not found near {flag.start:.2f} s")
        else:
            warn(f"speech from {flag.start:.2f} to {flag.end:.2f} s is not written")
    if len(aligned.flags) > SHOWN:
        warn(f"{len(aligned.flags) - SHOWN} more differences (all are in the .json)")
