"""The journal of an experiment: which stages are done, with which options, and how long each took."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clock_attention.evaluation.experiment.jobs import StageJob, run_in_process
from clock_attention.evaluation.experiment.stages import Experiment, Stage
from clock_attention.evaluation.pipeline.chain import ChainSpec
from clock_attention.evaluation.prompts import load_prompts
from clock_attention.files import write_atomically
from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.corpus.store import FeatureStore

Journal = dict[str, Any]  # OUT/experiment.json: seconds, jobs and inputs by stage, and the experiment's options


def read_journal(out: Path) -> Journal:
    """Read the journal of an experiment, experiment.json."""
    path = out / "experiment.json"
    found: Journal = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def write_journal(out: Path, journal: Journal) -> None:
    """Write the journal of an experiment, experiment.json."""
    write_atomically(out / "experiment.json", json.dumps(journal, indent=1, ensure_ascii=False))


def changed(stage: Stage, job: StageJob, journal: Journal) -> bool:
    """Whether a stage's options or inputs differ from those in the journal."""
    before = journal.get("jobs", {}).get(stage.name)
    inputs = stage.inputs()
    read = journal.get("inputs", {}).get(stage.name, inputs)
    return read != inputs or (before is not None and before != job.options())


def refuse_other_options(experiment: Experiment, journal: Journal) -> None:
    """Refuse to continue an experiment with options that differ from those in the journal."""
    for stage in experiment.stages():
        if not stage.repeatable and changed(stage, stage.job(), journal):
            before = json.dumps(journal["jobs"][stage.name], ensure_ascii=False)
            raise ValueError(
                f"{stage.name} was started with other options in {experiment.out}: {before}; "
                "choose another folder, or give the same ones"
            )


def require_models(experiment: Experiment) -> None:
    """Check before an experiment that prompts, vocoder and recognizers are available; missing ones are downloaded."""
    if all(stage.done() for stage in experiment.stages()):
        return
    # A corpus may not have been prepared yet.
    lists = [name for name in experiment.prompts if not name.startswith(("valid:", "test:"))]
    load_prompts(lists, folder=experiment.lists)
    corpus = experiment.corpus("natural")
    made = (corpus / "store.json").exists()
    mel = FeatureStore.open(corpus).mel_config if made else MelConfig.preset("hifigan")
    ChainSpec(mel, experiment.vocoder, experiment.recognizers).load()


def perform(
    experiment: Experiment,
    run: Callable[[StageJob], None] = run_in_process,
    say: Callable[[str], None] = print,
    journal: Journal | None = None,
) -> None:
    """Run every unfinished stage of an experiment, in order, and record in the journal how long each took."""
    out = experiment.out
    journal = {"seconds": {}, "jobs": {}, "inputs": {}, **(read_journal(out) if journal is None else journal)}
    refuse_other_options(experiment, journal)
    out.mkdir(parents=True, exist_ok=True)
    journal.update(experiment.about())
    write_journal(out, journal)
    for stage in experiment.stages():
        job = stage.job()
        stale = changed(stage, job, journal)  # done with other options or inputs
        if stage.done() and not stale:
            say(f"{stage.name}: done")
            journal["jobs"].setdefault(stage.name, job.options())  # recorded so that later changes are noticed
            journal["inputs"].setdefault(stage.name, stage.inputs())
            write_journal(out, journal)
            continue
        say(f"{stage.name}: {job.out}")
        started = time.monotonic()
        try:
            run(job)
        finally:
            spent = journal["seconds"].get(stage.name, 0.0) + time.monotonic() - started
            journal["seconds"][stage.name] = round(spent, 1)
            if not stale:  # otherwise its old output, which is still there, would pass for the new one
                journal["jobs"][stage.name] = job.options()
            write_journal(out, journal)
        journal["jobs"][stage.name] = job.options()
        journal["inputs"][stage.name] = stage.inputs()
        write_journal(out, journal)
        if not stage.done():
            raise ChildProcessError(f"{stage.name} has ended before it was complete: the same command continues it")
