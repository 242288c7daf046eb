"""Validation: L1, length error, alignment measures and figures of held-out utterances."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from torch import Tensor, nn

from clock_attention.alignment import FloatArray, attention_matrices, measure_quality
from clock_attention.files import replacing
from clock_attention.speech.corpus.protocols import Features
from clock_attention.speech.model.aligned import AlignedModel, meeting_weights
from clock_attention.speech.model.transformer_model import SpeechModel
from clock_attention.speech.training.aligned import AlignedBatch
from clock_attention.speech.training.batching import collate, in_order
from clock_attention.speech.training.config import RunConfig
from clock_attention.speech.training.losses import mel_error
from clock_attention.speech.training.warping import warped

ALIGNED_UTTERANCES = 16  # alignment measures need the weight matrices, which cost memory and time
MEASURES = ("skipped", "repeated", "expected_violations", "coverage", "focus", "diagonal_deviation")


def validate(
    fabric: Fabric, model: SpeechModel, store: Features, items: list[int], config: RunConfig
) -> dict[str, float]:
    """Validation: L1, plain and along the best path in time, over all items, which the processes share.

    The first process adds alignment measures of the first few items.
    """
    totals = torch.zeros(5, dtype=torch.float64)  # absolute error, warped, values, length error, utterances
    size = max(1, config.training.batch_size // fabric.world_size)
    with evaluating(model):
        for plan in in_order(store, items, size)[fabric.global_rank :: fabric.world_size]:
            batch = collate(store, plan).to(fabric.device)
            with fabric.autocast():
                prediction = model(batch.tokens, batch.token_lengths, batch.frames, batch.mel)
            error, values = mel_error(prediction.mel, batch.mel, batch.frames)
            best = warped(prediction.mel, batch.mel, batch.frames, config.training.timing_slack)
            warped_error, _ = mel_error(prediction.mel, best, batch.frames)
            length_error = (prediction.log_frames.float().exp() / batch.natural_frames - 1).abs()
            found = (error, warped_error, values, length_error.sum(), len(plan.items))
            totals += torch.tensor([float(value) for value in found])
        totals = torch.as_tensor(fabric.all_reduce(totals, reduce_op="sum")).double()
        errors, lengths = totals[:2] / totals[2], totals[3] / totals[4]
        measures = {
            "valid_l1": float(errors[0]),
            "valid_warped_l1": float(errors[1]),
            "length_error": float(lengths),
        }
        return measures | (align(model, store, items[:ALIGNED_UTTERANCES], fabric) if fabric.is_global_zero else {})


def align(model: SpeechModel, store: Features, items: list[int], fabric: Fabric) -> dict[str, float]:
    """Validation's alignment measures: each item's most diagonal head over all decoder layers, averaged over items."""
    rows = []
    for plan in in_order(store, items, 8):
        batch = collate(store, plan).to(fabric.device)
        with fabric.autocast():
            prediction = model(batch.tokens, batch.token_lengths, batch.frames, batch.mel, need_weights=True)
        for matrix in matrices(model, torch.cat(prediction.weights, 1), batch.frames, batch.token_lengths):
            measures = measure_quality(matrix).as_dict()
            rows.append([measures[name] for name in MEASURES])
    return {f"align_{name}": float(value) for name, value in zip(MEASURES, np.mean(rows, 0), strict=True)}


def matrices(model: SpeechModel, weights: Tensor, frames: Tensor, tokens: Tensor) -> list[FloatArray]:
    """Attention of each item's most diagonal head over all layers, for validation; the end token is included."""
    steps = model.steps(frames)
    return attention_matrices(weights.float(), steps, tokens + model.config.autoregressive, heads="diagonal")


def draw_validation(
    model: SpeechModel, store: Features, items: list[int], folder: Path, step: int, device: torch.device
) -> None:
    """Draw validation figures, one PNG per item: every layer's attention, the predicted and the true mel."""
    folder.mkdir(parents=True, exist_ok=True)
    for plan in in_order(store, items, 1):
        batch = collate(store, plan).to(device)
        with evaluating(model):
            prediction = model(batch.tokens, batch.token_lengths, batch.frames, batch.mel, need_weights=True)
        name = store.utterances[plan.items[0]].id
        layers = [weight[0].float().mean(0).T.cpu().numpy() for weight in prediction.weights]  # (T, steps)
        save_picture(folder, name, step, layers, prediction.mel[0], batch.mel[0])


def draw_aligned(model: AlignedModel, batch: AlignedBatch, name: str, folder: Path, step: int) -> None:
    """Draw the aligned model's validation figure for a batch of one: where frames read the text, and both mels."""
    folder.mkdir(parents=True, exist_ok=True)
    with evaluating(model):
        prediction = model(*batch.inputs, speakers=batch.speakers)
        padding = torch.zeros_like(batch.durations, dtype=torch.bool)
        weights = meeting_weights(batch.durations, padding, batch.mel.shape[1])
    save_picture(folder, name, step, [weights[0].T.cpu().numpy()], prediction.mel[0], batch.mel[0])


def save_picture(
    folder: Path, name: str, step: int, layers: list[NDArray[Any]], predicted: Tensor, target: Tensor
) -> None:
    """Save a validation figure: attention of each layer (T, steps), and two mels (S, M)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * (len(layers) + 2), 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(layers) + 2)
    for number, (axis, weights) in enumerate(zip(axes, layers, strict=False), 1):
        axis.imshow(weights, origin="lower", aspect="auto", interpolation="nearest", cmap="viridis")
        axis.set(title=f"layer {number}", xlabel="decoder step", ylabel="token")
    for axis, mel, title in ((axes[-2], predicted, "predicted mel"), (axes[-1], target, "mel")):
        image = mel.float().T.cpu().numpy()
        axis.imshow(image, origin="lower", aspect="auto", cmap="magma", vmin=-2.5, vmax=2.5)
        axis.set(title=title, xlabel="frame", ylabel="bin")
    figure.suptitle(f"{name}, step {step}")
    path = folder / f"{safe_name(name)}-{step:08d}.png"
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=90)


def safe_name(name: str) -> str:
    """An utterance's id as a safe file name for a validation figure."""
    return "".join(character if character.isalnum() or character in "-_" else "_" for character in name)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients, for validation; restores the previous mode afterwards."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)
