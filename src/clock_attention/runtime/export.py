"""Export voices to folders that the runtime reads. Needs torch, unlike the rest of the runtime."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from clock_attention.files import make_folder, temporary_name
from clock_attention.runtime.folder import CARD, FORMAT, FRAMES, HARMONIC, LEXICON, TEXT, VOCODER, WAVE
from clock_attention.speech.model.aligned import AlignedModel
from clock_attention.speech.vocoder.harmonic_synthesis import HarmonicVocoder
from clock_attention.speech.vocoder.vocoder import Hifigan
from clock_attention.speech.voice.onnx_aligned import frame_graph, text_graph
from clock_attention.speech.voice.onnx_vocoder import harmonic_graph, hifigan_graph
from clock_attention.speech.voice.voice import Voice


def export_runtime(voice: Voice, folder: str | Path, *, vocoder: str | Path = "auto") -> Path:
    """Export a voice for `clock_attention.runtime.load`: ONNX graphs and `runtime.json`; a failure leaves no files."""
    folder, model, language = Path(folder), voice.model, voice.language
    if not isinstance(model, AlignedModel):
        raise ValueError(
            f"{voice.path}: the runtime speaks voices with durations, such as the default one; this one has attention "
            "alone: only its acoustic model can be exported, as one ONNX file"
        )
    if model.flow is not None:
        raise ValueError(f"{voice.path}: the runtime has no flow decoder; export a voice without one")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder}: exists already; choose another name")
    found = voice.vocoder(vocoder)
    if isinstance(found, Hifigan):
        kind, sounding, context = WAVE, hifigan_graph(found), found.config.context
    elif isinstance(found, HarmonicVocoder):
        kind, sounding, context = HARMONIC, harmonic_graph(found.network), 0
    else:
        raise ValueError(f"vocoder: {found.name!r} cannot be exported: use the package's own, or HiFi-GAN")
    card = {
        "format": FORMAT,
        "symbols": language.symbols,
        "phonemizer": language.phonemizer,
        "mpr": language.mpr,
        "sample_rate": language.mel.sample_rate,
        "hop_length": language.mel.hop_length,
        "log_floor": language.mel.log_floor,
        "pitch_std": language.prosody.pitch_std if language.prosody is not None else None,
        "longest_phrase": voice.longest_phrase,
        "vocoder": kind,
        "vocoder_context": context,
        "corpus": voice.card.provenance.corpus,
        "licence": voice.card.provenance.licence,
        "consent": voice.card.provenance.consent,
    }
    parts = {
        TEXT: text_graph(model),
        FRAMES: frame_graph(model, language.mean, language.std, language.mel.log_floor),
        VOCODER: sounding,
    }
    make_folder(folder.parent)
    temporary = temporary_name(folder)
    try:
        temporary.mkdir()
        for name, proto in parts.items():
            (temporary / name).write_bytes(proto.SerializeToString())
        if (voice.path / LEXICON).is_file():
            shutil.copyfile(voice.path / LEXICON, temporary / LEXICON)
        (temporary / CARD).write_text(json.dumps(card, ensure_ascii=False, indent=1) + "\n", "utf-8")
        os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder
