"""How far are the timestamps of a voice from the true phone boundaries?

    python benchmarks/timestamps.py --voice default --corpus runs/corpus

The ground truth comes from the teacher, hibari, by intervention: replace one phoneme of a sentence by another with
all durations fixed, and see which 12.5 ms frames of the teacher's spectrum change. Each frame belongs to the phoneme it
depends on most, along the best monotone path. (The durations inside the teacher cannot be used: its sounds start about
40 ms before them, with a spread of 20 ms. Boundaries by intervention coincide with changes of the spectrum.)

Held-out sentences of a corpus made with `clock-attention corpus synthesize` are synthesized by the voice at the
teacher's exact length. Timestamps refer to the voice's own speech, whose timing within a sentence differs slightly
from the teacher's, so the true boundaries are carried over by dynamic time warping of the two mels (--same-time uses
them as they are, which counts every difference in timing as an error).

Compared are boundaries between neighbouring phones of a word ("phones"), and between the last phone of a word and the
first of the next ("words"), where the middle of the word boundary token counts. Boundaries at pauses are left out:
nothing in a silence depends on a phoneme.

Prints one line per method of reading boundaries from attention or clocks, with 95 % intervals from 1,000 bootstrap
resamples of sentences, and writes JSON. The ground truth takes some seconds per sentence and is kept in a file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import librosa
import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray

from clock_attention.alignment import (
    attention_matrices,
    crossing_times,
    monotone_path,
    path_durations,
    path_from_clocks,
    path_from_weights,
)
from clock_attention.speech.audio.wave import resample, trim_silence
from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.corpus.store import StoredUtterance as Row
from clock_attention.speech.corpus.teacher import TEACHER_RATE, hibari_voice
from clock_attention.speech.text.hibari import IPA_SUBSTITUTES, HibariPhonemizer
from clock_attention.speech.text.ipa import CONSONANTS, REDUCED, STRESSABLE
from clock_attention.speech.text.phonemes import WORD_BOUNDARY
from clock_attention.speech.text.sentences import split_sentences
from clock_attention.speech.voice.utterance import Utterance
from clock_attention.speech.voice.voice import Voice

HOP = 300  # samples between two frames of the teacher's spectrum
UNIT = 2 * HOP  # samples in one unit of its durations
BANDS = np.unique(np.geomspace(4, 601, 41).astype(int))  # of its 601 frequencies: about a third of an octave each
KINDS = ("sʃzʒfvθðʧʤh", "pbtdkɡT", "mnŋlɹwj")  # fricatives, plosives, sonorants; all others are vowels
CONTRASTS = "smtɑ"  # one of each kind; a phoneme is exchanged for the first two of another kind than its own
PHONES = {*CONSONANTS, *STRESSABLE, *REDUCED}

Boundaries = NDArray[np.float64]  # where each token ends, in decoder steps (T,)
SHIPPED = "as shipped"
Errors = dict[str, NDArray[np.float64]]  # of one sentence in ms, by kind of boundary


@cache
def teacher(forced: bool) -> tuple[Any, str]:
    """The teacher's network with its durations as one more output, or (forced) as one more input; and their name."""
    model = onnx.load(hibari_voice().model_path)
    (regulator,) = (node for node in model.graph.node if node.op_type == "CumSum")
    name = regulator.input[0]
    if forced:
        model.graph.node.remove(next(node for node in model.graph.node if name in node.output))
        model.graph.input.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, [None]))
    else:
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options), name


def spectrum(outputs: list[NDArray[np.float32]]) -> NDArray[np.float64]:
    """Log power of the teacher's three sources together.  (bands, frames)"""
    harmonic, _, noise, rest, _, pitch = (output[0] for output in outputs[:6])
    power = np.exp(2 * harmonic) * (pitch > 40) + np.exp(2 * noise) + np.exp(2 * rest)
    return np.log(np.add.reduceat(power, BANDS[:-1], axis=0) + 1e-4)


def kind(phone: str) -> int:
    return next((place for place, phones in enumerate(KINDS) if phone in phones), len(KINDS))


def teacher_boundaries(row: Row, seed: int, store: FeatureStore) -> dict[str, Any]:
    """Seconds at which the teacher goes from one phone of a row to the next, in the recording as the corpus has it."""
    reader, voice = HibariPhonemizer(), hibari_voice()
    spelled = [
        c
        for c in reader.transcription([token for sentence in reader.sentences(row.text) for token in sentence.tokens])
        if c in voice.vocab
    ]
    ids, speed = voice.ids(spelled), np.array([row.speed], np.float32)
    *natural, durations = teacher(forced=False)[0].run(None, {"ids": np.array([ids]), "speed": speed})
    base = spectrum(natural)
    session, name = teacher(forced=True)
    influence = []  # of each phone on each frame
    for place, character in enumerate(spelled):
        phone = IPA_SUBSTITUTES.get(character, character)
        if phone not in PHONES:
            continue
        changes = []
        for other in [c for c in CONTRASTS if kind(c) != kind(phone)][:2]:
            exchanged = [*ids[: place + 1], voice.vocab[other], *ids[place + 2 :]]
            inputs = {"ids": np.array([exchanged]), "speed": speed, name: durations.reshape(-1)}
            changes.append(np.abs(spectrum(session.run(None, inputs)) - base).mean(0))
        influence.append(np.mean(changes, 0))
    share = np.array(influence)
    share /= share.sum(1, keepdims=True)  # a loud phone changes more than a quiet one, not more frames
    share /= share.sum(0)
    path = monotone_path(np.log(share.T + 1e-6))
    firsts = np.searchsorted(path, np.arange(1, len(influence)))
    # The frame's centre is at frame · hop, so that it begins half a hop earlier.
    boundaries = (firsts - 0.5) * HOP / TEACHER_RATE

    config, settings = store.mel_config, store.header["settings"]
    wave = resample(voice.from_ids(ids, row.speed, np.random.default_rng(seed)), TEACHER_RATE, config.sample_rate)
    trimmed = trim_silence(wave, config.sample_rate, settings["silence"], settings["silence_db"])
    start = next(at for at in np.flatnonzero(wave == trimmed[0]) if np.array_equal(wave[at:][: len(trimmed)], trimmed))
    assert config.frames(len(trimmed)) == row.frames
    ends = np.cumsum(durations)[1:] * UNIT / TEACHER_RATE  # of each character, by the teacher's own durations
    own = [end for end, c in zip(ends, spelled, strict=False) if IPA_SUBSTITUTES.get(c, c) in PHONES][:-1]
    return {
        "phones": [c for c in spelled if IPA_SUBSTITUTES.get(c, c) in PHONES],
        "boundaries": (boundaries - start / config.sample_rate).tolist(),
        "durations": (np.array(own) - start / config.sample_rate).tolist(),
    }


def known_boundaries(store: FeatureStore, split: str, count: int, seed: int, path: Path) -> dict[str, dict[str, Any]]:
    """The ground truth for `count` sentences of a split, by id; the file grows as it goes."""
    known: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    rows = [store.utterances[index] for index in store.split(split)]
    rows = [row for row in rows if len(split_sentences(row.text)) == 1][:count]
    for row in rows:
        if row.id not in known:
            known[row.id] = teacher_boundaries(row, seed, store)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(known, ensure_ascii=False))
            print(f"truth: {len(known)} of {len(rows)} sentences", flush=True)
    return {row.id: known[row.id] for row in rows}


def stack(utterance: Utterance, layer: int | None = None) -> torch.Tensor:
    """Heads of one layer or of all, as a batch of one.  (1, H, S, T)"""
    return (torch.cat(utterance.weights) if layer is None else utterance.weights[layer])[None]


def hard(matrix: NDArray[np.float64]) -> Boundaries:
    return np.cumsum(path_durations(path_from_weights(matrix), matrix.shape[1])).astype(float)


def soft(matrix: NDArray[np.float64]) -> Boundaries:
    """Durations Σ_s A[s, t]: the expected number of steps at each token."""
    return np.cumsum(matrix.sum(0))


