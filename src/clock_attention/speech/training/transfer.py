"""Transfer learning: starts training for another speaker's corpus from the weights of an existing voice.

Mel, pitch and energy are standardised with each corpus's own statistics, and the weights predict standardised values.
They are reused unchanged, so the new speaker's mean spectrum, range and pitch are right before the first step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from clock_attention.speech.corpus.language import Language
from clock_attention.speech.model.aligned import SPEAKERS, one_speaker
from clock_attention.speech.model.config import AlignedConfig, ModelConfig

STRESS = "ˈˌ"
FROM_CORPUS = {"symbols", "mels", "boundaries", "speakers"}  # model options that are determined by the corpus
FREE = {"dropout", "attention_dropout", "prenet_dropout"}  # model options that do not affect shapes
FLOW = {"flow_layers", "flow_width", "flow_noise"}  # options of a decoder that can be added to a model without one


@dataclass(frozen=True)
class Start:
    """Starting point for transfer from a voice: its model options, the language it speaks, and its weights."""

    name: str
    model: ModelConfig | AlignedConfig
    language: Language
    weights: Mapping[str, Tensor]

    def require_compatible(self, model: ModelConfig | AlignedConfig, language: Language) -> None:
        """Raise if the model has another shape or the corpus another mel definition."""
        if type(model) is not type(self.model):
            raise ValueError(
                f"{self.name} is a model of the kind {self.model.architecture!r}, this configuration of the kind "
                f"{model.architecture!r}: use a preset of its kind"
            )
        options = set(type(model).model_fields) - FROM_CORPUS - FREE
        if not getattr(self.model, "flow_layers", 0):
            options -= FLOW
        if changed := sorted(name for name in options if getattr(model, name) != getattr(self.model, name)):
            mine = ", ".join(f"{name}={getattr(self.model, name)}" for name in changed)
            raise ValueError(f"{self.name} has {mine}; a training that starts from it cannot change that")
        if language.mel != self.language.mel:
            raise ValueError(
                f"{self.name} was trained on another kind of mel ({self.language.mel}): prepare the corpus with it"
            )

    def initialise(self, model: nn.Module, language: Language) -> list[str]:
        """Load the weights into a model for another corpus; returns the symbols that are new to them.

        A new symbol starts as the same phoneme with another stress if there is one, otherwise at random. A speaker of
        the same name is kept; a new one starts as the mean of the existing speakers.
        """
        weights = {name: tensor.float() for name, tensor in self.weights.items()}
        weights = self._for_speakers(weights, language, model.state_dict())
        rows, new = symbol_rows(self.language.symbols, language.symbols)
        table = model.get_parameter("embedding.weight").detach().clone()  # rows that are not replaced stay random
        former = weights["embedding.weight"]
        for place, row in enumerate(rows):
            if row is not None:
                table[place] = former[row]
        extra = len(former) - len(self.language.symbols)  # the aligned model's silences, after the symbols
        if extra:
            table[-extra:] = former[-extra:]
        weights["embedding.weight"] = table
        added = {name: tensor for name, tensor in model.state_dict().items() if name.startswith("flow.")}
        model.load_state_dict({**added, **weights})
        return new

    def _for_speakers(
        self, weights: dict[str, Tensor], language: Language, fresh: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """Adapt the weights to the speakers of another corpus; `fresh` are the weights of a new model for it."""
        table = weights.get(SPEAKERS)
        if table is None:
            return weights | ({SPEAKERS: fresh[SPEAKERS].detach().clone()} if SPEAKERS in fresh else {})
        mean = table.mean(0)
        if SPEAKERS not in fresh:
            return one_speaker(weights, mean)
        known = {speaker.name: row for speaker, row in zip(self.language.speakers, table, strict=True)}
        return weights | {SPEAKERS: torch.stack([known.get(speaker.name, mean) for speaker in language.speakers])}

    def blended(
        self, weights: Mapping[str, Tensor], model: nn.Module, language: Language, share: float
    ) -> dict[str, Tensor]:
        """Interpolate between these weights, as before the first step, and `share` of a fine-tuned model's weights.

        A short fine-tuning learns a speaker and forgets some pronunciation; between the two sets of weights there is
        both (Wortsman et al., 2022). Rows of new symbols are kept as learned. `model` is overwritten.
        """
        new = self.initialise(model, language)
        before = model.state_dict()
        mixed = {name: share * tensor.float() + (1 - share) * before[name] for name, tensor in weights.items()}
        for symbol in new:
            place = language.symbols.index(symbol)
            mixed["embedding.weight"][place] = weights["embedding.weight"][place].float()
        return mixed


def symbol_rows(former: Sequence[str], symbols: Sequence[str]) -> tuple[list[int | None], list[str]]:
    """Transfer of symbols: each symbol's row in the old embedding, or None; and the symbols that are new."""
    known = {symbol: place for place, symbol in enumerate(former)}
    plain: dict[str, int] = {}
    for place, symbol in enumerate(former):
        plain.setdefault(symbol.strip(STRESS) or symbol, place)
    new = [symbol for symbol in symbols if symbol not in known]
    return [known.get(symbol, plain.get(symbol.strip(STRESS) or symbol)) for symbol in symbols], new


def freeze(model: nn.Module, parts: str) -> list[str]:
    """Freeze named parts of a model for transfer, such as "encoder, timing"; returns the names of the frozen modules.

    A part is a module of the model and those prefixed with its name: "timing" means timing and timing_output.
    """
    children = [name for name, _ in model.named_children()]
    frozen: list[str] = []
    for part in filter(None, (part.strip() for part in parts.split(","))):
        named = [child for child in children if child == part or child.startswith(f"{part}_")]
        if not named:
            raise ValueError(f"freeze={parts}: the model has no part {part!r}; its parts are {', '.join(children)}")
        frozen += named
    for name in frozen:
        model.get_submodule(name).requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError(f"freeze={parts}: nothing would be left to learn")
    return frozen
