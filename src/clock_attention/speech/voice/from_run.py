"""Voices from training runs: export, or opening a run as a voice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import save_file

from clock_attention import __version__
from clock_attention.files import replacing, write_atomically
from clock_attention.speech.model.aligned import SPEAKERS, one_speaker
from clock_attention.speech.model.build import build_model, expected_weights
from clock_attention.speech.text.lexicon import load_lexicon
from clock_attention.speech.training.progress import read_log
from clock_attention.speech.training.run import RunDescription
from clock_attention.speech.training.transfer import Start
from clock_attention.speech.voice.voice import Voice
from clock_attention.speech.voice.voice_folder import (
    CARD,
    LEXICON,
    WEIGHTS,
    Provenance,
    VoiceCard,
    check_weights,
    file_digest,
)


def export(
    run: Path,
    folder: Path,
    *,
    licence: str,
    which: str = "best",
    half: bool = False,
    lexicon: Path | None = None,
    consent: str | None = None,
    start: Start | None = None,
    blend: float = 1.0,
    energy_spread: float = 1.0,
    speaker: str | None = None,
) -> VoiceCard:
    """Export a training run as a voice: its weights, averaged if available, and everything needed to use them.

    Args:
        which: "best" (lowest validation loss), "last", or the path of a checkpoint.
        half: store weights in half precision; computation still uses single precision.
        lexicon: a TOML file of words to include in the voice.
        consent: for a person's voice: who speaks, and that they agree.
        start: what the run started from; needed for `blend`.
        blend: share of the run's weights, 0 … 1; the rest are those of `start`.
        speaker: for a run with several speakers: export only this one's voice.
        energy_spread: for models with energies: factor on the deviation of predicted energies from their mean.
    """
    from clock_attention.speech.training import checkpoints as checkpoint

    if lexicon is not None:
        load_lexicon(lexicon)  # raises before anything is written
    description = RunDescription.read(run)
    best = run / "checkpoints" / "best.pt"
    if which == "last" or (which == "best" and not best.exists()):
        path, state = checkpoint.read_newest(run)
    else:
        path = best if which == "best" else Path(which)
        state = checkpoint.read(path)
    weights: dict[str, Any] = {**state["model"], **state["average"]}
    check_weights(path, expected_weights(description.config.model), weights)
    if not 0 <= blend <= 1 or (blend < 1 and start is None):
        raise ValueError(f"blend: got {blend:g}, expected a share between 0 and 1, and what the run started from")
    if start is not None and blend < 1:
        weights = start.blended(weights, build_model(description.config.model), description.language, blend)
    if energy_spread != 1:
        weights = spread_energies(weights, energy_spread)
    model, language = description.config.model, description.language
    if speaker is not None:
        names = [one.name for one in language.speakers]
        if speaker not in names:
            known = f"choose one of {', '.join(names)}" if names else "it has one speaker: leave out the speaker"
            raise ValueError(f"{run}: no speaker {speaker!r}; {known}")
        weights = one_speaker(weights, weights[SPEAKERS][names.index(speaker)])
        model, language = model.model_copy(update={"speakers": 1}), language.of_speaker(speaker)
    card = VoiceCard(
        model=model,
        language=language,
        provenance=Provenance(
            corpus=description.source,
            licence=licence,
            training=description.config.training,
            steps=state["step"],
            seconds=round(state["seconds"][0], 1),
            valid_l1=validated(run, state["step"]),
            software=f"clock-attention {__version__}",
            start=description.start,
            blend=None if description.start is None else blend,
            consent=consent,
        ),
    )
    folder.mkdir(parents=True, exist_ok=True)
    dtype = torch.float16 if half else torch.float32
    with replacing(folder / WEIGHTS) as temporary:
        save_file({name: tensor.to(dtype).contiguous() for name, tensor in weights.items()}, temporary)
        temporary.chmod(0o644)  # safetensors restricts its files to their owner
    card = card.model_copy(update={"weights_sha256": file_digest(folder / WEIGHTS)})
    if lexicon is not None:
        write_atomically(folder / LEXICON, lexicon.read_text(encoding="utf-8-sig"))
    write_atomically(folder / CARD, card.model_dump_json(indent=1))
    return card


def spread_energies(weights: dict[str, Any], factor: float) -> dict[str, Any]:
    """Scale an aligned model's predicted energies around their mean, 0, when a run is exported; returns the weights."""
    spread = torch.tensor([1.0, factor])  # durations do not change
    changed = {name: weights[name] for name in ("timing_output.weight", "timing_output.bias")}
    return weights | {
        name: tensor * spread.view(-1, *[1] * (tensor.ndim - 1)).to(tensor) for name, tensor in changed.items()
    }


def validated(run: Path, step: int) -> float | None:
    """The validation L1 of a run's checkpoint; None if there was no validation at that step."""
    found = [row["valid_l1"] for row in read_log(run / "log.csv") if int(row["step"]) == step and row["valid_l1"]]
    return float(found[-1]) if found else None


@contextmanager
def opened_voice(
    path: str | Path,
    checkpoint: str = "best",
    device: str = "cpu",
    licence: str = "unknown",
    consent: str | None = None,
) -> Iterator[Voice]:
    """Open a voice folder, or a training run as a temporary voice that exists while the context is open."""
    if (Path(path) / "run.json").exists():
        with TemporaryDirectory(prefix="clock-attention-") as folder:
            voice_folder = Path(folder) / Path(path).name
            export(Path(path), voice_folder, licence=licence, which=checkpoint, consent=consent)
            yield Voice.load(voice_folder, device)
    else:
        yield Voice.load(path, device)


def start_from(path: str | Path, checkpoint: str = "last", speaker: str | None = None) -> Start:
    """Load a voice, by folder or name, or a training run, as the starting point of another training.

    With a `speaker`, only that speaker of a multi-speaker voice is used.
    """
    with opened_voice(path, checkpoint) as voice:
        model, language = voice.all_speakers or voice.model, voice.card.language
        if speaker is not None:
            voice = voice.with_speaker(speaker)
            model, language = voice.model, voice.language
        weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        return Start(Path(path).name, model.config, language, weights)