def clock_path(utterance: Utterance, layers: slice) -> Boundaries:
    chosen = utterance.clocks[layers]
    path = path_from_clocks(torch.cat([c.target for c in chosen]), torch.cat([c.source for c in chosen]))
    return np.cumsum(path_durations(path, chosen[0].source.shape[-2])).astype(float)


def clock_crossing(utterance: Utterance, layers: slice) -> Boundaries:
    """When each channel's target clock passes the middle between two tokens' readings; the median of the channels."""
    times = []
    for layer in utterance.clocks[layers]:
        target, source = layer.target.double().numpy(), layer.source.double().numpy()
        middles = (source[:, 1:] + source[:, :-1]) / 2  # (H, T-1, D)
        centres = np.arange(target.shape[1]) + 0.5
        for head in range(len(target)):
            for channel in range(target.shape[-1]):
                times.append(np.interp(middles[head, :, channel], target[head, :, channel], centres))
    return np.append(np.median(times, 0), utterance.weights[0].shape[1])


def estimators(layers: int, clocks: bool) -> dict[str, Callable[[Utterance], Boundaries]]:
    """Ways to read boundaries, in decoder steps."""
    found: dict[str, Callable[[Utterance], Boundaries]] = {}
    reads = {"path": hard, "soft": soft, "crossing": crossing_times}
    scopes: list[tuple[str, int | None]] = [("all layers", None), *((f"layer {k + 1}", k) for k in range(layers))]
    for scope, layer in scopes:
        for heads in ("mean", "diagonal", "focused"):
            for name, read in reads.items():
                found[f"{name}, {heads} of {scope}"] = lambda u, r=read, h=heads, k=layer: r(
                    attention_matrices(stack(u, k), heads=h)[0]
                )
        if clocks:
            part = slice(None) if layer is None else slice(layer, layer + 1)
            found[f"clock path, {scope}"] = lambda u, p=part: clock_path(u, p)
            found[f"clock crossing, {scope}"] = lambda u, p=part: clock_crossing(u, p)
    return found


def carried_over(times: NDArray[np.float64], teacher_mel: torch.Tensor, own_mel: torch.Tensor) -> NDArray[np.float64]:
    """Boundaries in frames of the teacher's mel → in frames of another, by dynamic time warping."""
    _, path = librosa.sequence.dtw(teacher_mel.double().numpy().T, own_mel.double().numpy().T)
    total = np.bincount(path[:, 0], weights=path[:, 1])
    matched = total / np.bincount(path[:, 0])  # the frame of the other that goes with each of the teacher's
    return np.interp(times - 0.5, np.arange(len(matched)), matched) + 0.5


def measure(errors: NDArray[np.float64]) -> dict[str, float]:
    size = np.abs(errors)
    return {
        "mean_ms": float(size.mean()),
        "median_ms": float(np.median(size)),
        "within_20_ms": float((size <= 20).mean()),
        "within_50_ms": float((size <= 50).mean()),
        "bias_ms": float(np.median(errors)),
    }


def with_intervals(errors: list[NDArray[np.float64]], seed: int = 0, resamples: int = 1000) -> dict[str, Any]:
    """Measures of the pooled errors of sentences, each with its percentile interval."""
    draw = np.random.default_rng(seed)
    again = [
        measure(np.concatenate([errors[k] for k in draw.integers(0, len(errors), len(errors))]))
        for _ in range(resamples)
    ]
    return {
        name: [value, *np.percentile([sample[name] for sample in again], [2.5, 97.5]).tolist()]
        for name, value in measure(np.concatenate(errors)).items()
    }


