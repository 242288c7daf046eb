"""Fine-tuning and export of a user's own voice, shared by `voice create` and its benchmark."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from clock_attention.own_voice.measure import held_out
from clock_attention.own_voice.spread import energy_spread
from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.model.aligned import AlignedModel
from clock_attention.speech.training.config import RunConfig, load_preset
from clock_attention.speech.training.transfer import Start
from clock_attention.speech.voice.from_run import export
from clock_attention.speech.voice.voice import Voice
from clock_attention.speech.voice.voice_folder import VoiceCard

ADVERSARY_SHARE = 0.15  # share of the steps before the discriminator joins
FEWEST_STEPS = 200
# More steps did not sound better, and intelligibility fell: beyond 500 steps with 5 or 10 minutes of recordings,
# beyond 1,500 with 20 or more (docs/results/own_voice.md).
RECORDED_MINUTES, MOST_STEPS = (10, 20), (500, 1500)


def worthwhile_steps(recorded_minutes: float) -> int:
    """Number of fine-tuning steps beyond which a voice no longer improves."""
    return int(np.interp(recorded_minutes, RECORDED_MINUTES, MOST_STEPS))


def steps_within(minutes: float, seconds_per_step: float, worthwhile: int) -> int:
    """Number of steps to fine-tune a voice: as many as fit into the time, within FEWEST_STEPS … `worthwhile`."""
    return int(min(worthwhile, max(FEWEST_STEPS, 60 * minutes / seconds_per_step)))


def fine_tuning_config(start: Start, steps: int, seed: int = 0) -> RunConfig:
    """The preset `finetune` with this number of steps and this starting voice."""
    changes = [
        f"steps={steps}",
        f"seed={seed}",
        f"warmup_steps={min(50, max(1, steps // 10))}",
        f"adversarial_from={round(ADVERSARY_SHARE * steps)}",
        f"validate_every={max(1, steps // 8)}",
    ]
    return load_preset("finetune").model_copy(update={"model": start.model}).changed(changes)


def export_own_voice(
    run: Path,
    out: Path,
    store: FeatureStore,
    start: Start,
    *,
    licence: str,
    consent: str | None = None,
    blend: float = 1.0,
) -> tuple[VoiceCard, float]:
    """Export the user's own voice from a finished run; returns its card and the scale factor of its energies.

    Predicted energies are scaled to vary as much as those of the held-out recordings.
    """
    write = partial(
        export, run, out, licence=licence, which="last", half=True, consent=consent, start=start, blend=blend
    )
    card, spread = write(), 1.0
    model = Voice.load(out).model
    if isinstance(model, AlignedModel):
        spread = energy_spread(model, store, held_out(store))
        card = write(energy_spread=spread)
    return card, spread
