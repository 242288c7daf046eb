"""How one's own voice is fine-tuned and exported; `voice create` and its benchmark do it alike."""

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

ADVERSARY_SHARE = 0.15  # of the steps before the discriminator joins
FEWEST_STEPS = 200
# More steps did not sound better, and words were understood less well: more than 500 with 5 or 10 minutes of
# recordings, more than 1,500 with 20 and above (docs/results/own_voice.md).
RECORDED_MINUTES, MOST_STEPS = (10, 20), (500, 1500)


def worthwhile_steps(recorded_minutes: float) -> int:
    """How many steps of fine-tuning improve a voice; more do not."""
    return int(np.interp(recorded_minutes, RECORDED_MINUTES, MOST_STEPS))


def steps_within(minutes: float, seconds_per_step: float, worthwhile: int) -> int:
    """How many steps to fine-tune a voice: as many as fit into the time, within what makes sense."""
    return int(min(worthwhile, max(FEWEST_STEPS, 60 * minutes / seconds_per_step)))


def fine_tuning_config(start: Start, steps: int, seed: int = 0) -> RunConfig:
    """The preset `finetune` for so many steps from this start."""
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
    """Write the voice of a finished run; returns its card and the factor of its energies.

    Predicted energies are scaled to vary as much as those of the recordings that were held out.
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