def compare(tokens: tuple[str, ...], ends: NDArray[np.float64], truth: NDArray[np.float64]) -> Errors:
    """Errors in ms of token ends in seconds."""
    errors: dict[str, list[float]] = {"phones": [], "words": []}
    phone = -1
    for place, token in enumerate(tokens[:-1]):
        if token.lstrip("ˈˌ") in PHONES:
            phone += 1
            if tokens[place + 1].lstrip("ˈˌ") in PHONES:
                errors["phones"].append(ends[place] - truth[phone])
            elif tokens[place + 1] == WORD_BOUNDARY and place + 2 < len(tokens):
                errors["words"].append((ends[place] + ends[place + 1]) / 2 - truth[phone])
    return {name: 1000 * np.array(found) for name, found in errors.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--voice", default="attention")
    parser.add_argument("--corpus", type=Path, required=True, help="made by `clock-attention corpus synthesize`")
    parser.add_argument("--seed", type=int, default=0, help="with which the corpus was synthesized")
    parser.add_argument("--split", default="test")
    parser.add_argument("--sentences", type=int, default=60)
    parser.add_argument("--same-time", action="store_true", help="no time warping: see above")
    parser.add_argument("--shown", type=int, default=12, help="how many of the best ways to print")
    parser.add_argument("--truth", type=Path, default=Path("out/timestamps-truth.json"))
    parser.add_argument("--out", type=Path, default=Path("out/timestamps.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    voice, store = Voice.load(arguments.voice), FeatureStore.open(arguments.corpus)
    known = known_boundaries(store, arguments.split, arguments.sentences, arguments.seed, arguments.truth)
    ways = estimators(voice.model.config.decoder_layers, bool(voice.model.clock_layers))
    ways[SHIPPED] = lambda utterance: utterance.alignment.ends / utterance.frames_per_step
    errors: dict[str, list[Errors]] = {name: [] for name in ways}
    places = {row.id: place for place, row in enumerate(store.utterances)}
    for name, truth in known.items():
        row = store.utterances[places[name]]
        utterance = voice.utter([row.text], frames=row.frames)[0]
        boundaries = np.array(truth["boundaries"])
        if not arguments.same_time:
            rate = voice.frames_per_second
            boundaries = carried_over(boundaries * rate, store.mel(places[name]), utterance.mel) / rate
        tokens = utterance.phonemes.tokens
        phones = [token.lstrip("ˈˌ") for token in tokens if token.lstrip("ˈˌ") in PHONES]
        assert phones == [IPA_SUBSTITUTES.get(c, c) for c in truth["phones"]]
        for way, read in ways.items():
            ends = np.minimum(read(utterance) * utterance.frames_per_step, row.frames) / voice.frames_per_second
            errors[way].append(compare(tokens, ends, boundaries))
    pooled = {
        way: {part: [sentence[part] for sentence in found] for part in ("phones", "words")}
        for way, found in errors.items()
    }
    labels = [1000 * (np.array(truth["durations"]) - truth["boundaries"]) for truth in known.values()]
    own = measure(np.concatenate(labels))
    print(
        f"{len(known)} sentences of {arguments.corpus}: {sum(map(len, pooled[SHIPPED]['phones']))} boundaries between "
        f"phones, {sum(map(len, pooled[SHIPPED]['words']))} between words; errors in ms [95 % interval]\n"
        f"the teacher's own durations: mean {own['mean_ms']:.1f}, median {own['median_ms']:.1f}, bias "
        f"{own['bias_ms']:+.1f}"
    )
    means = {way: np.abs(np.concatenate(parts["phones"])).mean() for way, parts in pooled.items()}
    best = sorted(means, key=means.__getitem__)[: arguments.shown]
    result = {}
    for way in [*best, *([] if SHIPPED in best else [SHIPPED])]:
        result[way] = {part: with_intervals(found) for part, found in pooled[way].items()}
        print(f"{way:34}", "   ".join(line(part, values) for part, values in result[way].items()), flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"sentences": len(known), "teacher_durations": own, "ways": result}, indent=1))


def line(part: str, values: dict[str, list[float]]) -> str:
    mean, median = ("{:.1f} [{:.1f}, {:.1f}]".format(*values[name]) for name in ("mean_ms", "median_ms"))
    return (
        f"{part}: mean {mean} median {median} ≤20 {values['within_20_ms'][0]:.0%} "
        f"≤50 {values['within_50_ms'][0]:.0%} bias {values['bias_ms'][0]:+.0f}"
    )


if __name__ == "__main__":
    main()
