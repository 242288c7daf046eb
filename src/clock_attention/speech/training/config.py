"""Configuration of a run: typed sections, presets as TOML files, `key=value` changes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt, ValidationError, model_validator

from clock_attention.speech.model.config import AcousticConfig, ModelConfig, Section, Share, key_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]


FORMER_NAMES = {"own_frames": "scheduled_sampling", "timing_play": "timing_slack"}  # accepted in place of the new ones


class TrainingConfig(Section):
    """Training options. Everything random is a function of seed and step, so runs resume bit for bit."""

    seed: int = 0
    steps: PositiveInt = 100_000
    batch_size: PositiveInt = 48  # utterances over all processes
    batch_frames: Annotated[int, Field(ge=0)] = 0  # limit on frames, padding included, over all processes; 0: no limit
    longest_tokens: Annotated[int, Field(ge=0)] = 0  # longer utterances are left out, in validation, too; 0: no limit
    # Short utterances are easier to align: training starts with this share of the utterances, the shortest ones, and
    # grows it to all of them over `short_steps` steps.
    short_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    short_steps: Annotated[int, Field(ge=0)] = 0
    learning_rate: PositiveFloat = 1e-4
    schedule: Literal["constant", "cosine"] = "constant"
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    final_rate: Annotated[float, Field(ge=0, le=1)] = 0.02  # share of the learning rate at the end of the cosine
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    # Factor on the learning rate for a learned logit_scale: Adam moves a scalar by about its learning rate per step,
    # and sharp alignments need values well above 10.
    logit_scale_rate: PositiveFloat = 1.0
    clip: Annotated[float, Field(ge=0)] = 1.0  # maximum gradient norm; 0: no clipping
    freeze: str = ""  # parts of the model that are not trained: "encoder" or "encoder, timing"
    ema: Share = 0.0  # decay of the averaged weights; 0: none
    # Weight of the loss that brings causal clocks to 1 at the last frame.
    end_of_clock: Annotated[float, Field(ge=0)] = 0.1
    # Scheduled sampling (autoregressive decoding): in each utterance, a random share of the true previous frames, up to
    # this value, is replaced by the model's own predictions. Costs one more forward pass.
    scheduled_sampling: Annotated[float, Field(ge=0, le=1)] = 0.0
    # Time-warped L1 (parallel decoding): from step `warped_from` on, this share of the L1 pairs predicted frames with
    # true ones along the best monotone path, at most `timing_slack` frames off (warping.py). The rest keeps the timing.
    warped_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    warped_from: Annotated[int, Field(ge=0)] = 0
    timing_slack: PositiveInt = 12
    # Models that learn along an alignment: weights of the losses besides L1. Pitch is in standard deviations of log F0,
    # durations in log frames.
    duration_weight: Annotated[float, Field(ge=0)] = 0.3
    energy_weight: Annotated[float, Field(ge=0)] = 0.1
    pitch_weight: Annotated[float, Field(ge=0)] = 0.3
    voicing_weight: Annotated[float, Field(ge=0)] = 0.3
    # This share of the utterances is decoded with the predicted energies, as in synthesis, the others with the true
    # ones: a decoder that only sees true energies relies on them for the level and shape of a sound.
    predicted_energy: Annotated[float, Field(ge=0, le=1)] = 0.0
    # Also along an alignment: weight of the mel-cepstral distance (spectral shape), in addition to L1; 0: none.
    cepstral_weight: Annotated[float, Field(ge=0)] = 0.0
    flow_weight: Annotated[float, Field(ge=0)] = 1.0  # if the model has a flow decoder
    # Also along an alignment: a discriminator of mel patches from step `adversarial_from` on; weight 0: none.
    adversarial_weight: Annotated[float, Field(ge=0)] = 0.0
    adversarial_from: Annotated[int, Field(ge=0)] = 0
    feature_weight: Annotated[float, Field(ge=0)] = 0.1
    discriminator_rate: PositiveFloat = 3e-4
    # Time-stretch: this share of the utterances has its length multiplied by a factor between these two.
    stretch_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    stretch_shortest: PositiveFloat = 0.5
    stretch_longest: PositiveFloat = 1.7

    validate_every: PositiveInt = 1000  # steps
    validation_utterances: PositiveInt = 64
    pictures: Annotated[int, Field(ge=0)] = 2
    checkpoint_minutes: PositiveFloat = 10.0
    log_every: PositiveInt = 50

    @model_validator(mode="before")
    @classmethod
    def _current_names(cls, table: Any) -> Any:
        """Accept the former option names, which runs, voices and presets of version 0.1 have."""
        return {FORMER_NAMES.get(key, key): value for key, value in table.items()} if isinstance(table, dict) else table

    @model_validator(mode="after")
    def _consistent(self) -> TrainingConfig:
        if self.stretch_shortest > self.stretch_longest:
            raise ValueError(f"stretch_shortest {self.stretch_shortest} exceeds stretch_longest {self.stretch_longest}")
        return self


class RunConfig(Section):
    """A preset with the user's changes, completed with the sizes of the corpus."""

    model: AcousticConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()

    def changed(self, assignments: Iterable[str]) -> RunConfig:
        """A copy with `key=value` or `section.key=value` applied; values as in TOML, quotes around words optional."""
        tables = self.model_dump()
        for assignment in assignments:
            section, key, value = self._parse(assignment)
            tables[section][key] = value
        return validated(tables)

    def _parse(self, assignment: str) -> tuple[str, str, Any]:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise ValueError(f"{assignment}: expected key=value, for example width=192")
        sections = {section: type(getattr(self, section)).model_fields for section in type(self).model_fields}
        section, dot, key = name.strip().partition(".")
        key, section = FORMER_NAMES.get(key, key), section if dot else FORMER_NAMES.get(section, section)
        if not dot:
            section, key = next((s for s, keys in sections.items() if section in keys), ""), section
        if key not in sections.get(section, ()):
            if key in ModelConfig.model_fields and key not in sections["model"]:
                raise ValueError(f"{assignment}: an option of the paper's model (presets small-l1 and paper)")
            known = ", ".join(sorted(key for keys in sections.values() for key in keys))
            raise ValueError(f"{assignment}: there is no option {name.strip()!r}; known are {known}")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()
        return section, key, value


