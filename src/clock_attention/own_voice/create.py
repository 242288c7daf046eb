"""Create a voice from a folder of recordings, stage by stage; an interrupted run resumes where it stopped."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import torch

from clock_attention.evaluation.optional_packages import installed
from clock_attention.evaluation.scoring.recognizers import load_recognizer
from clock_attention.evaluation.scoring.speaker_similarity import load_encoder
from clock_attention.files import locked
from clock_attention.own_voice.checks import (
    Clip,
    compared,
    require_enough,
    require_enough_left,
    require_high_frequencies,
    require_one_speaker,
    require_quiet,
)
from clock_attention.own_voice.fine_tuning import export_own_voice, fine_tuning_config
from clock_attention.own_voice.gather import (
    TRANSCRIPTS,
    Gathered,
    Gathering,
    is_corrected,
    refuse_among,
    refuse_inside,
    why_left_out,
)
from clock_attention.own_voice.measure import judges, measure
from clock_attention.own_voice.order import Order, require_folders, sentences_to_speak
from clock_attention.own_voice.report import minutes_used, write_card, write_voice_report
from clock_attention.own_voice.spread import MOST_SPREAD
from clock_attention.own_voice.stage_inputs import clips_digest, gathering_inputs, start_digest
from clock_attention.own_voice.stages import StageResult, Stages, digest_of
from clock_attention.own_voice.training_plan import planned, threads, train_to, warnings_about_time
from clock_attention.own_voice.transcribed import machine_made, marked, warnings_about_texts
from clock_attention.speech.aligner import Aligner
from clock_attention.speech.aligner.network import SHIPPED, model_name
from clock_attention.speech.audio.sound_reading import full_seconds, load_audio
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.corpus.cutting import TimedWord
from clock_attention.speech.corpus.feature_extraction import Settings
from clock_attention.speech.corpus.ljspeech import read_folder
from clock_attention.speech.corpus.prepare import prepare
from clock_attention.speech.corpus.recording_checks import Recording
from clock_attention.speech.corpus.sources import Source, find_sources
from clock_attention.speech.corpus.store import FeatureStore, Rejection
from clock_attention.speech.corpus.store_alignment import align_store
from clock_attention.speech.training.config import RunConfig
from clock_attention.speech.training.transfer import Start
from clock_attention.speech.voice.from_run import start_from
from clock_attention.speech.voice.voice import Voice
from clock_attention.speech.voice.voice_folder import CARD, WEIGHTS

STAGES = ("gather", "check", "prepare", "align", "plan", "train", "export", "evaluate")

OnStageProgress = Callable[[str, int, int], None]  # stage, done, total; 0 of 0 when the stage begins
OnWarning = Callable[[str], None]


def create(
    order: Order,
    report: OnStageProgress = lambda stage, done, of: None,
    quiet: bool = False,
    warn: OnWarning = lambda warning: None,
) -> dict[str, Any]:
    """Create a user's own voice from an order, stage by stage; returns the results of all stages.

    Warnings about the recordings are given before the training.
    """
    refuse_among(order.recordings, order.out)
    refuse_inside(order.recordings, order.work)
    # Report mistakes before writing anything.
    require_folders(order)
    sentences_to_speak(order)
    if order.recognizer != Order.recognizer:
        load_recognizer(order.recognizer)  # the default one may be missing; its measures are then skipped
    sources, rejected = find_sources(order.recordings)
    start = start_from(order.base)
    with locked(order.work, "a voice"), threads(order.threads or order.workers):
        creation = Creation(order, start, report, quiet, warn)
        return creation.run(sources, rejected)


class Creation:
    """The stages of creating one voice."""

    def __init__(
        self, order: Order, start: Start, report: OnStageProgress, quiet: bool, warn: OnWarning = lambda warning: None
    ) -> None:
        self.order, self.start, self.report, self.quiet, self.warn = order, start, report, quiet, warn
        self.stages = Stages(order.work / "stages", begin=lambda stage: report(stage, 0, 0))
        self.clips, self.store, self.run_folder = (order.work / name for name in ("clips", "store", "run"))
        self.samples = order.work / "samples"

    def run(self, sources: list[Source], rejected: list[Rejection]) -> dict[str, Any]:
        order, stages = self.order, self.stages
        aligner = model_name(order.aligner or SHIPPED)
        found: dict[str, Any] = {}
        found["gather"] = stages.run(
            "gather",
            [
                gathering_inputs(sources, rejected, self.start, order.recognizer, aligner),
                machine_made(order.recordings),
            ],
            lambda: self.gather(sources, rejected),
            [self.clips / "metadata.csv"],
            chained=False,
        )
        gathered = Gathered(**found["gather"])
        found["gather"] = asdict(gathered)  # with what an earlier version did not measure
        clips = clips_digest(self.clips)  # texts may have been corrected by hand
        listens = installed("resemblyzer")
        heard = [gathered.above_noise, gathered.narrowband, gathered.transcribed_by, gathered.transcribed_clips]
        found["check"] = stages.run(
            "check", [clips, order.one_speaker, listens, heard], lambda: self.check(gathered), chained=False
        )
        for warning in found["check"]["warnings"]:
            self.warn(warning)
        store = self.store / "store.json"
        found["prepare"] = stages.run(
            "prepare",
            [clips, self.start.language.phonemizer],
            lambda: self.prepare(gathered),
            [store],
            own=self.store,
        )
        found["align"] = stages.run("align", aligner, self.align)
        unfit = [(row[0], row[1]) for stage in ("align", "prepare") for row in found[stage]["left_out"]]
        require_enough_left(60 * minutes_used(found), unfit, str(order.recordings))
        plan = found["plan"] = stages.run(
            "plan",
            [order.minutes, order.steps, order.threads, order.workers, self.start.model.model_dump()],
            self.plan,
            chained=False,
        )
        for warning in warnings_about_time(order, plan):
            self.warn(warning)
        torch.set_num_threads(plan["threads"])
        config = fine_tuning_config(self.start, plan["steps"], order.seed)
        last = self.run_folder / "checkpoints" / f"step-{config.training.steps:08d}.pt"
        found["train"] = stages.run(
            "train",
            [config.model_dump(), start_digest(self.start), plan["threads"]],
            lambda: self.train(config),
            [last],
            own=self.run_folder,
        )
        found["export"] = stages.run(
            "export",
            [order.licence, order.consent, order.blend, MOST_SPREAD],
            self.export,
            [order.out / name for name in (WEIGHTS, CARD)],
        )
        prompts = order.prompts and digest_of(order.prompts)
        found["evaluate"] = stages.run(
            "evaluate",
            [prompts, order.count, order.recognizer, judges(), listens],
            self.evaluate,
            [self.samples / f"{name}_0.flac" for name in ("voice", "recording")],
        )
        write_card(order, found)
        write_voice_report(order, found, self.run_folder / "log.csv", self.samples)
        return found

    def gather(self, sources: list[Source], rejected: list[Rejection]) -> StageResult:
        if is_corrected(self.clips):
            kept = next(path for n in count(1) if not (path := self.order.work / f"metadata.before.{n}.csv").exists())
            (self.clips / "metadata.csv").replace(kept)
            self.warn(f"the recordings are read again; texts that were corrected by hand are kept in {kept}")
        shutil.rmtree(self.clips, ignore_errors=True)
        gathering = Gathering(
            self.clips,
            self.start.language.mel.sample_rate,
            find_words=partial(find_words, self.order.aligner),
            recognizer=partial(load_recognizer, self.order.recognizer),
            memory=self.order.work / TRANSCRIPTS,
        )
        gathered = gathering.run(sources, rejected, lambda done: self.report("gather", done, len(sources)))
        return asdict(marked(gathered, machine_made(self.order.recordings)))

    def check(self, gathered: Gathered) -> StageResult:
        listed, _ = read_folder(self.clips)
        seconds = clip_seconds(listed)
        recordings = [row for row in listed if row.id in seconds]
        clips = [Clip(row.id, row.text, seconds[row.id]) for row in recordings]
        warnings = require_enough(clips, str(self.order.recordings), why_left_out(self.clips))
        warnings += require_quiet(gathered.above_noise)
        warnings += require_high_frequencies(gathered.narrowband, gathered.seconds_found)
        encoder = load_encoder()
        some = [recordings[place] for place in compared(len(recordings))]
        embeddings = None
        if encoder is not None:
            embeddings = []
            for number, row in enumerate(some, start=1):
                embeddings.append(encoder.embed(load_audio(row.path, 16000), 16000))
                self.report("check", number, len(some))
        warnings += require_one_speaker([row.id for row in some], embeddings, self.order.one_speaker)
        warnings += warnings_about_texts(gathered)
        return {"warnings": warnings}

    def prepare(self, gathered: Gathered) -> StageResult:
        if (self.store / "store.json").exists():  # finished, but killed before the result was saved
            shutil.rmtree(self.store)
        recordings, rejected = read_folder(self.clips)
        settings = Settings(mel=self.start.language.mel, phonemizer=self.start.language.phonemizer, valid=0.03)
        source = f"{self.order.recordings.resolve().name} (recordings of a person)"
        done = 0

        def report(progress: Any) -> None:
            nonlocal done
            done += progress.items
            self.report("prepare", done, len(recordings))

        prepare_here = partial(
            prepare,
            recordings,
            self.store,
            settings,
            rejected=rejected,
            workers=self.order.workers,
            source=source,
            folder=self.clips,
            report=report,
        )
        try:
            store = prepare_here()
        except FileExistsError:  # started under another path, which is part of the plan
            shutil.rmtree(self.store)
            store = prepare_here()
        length = clip_seconds(recordings)
        gone = gathered.clips - len(length)  # removed or damaged by hand, so their lengths are unknown
        each = max(0.0, gathered.seconds - sum(length.values())) / max(1, gone)
        removed = gone - sum(row.id not in length for row in store.rejected)
        return {
            "utterances": len(store),
            "left_out": [[row.id, row.reason, row.detail, length.get(row.id, each)] for row in store.rejected],
            "removed": [removed, each * removed],
        }

    def align(self) -> StageResult:
        total, done = len(FeatureStore.open(self.store)), 0

        def report(progress: Any) -> None:
            nonlocal done
            done += progress.items
            self.report("align", done, total)

        aligner = self.order.aligner
        store, listed = align_store(
            self.store,
            partial(Aligner.load, aligner),
            name=model_name(aligner or SHIPPED),
            folder=self.clips,
            workers=self.order.workers,
            report=report,
        )
        frames = {row.id: row.frames for row in store.utterances}
        worst = [[row.id, row.score, row.reason, row.text] for row in listed[:20]]
        left_out = [[row.id, row.reason] for row in listed if row.reason]
        per_second = store.mel_config.frames_per_second
        lost = sum(frames[row.id] for row in listed if row.reason) / per_second
        return {
            "worst": worst,
            "left_out": left_out,
            "seconds_left_out": lost,
            "seconds": sum(frames.values()) / per_second - lost,
            "utterances": len(listed),
        }

    def plan(self) -> StageResult:
        return planned(self.order, self.start, FeatureStore.open(self.store))

    def train(self, config: RunConfig) -> StageResult:
        store, steps = FeatureStore.open(self.store), config.training.steps
        path = train_to(steps, config, store, self.run_folder, start=self.start, resume=True, quiet=self.quiet)
        return {"checkpoint": path.name}

    def export(self) -> StageResult:
        order, store = self.order, FeatureStore.open(self.store)
        card, spread = export_own_voice(
            self.run_folder,
            order.out,
            store,
            self.start,
            licence=order.licence,
            consent=order.consent,
            blend=order.blend,
        )
        return {
            "weights_sha256": card.weights_sha256,
            "energy_spread": spread,
            "steps": card.provenance.steps,
            "seconds": card.provenance.seconds,
        }

    def evaluate(self) -> StageResult:
        order = self.order
        texts = sentences_to_speak(order)
        return measure(
            Voice.load(order.out),
            FeatureStore.open(self.store),
            texts,
            self.samples,
            recordings=self.clips,
            recognizer=order.recognizer,
            report=lambda done: self.report("evaluate", done, len(texts)),
        )


def clip_seconds(recordings: Sequence[Recording]) -> dict[str, float]:
    """Lengths of the gathered clips by id, without those that were deleted or damaged by hand."""
    found = {row.id: full_seconds(row.path) for row in recordings if row.path}
    return {name: seconds for name, seconds in found.items() if seconds}


def find_words(model: Path | None, wave: Wave, rate: int, text: str) -> list[TimedWord]:
    """Find the words of a long recording while creating a voice."""
    found = Aligner.load(model).align(wave, text, sample_rate=rate, posterior=False)
    return [TimedWord(word.start, word.end, word.label) for word in found.words if word.label]
