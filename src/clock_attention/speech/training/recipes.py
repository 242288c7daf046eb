"""Training recipes, which differ between the two acoustic models: batches, losses, validation, figures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from clock_attention.speech.bfloat16 import bfloat16_where_fast
from clock_attention.speech.corpus.protocols import Corpus, TimedFeatures
from clock_attention.speech.model.aligned import AlignedModel
from clock_attention.speech.model.config import AlignedConfig, ModelConfig
from clock_attention.speech.model.transformer_model import SpeechModel, past_end
from clock_attention.speech.training.adversarial import MelDiscriminator, cut_windows, patches
from clock_attention.speech.training.aligned import AlignedBatch, aligned_losses, cepstral_errors, collate_aligned
from clock_attention.speech.training.batching import Batch, Plan, collate, in_order
from clock_attention.speech.training.config import RunConfig
from clock_attention.speech.training.losses import losses
from clock_attention.speech.training.validation import MEASURES, draw_aligned, draw_validation, evaluating, validate


class Recipe(ABC):
    """Training recipe of one acoustic model; everything random in it is a function of the seed and the step."""

    columns: tuple[str, ...]  # log columns, one for each value that `losses` returns
    measures: tuple[str, ...]  # log columns for the results of `validate`
    unclipped: tuple[str, ...] = ()  # child modules whose gradients do not count towards the clipped norm

    def __init__(self, config: RunConfig, store: Corpus) -> None:
        self.config, self.store = config, store

    @abstractmethod
    def build(self) -> nn.Module:
        """Build the model with its initial weights."""

    @abstractmethod
    def collate(self, plan: Plan) -> Any:
        """Load the tensors of a plan; the result has a method `to(device)`."""

    @abstractmethod
    def losses(self, model: nn.Module, batch: Any, plan: Plan, step: int) -> tuple[Tensor, Tensor]:
        """Loss of one process's share of a batch, and the values for the log; `plan` is of the whole batch."""

    @abstractmethod
    def validate(self, fabric: Fabric, model: nn.Module, items: list[int]) -> dict[str, float]:
        """Measures on held-out utterances."""

    @abstractmethod
    def objective(self, measures: dict[str, float], step: int) -> float:
        """The value by which the best checkpoint is chosen; lower is better."""

    @abstractmethod
    def draw(self, model: nn.Module, items: list[int], folder: Path, step: int, device: torch.device) -> None:
        """Draw one figure per item."""

    def setup(self, fabric: Fabric) -> None:
        """Set up further networks that are trained together with the model, on their devices."""
        self.fabric = fabric

    def state(self) -> dict[str, Any]:
        """State that a checkpoint needs besides the model."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:  # noqa: B027  # most have none
        """Restore this state from a checkpoint."""


class AttentionRecipe(Recipe):
    """Training recipe of the paper's model: L1, the utterance's length, and the end of causal clocks."""

    columns = ("train_l1", "length_loss", "end_loss")
    measures = ("valid_l1", "valid_warped_l1", "length_error", *(f"align_{name}" for name in MEASURES))
    unclipped = ("length",)

    def __init__(self, config: RunConfig, store: Corpus) -> None:
        super().__init__(config, store)
        if len(store.speakers) > 1:
            names = ", ".join(speaker.name for speaker in store.speakers)
            raise ValueError(
                f"the corpus has several speakers ({names}), and the paper's model learns one: use the preset small, "
                "or the corpus of one of them"
            )

    def build(self) -> SpeechModel:
        assert isinstance(self.config.model, ModelConfig)
        return SpeechModel(self.config.model)

    def collate(self, plan: Plan) -> Batch:
        return collate(self.store, plan)

    def losses(self, model: nn.Module, batch: Batch, plan: Plan, step: int) -> tuple[Tensor, Tensor]:
        training = self.config.training
        previous = batch.mel
        if self.config.model.autoregressive and training.scheduled_sampling:
            previous = self.sampled(model, batch, training.scheduled_sampling)
        prediction = model(batch.tokens, batch.token_lengths, batch.frames, previous)
        found = losses(
            prediction,
            batch,
            all_frames=sum(plan.frames),
            all_items=len(plan.items),
            warped_share=self.warped_share(step),
            slack=training.timing_slack,
        )
        return found.total(training.end_of_clock), torch.stack([found.mel, found.length, found.end])

    def warped_share(self, step: int) -> float:
        training = self.config.training
        wanted = not self.config.model.autoregressive and step >= training.warped_from
        return training.warped_share if wanted else 0.0

    @torch.no_grad()
    def sampled(self, model: nn.Module, batch: Batch, most: float) -> Tensor:
        """Scheduled sampling: the target with some decoder steps replaced by the model's own prediction of them.

        The prediction takes one more parallel, teacher-forced pass (Mihaylova and Martins, 2019). Whole steps are
        replaced: a true frame within a step would give the others away. Each item's share is drawn from 0 to `most`.
        """
        predicted = model(batch.tokens, batch.token_lengths, batch.frames, batch.mel).mel
        predicted = predicted[:, : batch.mel.shape[1]]
        share = most * torch.rand(len(batch.frames), 1, device=predicted.device)
        group = self.config.model.frames_per_step
        steps = -(-int(batch.frames.max()) // group)
        chosen = torch.rand(len(batch.frames), steps, device=predicted.device) < share  # (B, steps)
        chosen = chosen.repeat_interleave(group, 1)[:, : predicted.shape[1]]
        return torch.where(chosen[..., None], predicted.to(batch.mel.dtype), batch.mel)

    def validate(self, fabric: Fabric, model: nn.Module, items: list[int]) -> dict[str, float]:
        assert isinstance(model, SpeechModel)
        return validate(fabric, model, self.store, items, self.config)

    def objective(self, measures: dict[str, float], step: int) -> float:
        share = self.warped_share(step)  # as in training
        return (1 - share) * measures["valid_l1"] + share * measures["valid_warped_l1"]

    def draw(self, model: nn.Module, items: list[int], folder: Path, step: int, device: torch.device) -> None:
        assert isinstance(model, SpeechModel)
        draw_validation(model, self.store, items, folder, step, device)


class AlignedRecipe(Recipe):
    """Training recipe of the aligned model: L1 and prosody, later also a discriminator of mel patches."""

    columns: tuple[str, ...] = (
        "train_l1",
        "duration_loss",
        "energy_loss",
        "pitch_loss",
        "voicing_loss",
        "adversarial",
        "features",
    )
    measures = ("valid_l1", "valid_duration", "valid_energy", "valid_pitch", "valid_voicing")

    def __init__(self, config: RunConfig, store: Corpus) -> None:
        super().__init__(config, store)
        self.flows = isinstance(config.model, AlignedConfig) and bool(config.model.flow_layers)
        self.columns += ("cepstra",) * bool(config.training.cepstral_weight) + ("flow",) * self.flows
        if not getattr(store, "timed", False):
            stores = getattr(store, "stores", [store])
            missing = ", ".join(str(getattr(s, "path", "the corpus")) for s in stores if not getattr(s, "timed", False))
            raise ValueError(
                f"this model learns along an alignment, and {missing} has none: run `clock-attention corpus align` on "
                "it first, or train the preset small-l1, which needs none"
            )
        heard = {store.speaker(item) for item in store.split("train")}
        unheard = [speaker.name for place, speaker in enumerate(store.speakers) if place not in heard]
        if len(store.speakers) > 1 and unheard:
            raise ValueError(
                f"no utterance of the speaker {', '.join(unheard)} is left for training: add recordings, or leave this "
                "speaker out"
            )

    @property
    def features(self) -> TimedFeatures:
        return self.store  # type: ignore[return-value]  # checked above

    @property
    def boundaries(self) -> int:
        assert isinstance(self.config.model, AlignedConfig)
        return self.config.model.boundaries

    def build(self) -> AlignedModel:
        assert isinstance(self.config.model, AlignedConfig)
        return AlignedModel(self.config.model)

    def setup(self, fabric: Fabric) -> None:
        super().setup(fabric)
        if self.config.training.adversarial_weight:
            discriminator = MelDiscriminator()
            optimizer = torch.optim.AdamW(
                discriminator.parameters(), lr=self.config.training.discriminator_rate, betas=(0.5, 0.9)
            )
            self.discriminator, self.optimizer = fabric.setup(discriminator, optimizer)
            self.discriminator.mark_forward_method("discriminator_loss")

    def state(self) -> dict[str, Any]:
        if not self.config.training.adversarial_weight:
            return {}
        return {"discriminator": self.discriminator, "discriminator_optimizer": self.optimizer}

    def load_state(self, state: dict[str, Any]) -> None:
        if self.config.training.adversarial_weight and "discriminator" in state:
            self.discriminator.load_state_dict(state["discriminator"])
            self.optimizer.load_state_dict(state["discriminator_optimizer"])

    def collate(self, plan: Plan) -> AlignedBatch:
        return collate_aligned(self.features, plan)

    def losses(self, model: nn.Module, batch: AlignedBatch, plan: Plan, step: int) -> tuple[Tensor, Tensor]:
        training = self.config.training
        own = None
        if training.predicted_energy:
            own = torch.rand(len(batch.frames), device=batch.mel.device) < training.predicted_energy
        with bfloat16_where_fast(batch.mel):
            prediction = model(*batch.inputs, batch.mel, own, batch.speakers)
        tokens = sum(len(self.store.utterances[item].tokens) + 1 for item in plan.items)
        found = aligned_losses(
            prediction, batch, boundaries=self.boundaries, all_frames=sum(plan.frames), all_tokens=tokens
        )
        weights = found.mel.new_tensor(
            [1.0, training.duration_weight, training.energy_weight, training.pitch_weight, training.voicing_weight]
        )
        loss = (torch.stack(found) * weights).sum()
        judged = self.judged(prediction.mel.float(), batch, plan, step)
        loss = loss + training.adversarial_weight * judged[0] + training.feature_weight * judged[1]
        values = [*found, *judged]
        more: list[tuple[float, Tensor]] = []  # weight and error of every frame (B, S)
        if training.cepstral_weight:
            more.append((training.cepstral_weight, cepstral_errors(prediction.mel.float(), batch.mel)))
        if prediction.flow is not None:
            more.append((training.flow_weight, prediction.flow))
        present = ~past_end(batch.frames, batch.mel.shape[1])
        for weight, errors in more:
            values.append((errors * present).sum() / sum(plan.frames))
            loss = loss + weight * values[-1]
        return loss, torch.stack(values)

    def judged(self, mel: Tensor, batch: AlignedBatch, plan: Plan, step: int) -> tuple[Tensor, Tensor]:
        """Train the discriminator on patches of this batch, and score the model's patches with it."""
        training, none = self.config.training, mel.new_zeros(())
        if not training.adversarial_weight or step < training.adversarial_from:
            return none, none
        places = patches(batch.frames, seed=step)
        if not places:
            return none, none
        real, fake = cut_windows(batch.mel, places), cut_windows(mel, places)
        self.optimizer.zero_grad()
        self.fabric.backward(self.discriminator.discriminator_loss(real, fake))
        self.optimizer.step()
        # Not through Fabric's wrapper: DDP would wait for gradients of the weights, which get none here.
        adversarial, features = self.discriminator.module.generator_losses(real, fake)
        share = len(batch.frames) / len(plan.items)
        return share * adversarial, share * features

    @torch.no_grad()
    def validate(self, fabric: Fabric, model: nn.Module, items: list[int]) -> dict[str, float]:
        totals = torch.zeros(6, dtype=torch.float64)
        size = max(1, self.config.training.batch_size // fabric.world_size)
        with evaluating(model):
            for plan in in_order(self.store, items, size)[fabric.global_rank :: fabric.world_size]:
                batch = self.collate(plan).to(fabric.device)
                with fabric.autocast():
                    prediction = model(*batch.inputs, speakers=batch.speakers)
                found = aligned_losses(prediction, batch, boundaries=self.boundaries, all_frames=1, all_tokens=1)
                totals += torch.tensor([*map(float, found), float(batch.frames.sum())], dtype=torch.float64)
        totals = torch.as_tensor(fabric.all_reduce(totals, reduce_op="sum")).double()
        tokens = sum(len(self.store.utterances[item].tokens) + 1 for item in items)
        *sums, frames = totals.tolist()
        counts = (frames, tokens, tokens, frames, frames)
        return {name: value / count for name, value, count in zip(self.measures, sums, counts, strict=True)}

    def objective(self, measures: dict[str, float], step: int) -> float:
        # L1 prefers the blurred mel from before the discriminator started: from there on, later is better.
        if self.config.training.adversarial_weight and step > self.config.training.adversarial_from:
            return -float(step)
        return measures["valid_l1"]

    def draw(self, model: nn.Module, items: list[int], folder: Path, step: int, device: torch.device) -> None:
        assert isinstance(model, AlignedModel)
        for item in items:
            batch = self.collate(Plan((item,), (self.store.utterances[item].frames,))).to(device)
            draw_aligned(model, batch, self.store.utterances[item].id, folder, step)


def recipe_for(config: RunConfig, store: Corpus) -> Recipe:
    """The training recipe of the acoustic model that a run is configured for."""
    return AlignedRecipe(config, store) if isinstance(config.model, AlignedConfig) else AttentionRecipe(config, store)