def validated(tables: dict[str, Any], source: str = "") -> RunConfig:
    """The configuration of a run from TOML tables, or an error that names the key and its source."""
    try:
        return RunConfig.model_validate(tables)
    except ValidationError as error:
        faults = "; ".join(f"{key_of(e['loc'])}: {e['msg']} (got {e['input']!r})" for e in error.errors())
        raise ValueError(f"{source or 'configuration'}: {faults}") from None


def preset_names() -> list[str]:
    """Names of the training presets in the package."""
    return sorted(Path(entry.name).stem for entry in presets_folder().iterdir() if entry.name.endswith(".toml"))


def load_preset(name: str) -> RunConfig:
    """Load a training preset, given the name of one in the package or the path of a TOML file."""
    if name.endswith(".toml"):
        try:
            text = Path(name).read_text("utf-8")
        except OSError as error:
            raise ValueError(f"preset {name}: cannot read that file ({error.strerror})") from None
    elif name in preset_names():
        text = (presets_folder() / f"{name}.toml").read_text("utf-8")
    else:
        raise ValueError(
            f"preset {name}: expected one of {', '.join(preset_names())}, or the path of a .toml file with "
            "[model] and [training] tables"
        )
    try:
        return validated(tomllib.loads(text), f"preset {name}")
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"preset {name}: not a TOML file: {error}") from None


def presets_folder() -> Any:
    """The package's folder of training presets."""
    return resources.files("clock_attention.speech.training") / "presets"
