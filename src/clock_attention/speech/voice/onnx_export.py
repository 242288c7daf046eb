"""ONNX export of a voice's parallel acoustic model as one file: phoneme ids in, log-mel frames and attention out.

The graph is built node by node: lengths stay dynamic because every shape is computed inside the graph, and the file
needs nothing but an ONNX runtime.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import onnx

from clock_attention.files import check_writable, write_atomically
from clock_attention.speech.model.aligned import AlignedModel
from clock_attention.speech.model.layers import DecoderLayer, EncoderLayer
from clock_attention.speech.model.length import NATURAL_MPR
from clock_attention.speech.model.transformer_model import SpeechModel
from clock_attention.speech.voice.onnx_aligned import AlignedGraph
from clock_attention.speech.voice.onnx_graph import proto_of
from clock_attention.speech.voice.onnx_layers import FLOAT, INT64, AcousticGraph
from clock_attention.speech.voice.voice import Voice


def onnx_model(voice: Voice) -> onnx.ModelProto:
    """Export a voice as an ONNX model, with everything that its users need to know as metadata.

    Inputs    tokens          int64 (B, T): phoneme ids; values after an item's length are ignored
              token_lengths   int64 (B,)
              frames          int64 (B,) or (1,): mel frames of each item; 0 leaves them to the length model
              pace            float (B,) or (1,): relative to natural, if the length model decides; 2 is twice as fast
    Outputs   mel             float (B, S, M): log-mel; silence after an item's last frame
              mel_lengths     int64 (B,)
              attention       float (B, layers · heads, decoder steps, T): 0 where either side is padding; for models
                              with durations (B, 1, S, T + 2), with the silences before and after
    """
    model, language = voice.model, voice.language
    if model.config.autoregressive:
        raise ValueError(f"{voice.path}: ONNX export takes a parallel model, got an autoregressive one")
    mean, std, log_floor = language.mean, language.std, language.mel.log_floor
    graph: AcousticGraph
    if isinstance(model, AlignedModel):
        if model.flow is not None:
            raise ValueError(f"{voice.path}: ONNX has no flow decoder; export a voice without one")
        graph, heads, tokens = AlignedGraph(), 1, "tokens and silences"
        mel, lengths, attention = graph.acoustic_model(model, mean, std, log_floor)
    else:
        graph, heads, tokens = AcousticGraph(), model.config.heads * model.config.decoder_layers, "tokens"
        mel, lengths, attention = acoustic_model(graph, model, mean, std, log_floor)
    graph.add("Identity", mel, output="mel")
    graph.add("Identity", lengths, output="mel_lengths")
    graph.add("Identity", attention, output="attention")
    provenance = voice.card.provenance
    return proto_of(
        graph,
        inputs={
            "tokens": (INT64, ["batch", "tokens"]),
            "token_lengths": (INT64, ["batch"]),
            "frames": (INT64, ["batch or 1"]),
            "pace": (FLOAT, ["batch or one"]),
        },
        outputs={
            "mel": (FLOAT, ["batch", "frames", model.config.mels]),
            "mel_lengths": (INT64, ["batch"]),
            "attention": (FLOAT, ["batch", heads, "steps", tokens]),
        },
        metadata={
            "symbols": json.dumps(language.symbols, ensure_ascii=False),
            "phonemizer": language.phonemizer,
            "mel": language.mel.model_dump_json(),
            "frames_per_step": str(model.config.frames_per_step),
            "corpus": provenance.corpus,
            "licence": provenance.licence,
            "consent": provenance.consent or "",
        },
    )


def acoustic_model(
    graph: AcousticGraph, model: SpeechModel, mean: tuple[float, ...], std: tuple[float, ...], log_floor: float
) -> tuple[str, str, str]:
    """The Transformer acoustic model as an ONNX graph: log-mel, its lengths and the attention weights."""
    config, lengths = model.config, "token_lengths"
    longest = graph.size("tokens", 1)
    memory_padding = graph.past_end(lengths, longest)
    ids = graph.where(memory_padding, 0, "tokens", np.int64)
    x = graph.add("Gather", graph.value(model.embedding.weight), ids)  # (B, T, E)
    if config.encoder_positions == "absolute":
        place = graph.unsqueeze(graph.cast(graph.range(longest), FLOAT), 0)
        x = graph.plus(x, graph.sinusoids(place, config.width))
    for layer in model.encoder:
        assert isinstance(layer, EncoderLayer)
        x = graph.encoder_layer(x, layer, memory_padding)
    memory = graph.norm(x, model.encoder_norm)

    predicted = graph.over(graph.predicted_frames(memory, memory_padding, model.length), "pace")
    predicted = graph.cast(graph.add("Round", predicted), INT64)
    given = graph.add("Greater", "frames", graph.value(0, np.int64))
    frames = graph.binary("Max", graph.where(given, "frames", predicted), 1, np.int64)  # (B,)
    group = config.frames_per_step
    steps = graph.over(graph.plus(frames, group - 1, np.int64), group, np.int64)
    padding = graph.past_end(steps, graph.largest(steps))

    place = graph.unsqueeze(graph.cast(graph.range(graph.largest(steps)), FLOAT), 0)  # (1, S)
    if config.positions == "absolute":
        place = graph.times(place, group)
    else:
        share = graph.over(graph.plus(place, 0.5), graph.unsqueeze(graph.cast(steps, FLOAT), 1))  # (B, S)
        tokens = graph.unsqueeze(graph.cast(lengths, FLOAT), 1)
        place = graph.times(graph.times(share, tokens), NATURAL_MPR)
    x = graph.sinusoids(place, config.width)
    weights = []
    for layer in model.decoder:
        assert isinstance(layer, DecoderLayer)
        x, weight = graph.decoder_layer(x, layer, memory, padding, memory_padding)
        weights.append(weight)

    mel = graph.reshape(graph.linear(graph.norm(x, model.decoder_norm), model.output), 0, -1, config.mels)
    absent = graph.past_end(frames, graph.size(mel, 1))
    if config.postnet_layers:
        mel = graph.postnet(mel, model.postnet, absent)
    mel = graph.plus(graph.times(mel, std), mean)
    mel = graph.where(graph.unsqueeze(absent, 2), math.log(log_floor), mel)
    return graph.cut(mel, graph.largest(frames), 1), frames, graph.add("Concat", *weights, axis=1)


def export_onnx(voice: Voice, path: str | Path) -> Path:
    """Write the acoustic model of a voice as an .onnx file."""
    path = Path(path)
    if path.suffix.lower() != ".onnx":
        raise ValueError(f"{path}: expected a name ending in .onnx")
    check_writable(path)
    write_atomically(path, onnx_model(voice).SerializeToString())
    return path
