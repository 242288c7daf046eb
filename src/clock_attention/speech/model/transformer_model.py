"""Phonemes → mel frames: the paper's Transformer, with clock or dot cross-attention, parallel or autoregressive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clock_attention import ClockAttention, ClockState, decoding_over
from clock_attention.clocks import causal_norm, edge_rates, mean_rate, resolve_phi
from clock_attention.speech.model.config import ModelConfig
from clock_attention.speech.model.layers import DecoderLayer, EncoderLayer, LayerState, Postnet, Prenet, sinusoids
from clock_attention.speech.model.length import MOST_MPR, NATURAL_MPR, LengthModel


class Memory(NamedTuple):
    """The encoded source of the Transformer acoustic model."""

    encoded: Tensor  # (B, T, E)
    padding: Tensor  # (B, T), True = padding
    lengths: Tensor  # (B,)


class Prediction(NamedTuple):
    """Output of the Transformer acoustic model that losses and training figures use."""

    mel: Tensor  # standardised (B, S, M); frames past each item's own are meaningless
    rough: Tensor  # before the postnet; the same tensor if there is none
    log_frames: Tensor  # of the length model (B,)
    end_reading: Tensor | None  # causal clocks: every head's mean reading at the last step (layers, B, H)
    weights: list[Tensor]  # per decoder layer (B, H, steps, T), if requested


class Clocks(NamedTuple):
    """Readings of both clocks of one decoder layer of the acoustic model."""

    target: Tensor  # (B, H, steps, D)
    source: Tensor  # (B, H, T, D)


@dataclass(frozen=True)
class Synthesis:
    """Synthesis of a batch by an acoustic model; alignments and clocks are in steps of `frames_per_step` frames."""

    mel: Tensor  # standardised (B, S, M)
    frames: Tensor  # (B,)
    steps: Tensor  # decoder steps (B,)
    tokens: Tensor  # source tokens, with the end token where the model has one (B,)
    weights: list[Tensor]  # per layer (B, H, steps, T)
    clocks: list[Clocks]  # per layer; empty for dot attention and for the printed variant
    natural_frames: Tensor  # predicted by the length model (B,)
    finished: Tensor  # False where decoding was cut off before the model ended by itself (B,)
    durations: Tensor | None = None  # aligned models: frames of tokens and enclosing silences (B, T + 2)


class SpeechModel(nn.Module):
    """The paper's acoustic model, a Transformer: encoder, decoder, length model. Mel frames are standardised."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        # Autoregressive decoding appends an end token to every source, for the clock to run out to.
        self.embedding = nn.Embedding(config.symbols + config.autoregressive, config.width)
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.encoder_norm: nn.Module = nn.LayerNorm(config.width) if config.norm_first else nn.Identity()
        self.decoder_norm: nn.Module = nn.LayerNorm(config.width) if config.norm_first else nn.Identity()
        if config.autoregressive:
            self.prenet = Prenet(config)
        self.output = nn.Linear(config.width, config.mels * config.frames_per_step)
        if config.postnet_layers:
            self.postnet = Postnet(config.mels, config.postnet_layers)
        self.dropout = nn.Dropout(config.dropout)
        self.length = LengthModel(config.width)

    @property
    def clock_layers(self) -> list[ClockAttention]:
        """Cross-attentions whose clocks can be read; empty for the dot product and the printed variant."""
        attentions = [layer.cross_attention for layer in self.decoder]
        return [a for a in attentions if isinstance(a, ClockAttention) and a.clocks != "unnormalized"]

    @property
    def needs_pace(self) -> bool:
        return self.config.cross_attention == "clock" and self.config.target_clocks == "causal"

    def pace(self, frames: Tensor, memory: Memory) -> Tensor | None:
        """Pace given to causal clocks: decoder steps per source token of each item (B,); None for all other attentions.

        In training it is the true pace, in synthesis the requested one or the length model's. The clock then only has
        to learn how the time is distributed, and an utterance is as fast as requested.
        """
        return frames / (self.config.frames_per_step * memory.lengths) if self.needs_pace else None

    def encode(self, tokens: Tensor, lengths: Tensor) -> Memory:
        """Encode tokens (B, T); values after each item's length are ignored."""
        if self.config.autoregressive:
            tokens = F.pad(tokens, (0, 1)).scatter(1, lengths[:, None], self.config.symbols)
            lengths = lengths + 1
        padding = past_end(lengths, tokens.shape[1])
        x = self.embedding(tokens.masked_fill(padding, 0))  # (B, T, E)
        if self.config.encoder_positions == "absolute":
            x = x + sinusoids(torch.arange(x.shape[1], device=x.device).float(), self.config.width)
        x = self.dropout(x)
        for layer in self.encoder:
            x = layer(x, padding)
        return Memory(self.encoder_norm(x), padding, lengths)

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor,
        frames: Tensor,
        mel: Tensor | None = None,
        need_weights: bool = False,
    ) -> Prediction:
        """Mel of a known length; in autoregressive decoding from the target's previous frames (teacher forcing).

        Args:
            tokens, lengths: phoneme ids (B, T) and how many of them are valid (B,).
            frames: mel frames of each item (B,).
            mel: standardised target (B, S, M), autoregressive decoding only.
        """
        memory = self.encode(tokens, lengths)
        steps = self.steps(frames)
        padding = past_end(steps, int(steps.max()))
        if self.config.autoregressive:
            if mel is None:
                raise ValueError("mel: got None; an autoregressive model is trained on its target's previous frames")
            previous = self.grouped(mel.masked_fill(past_end(frames, mel.shape[1])[..., None], 0.0), padding.shape[1])
            x = self.decoder_input(F.pad(previous, (0, 0, 1, 0))[:, :-1])
        else:
            x = self.position_queries(steps, memory)
        pace = self.pace(frames, memory)
        x, queries, weights, _ = self.decode(self.dropout(x), memory, padding, pace, need_weights)
        rough = self.output(self.decoder_norm(x)).unflatten(-1, (self.config.frames_per_step, -1)).flatten(1, 2)
        end_reading = None if pace is None else self.end_readings(queries, memory, padding, pace)
        return Prediction(
            self.refine(rough, frames), rough, self.length(memory.encoded, memory.padding), end_reading, weights
        )

    def decode(
        self,
        x: Tensor,
        memory: Memory,
        padding: Tensor,
        pace: Tensor | None,
        need_weights: bool,
        need_clocks: bool = False,
    ) -> tuple[Tensor, list[Tensor], list[Tensor], list[Clocks]]:
        """Output, with each layer's cross-attention queries and, if requested, its weights and clocks."""
        queries, weights, clocks = [], [], []
        for layer in self.decoder:
            x, query, weight, pair = layer(x, memory.encoded, padding, memory.padding, pace, need_weights, need_clocks)
            queries.append(query)
            if weight is not None:
                weights.append(weight)
            if pair is not None:
                clocks.append(Clocks(pair.query, pair.key))
        return x, queries, weights, clocks

    def position_queries(self, steps: Tensor, memory: Memory) -> Tensor:
        """The parallel decoder's input, which is positions only.  (B, S, E)"""
        place = torch.arange(int(steps.max()), device=steps.device).float()
        if self.config.positions == "absolute":
            return sinusoids(place * self.config.frames_per_step, self.config.width).expand(len(steps), -1, -1)
        share = (place + 0.5) / steps[:, None]  # (B, S)
        return sinusoids(share * memory.lengths[:, None] * NATURAL_MPR, self.config.width)

    def decoder_input(self, previous: Tensor, start: int = 0) -> Tensor:
        """The autoregressive decoder's input: previous frames (B, s, r·M) and, unless relative, their position."""
        x = self.prenet(previous)
        if self.config.positions == "rotary":
            return x
        place = torch.arange(start, start + x.shape[1], device=x.device).float()
        return x + sinusoids(place * self.config.frames_per_step, self.config.width)

    def end_readings(self, queries: list[Tensor], memory: Memory, padding: Tensor, pace: Tensor) -> Tensor:
        """Mean reading of every head's target clock at the last valid step; 1 is the end token.  (layers, B, H)

        One for each head: when only their mean was trained to reach the end, half of them idled and half ran ahead.
        Only the total is needed, so the rates are summed without building a clock.
        """
        readings = []
        for attention, query in zip(self.clock_layers, queries, strict=True):
            eta = causal_norm(
                attention.heads(attention.q_proj(query)).float(), ~padding, attention.causal_norm, attention.eps
            )
            rates = edge_rates(eta, ~padding, resolve_phi(attention.phi), attention.eps)  # (B, H, S-1, D)
            expected = mean_rate(attention.phi) * pace * memory.lengths  # (B,)
            readings.append(rates.sum(-2).mean(-1) / expected[:, None])
        return torch.stack(readings)

    @torch.no_grad()
    def synthesise(
        self,
        tokens: Tensor,
        lengths: Tensor,
        *,
        frames: Tensor | None = None,
        mpr: float | Tensor | None = None,
        speed: float | Tensor | None = None,
        margin: float = -0.5,
        encoded: tuple[Memory, Tensor] | None = None,
    ) -> Synthesis:
        """Speak; the length is `frames` (B,), or `mpr` frames per phoneme, or the length model's divided by `speed`.

        Parallel decoding keeps it exactly. Causal clocks take it as their pace and stop by themselves, `margin` decoder
        steps past the end token; the last step is trained to read it exactly, so half a step before it is where
        stopping early and late are equally likely. The other autoregressive models cannot stop: for them it is a cap.
        `encoded` is the result of `encode_timed` for these tokens, if it has already been called.
        """
        memory, natural = self.encode_timed(tokens, lengths) if encoded is None else encoded
        if frames is None and mpr is not None:
            frames = torch.as_tensor(mpr * lengths).round().long()
        if frames is None:
            frames = (natural / (1.0 if speed is None else speed)).round().long()
        frames = frames.clamp(min=1)
        if self.config.autoregressive:
            return self.speak_step_by_step(memory, frames, natural, margin)
        return self.speak_at_once(memory, frames, natural)

    @torch.no_grad()
    def encode_timed(self, tokens: Tensor, lengths: Tensor) -> tuple[Memory, Tensor]:
        """The encoded text, and the frames that the length model predicts (B,)."""
        memory = self.encode(tokens, lengths)
        return memory, self.predicted_frames(memory)

    def predicted_frames(self, memory: Memory) -> Tensor:
        """Predicted frames, capped by the longest possible tokens: bad weights must not cause gigabytes of silence."""
        frames = self.length(memory.encoded, memory.padding).exp().nan_to_num(1.0)
        return frames.minimum(MOST_MPR * memory.lengths).round().long().clamp(min=1)

    def speak_at_once(self, memory: Memory, frames: Tensor, natural: Tensor) -> Synthesis:
        steps = self.steps(frames)
        padding = past_end(steps, int(steps.max()))
        x, _, weights, clocks = self.decode(
            self.position_queries(steps, memory), memory, padding, None, need_weights=True, need_clocks=True
        )
        rough = self.output(self.decoder_norm(x)).unflatten(-1, (self.config.frames_per_step, -1)).flatten(1, 2)
        mel = self.refine(rough, frames)[:, : int(frames.max())]
        return Synthesis(
            mel, frames, steps, memory.lengths, weights, clocks, natural, torch.ones_like(frames, dtype=torch.bool)
        )

    def speak_step_by_step(self, memory: Memory, frames: Tensor, natural: Tensor, margin: float) -> Synthesis:
        """Free running: each step sees only frames generated by the model. `frames` sets the pace, or is the cap."""
        batch, group = len(memory.lengths), self.config.mels * self.config.frames_per_step
        pace = self.pace(frames, memory)
        options: dict[str, Any] = {} if pace is None else {"pace": pace, "margin": margin / pace}  # in tokens
        states = [
            LayerState(layer.cross_attention.start(memory.encoded, memory.padding, **options))  # type: ignore[union-attr, operator]
            for layer in self.decoder
        ]
        most = self.steps(frames) if pace is None else None
        steps = torch.zeros_like(memory.lengths)
        running = torch.ones_like(memory.lengths, dtype=torch.bool)
        finished = ~running  # models without causal clocks cannot end by themselves
        frame = memory.encoded.new_zeros(batch, group)
        made: list[Tensor] = []
        weights: list[list[Tensor]] = []
        readings: list[list[Tensor]] = []
        while bool(running.any()):
            frame, weight, states = self.step(frame, states, len(made))
            made.append(frame)
            weights.append(weight)
            steps = steps + running
            if most is not None:
                running = steps < most
                continue
            readings.append([state.meeting.reading for state in states])
            clock: ClockState = states[-1].meeting  # every layer has its own; the last one's is trained to end at 1
            finished = finished | (running & clock.finished)
            running = running & ~(clock.finished | clock.stalled)
            if decoding_over(clock):
                break
        rough = torch.stack(made, 1).unflatten(-1, (self.config.frames_per_step, -1)).flatten(1, 2)
        frames = steps * self.config.frames_per_step if most is None else frames
        clocks = (
            [
                Clocks(torch.stack(list(target), 2), state.meeting.key_clock)
                for target, state in zip(zip(*readings, strict=True), states, strict=True)
            ]
            if readings
            else []
        )
        stacked = [torch.stack(list(layer), 2) for layer in zip(*weights, strict=True)]
        mel = self.refine(rough, frames)[:, : int(frames.max())]
        return Synthesis(mel, frames, steps, memory.lengths, stacked, clocks, natural, finished)

    def step(
        self, previous: Tensor, states: list[LayerState], place: int
    ) -> tuple[Tensor, list[Tensor], list[LayerState]]:
        """One step after `previous` frames (B, r·M): the next frames, each layer's weights (B, H, T) and state."""
        x = self.decoder_input(previous[:, None], place)[:, 0]
        weights, after = [], []
        for layer, state in zip(self.decoder, states, strict=True):
            x, weight, state = layer.step(x, state)  # type: ignore[operator]
            weights.append(weight)
            after.append(state)
        return self.output(self.decoder_norm(x)), weights, after

    def steps(self, frames: Tensor) -> Tensor:
        return -(-frames // self.config.frames_per_step)

    def grouped(self, mel: Tensor, steps: int) -> Tensor:
        """(B, S, M) → (B, steps, r·M), zero-padded if the last step is incomplete."""
        missing = steps * self.config.frames_per_step - mel.shape[1]
        return F.pad(mel, (0, 0, 0, missing)).unflatten(1, (steps, -1)).flatten(2)

    def refine(self, rough: Tensor, frames: Tensor) -> Tensor:
        return self.postnet(rough, past_end(frames, rough.shape[1])) if self.config.postnet_layers else rough


def past_end(lengths: Tensor, longest: int) -> Tensor:
    """The model's padding mask for sequences of these lengths, True = padding.  (B,) → (B, longest)"""
    return torch.arange(longest, device=lengths.device) >= lengths[:, None]
