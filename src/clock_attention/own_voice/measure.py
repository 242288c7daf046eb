"""How good is the voice? Word error rate, opinion scores, speaker similarity, movement of the mel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clock_attention.evaluation.optional_packages import installed
from clock_attention.evaluation.scoring.bootstrap import mean_with_interval
from clock_attention.evaluation.scoring.error_rates import score_sentences
from clock_attention.evaluation.scoring.opinion import load_predictor
from clock_attention.evaluation.scoring.recognizers import load_recognizer
from clock_attention.evaluation.scoring.sharpness import sharpness
from clock_attention.evaluation.scoring.speaker_similarity import Embedding, load_encoder, similarity
from clock_attention.evaluation.systems.systems import measures_of
from clock_attention.speech.audio.loudness import with_loudness
from clock_attention.speech.audio.sound_writing import save_sound
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.corpus.store_audio import StoreAudio
from clock_attention.speech.voice.speech import Speech
from clock_attention.speech.voice.voice import Voice

HELD_OUT = 12  # recordings for the audio measures; the mels of all held-out recordings are compared
KEPT = 6  # sentences in the report
SHOWN = 2  # recordings in the report
JUDGES = ("distillmos", "speechmos", "moonshine-voice", "faster-whisper")
MEASURES = ("wer", "distillmos", "dnsmos", "similarity", "movement", "bins", "variance")


def measure(
    voice: Voice,
    store: FeatureStore,
    texts: Sequence[str],
    samples: Path,
    *,
    recordings: Path | None = None,
    recognizer: str = "moonshine",
    vocoder: str = "auto",
    report: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Measure a user's own voice: speak texts and compare with held-out recordings. Writes some of both to `samples`.

    `recordings`: their folder, if it has moved since the store was made. Measures that need a package that is not
    installed are left out.
    """
    speaker, rate = voice.vocoder(vocoder), voice.language.mel.sample_rate
    samples.mkdir(parents=True, exist_ok=True)
    spoken: list[Speech] = []
    for number, text in enumerate(texts, start=1):
        spoken.append(voice.speak(text, vocoder=speaker))
        report(number)
    held_back = held_out(store)
    items = held_back[:HELD_OUT]
    audio = StoreAudio(store, recordings)
    recorded = [with_loudness(audio(item), rate) for item in items]
    copies = [speaker(store.mel(item)) for item in items[: HELD_OUT // 2]]
    for number, speech in enumerate(spoken[:KEPT]):
        save_sound(samples / f"voice_{number}.flac", speech.audio, rate)
    shown = different_texts([store.utterances[item].text for item in items])
    for number, place in enumerate(shown):
        save_sound(samples / f"recording_{number}.flac", recorded[place], rate)
    found: dict[str, Any] = {"sentences": len(texts), "texts": list(texts[:KEPT])}
    found["recorded_texts"] = [store.utterances[items[place]].text for place in shown]
    found |= word_errors(texts, [speech.audio for speech in spoken], rate, recognizer)
    faults = [measures_of(utterance) for speech in spoken for utterance in speech.utterances]
    found["skips"] = int(sum(row["word_skips"] for row in faults))
    found["repeats"] = int(sum(row["word_repeats"] for row in faults))
    found |= opinions([speech.audio for speech in spoken], copies, rate)
    found |= speaker_similarity([speech.audio for speech in spoken], copies, recorded, rate)
    found |= mel_movement([speech.mel.numpy() for speech in spoken], [store.mel(item).numpy() for item in held_back])
    return found


def judges() -> list[str]:
    """Versions of the optional packages that measure a voice. A measure is left out if its package is missing."""
    return [f"{package} {installed(package)}" for package in JUDGES]


def held_out(store: FeatureStore) -> list[int]:
    """Held-out recordings for measuring a voice, or the last ones if none were held out.

    Only those that were aligned with their texts, unless none were.
    """
    items = [*store.split("test"), *store.split("valid")]
    timed = [item for item in range(len(store)) if store.utterances[item].durations is not None]
    kept = set(timed)
    return [item for item in items if item in kept] or (timed or list(range(len(store))))[-HELD_OUT:]


def different_texts(texts: Sequence[str]) -> list[int]:
    """Recordings for a voice's report: the first ones with different texts, since many speakers repeat sentences."""
    return sorted({text: place for place, text in reversed(list(enumerate(texts)))}.values())[:SHOWN]


def word_errors(texts: Sequence[str], waves: Sequence[Wave], rate: int, recognizer: str) -> dict[str, Any]:
    """Word error rate of a voice by a recognizer."""
    try:
        loaded = load_recognizer(recognizer)
    except (ModuleNotFoundError, FileNotFoundError):
        return {}
    transcripts = [loaded.transcribe(wave, rate) for wave in waves]
    score = score_sentences(list(texts), transcripts).wer
    return {"wer": [score.estimate, score.low, score.high], "recognizer": loaded.name, "heard": transcripts[:KEPT]}


def opinions(waves: Sequence[Wave], copies: Sequence[Wave], rate: int) -> dict[str, Any]:
    """Predicted opinion scores of a voice, and of recordings through the vocoder."""
    found: dict[str, Any] = {}
    for name, key in (("distillmos", "mos"), ("dnsmos", "ovrl")):
        try:
            predictor = load_predictor(name)
        except ModuleNotFoundError:
            continue
        found[name] = mean_with_interval([predictor(wave, rate)[key] for wave in waves])
        found[f"{name}_copy"] = mean_with_interval([predictor(wave, rate)[key] for wave in copies])
    return found


def speaker_similarity(
    waves: Sequence[Wave], copies: Sequence[Wave], recordings: Sequence[Wave], rate: int
) -> dict[str, Any]:
    """Speaker similarity of a voice to its recordings."""
    encoder = load_encoder()
    if encoder is None:
        return {}

    def embedded(some: Sequence[Wave]) -> list[Embedding]:
        return [encoder.embed(wave, rate) for wave in some]

    theirs = embedded(recordings)
    return {
        "similarity": mean_with_interval(similarity(embedded(waves), theirs).tolist()),
        "similarity_copy": mean_with_interval(similarity(embedded(copies), theirs).tolist()),
    }


def mel_movement(mels: Sequence[Any], recordings: Sequence[Any]) -> dict[str, Any]:
    """Movement and variance of a voice's mels, as ratios to those of the recordings (of other sentences)."""
    ours, theirs = ([sharpness(mel) for mel in some] for some in (mels, recordings))
    names = (("movement", "time"), ("bins", "bins"), ("variance", "variance"))
    return {
        name: float(np.mean([getattr(row, key) for row in ours]) / np.mean([getattr(row, key) for row in theirs]))
        for name, key in names
    }
