"""The aligned acoustic model: phonemes → mel along an explicit source clock, with durations, prosody, convolutions.

The source clock's rates are the durations of the phonemes. In training they are the posterior's, taken from an
alignment of the recording, so uncertain timing cannot blur the mel; in synthesis they are the prior's, predicted from
the text and scaled to the requested length. The target clock is uniform, and frames read the encoded text where the
two clocks meet: a mixture of Gaussians around the phonemes' centres, which is clock attention with given clocks.
Pitch is predicted per frame and energy per phoneme. Both are inputs of the decoder, so harmonics are generated at one
pitch instead of averaged over many, and both can be changed by the user.

A multi-speaker model adds a learned speaker vector to every encoded token; durations, prosody and decoder all get it
from there. Adding the vector to the bias of the preceding norm gives a single-speaker model of that speaker.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clock_attention.speech.model.config import AlignedConfig, ModelConfig
from clock_attention.speech.model.convolution import ConvStack
from clock_attention.speech.model.flow import WIDER, Condition, FlowDecoder
from clock_attention.speech.model.layers import EncoderLayer
from clock_attention.speech.model.transformer_model import Clocks, Synthesis, past_end

SPEAKERS = "speaker_embedding.weight"
POSITION_FEATURES = 8
PITCH_FEATURES = 64
MOST_FRAMES = 1000.0  # upper bound for a token, whatever the weights predict
SHORTEST_SILENCE = 15.0  # frames between two words (0.17 s); a shorter one inside a phrase sounds like hesitation
SILENCE_BEFORE, SILENCE_AFTER = 3.0, 6.0  # frames of silence around an utterance, at natural pace


class Encoding(NamedTuple):
    """The aligned model's encoding of a text with its enclosing silences, as the decoder sees it."""

    encoded: Tensor  # (B, T + 2, E)
    log_duration: Tensor  # log(1 + frames) at the speaker's natural pace (B, T + 2)
    energy: Tensor  # standardised mean log-mel of each token (B, T + 2)
    padding: Tensor  # (B, T + 2), True = padding
    optional: Tensor  # tokens that may take no frames (B, T + 2)


class AlignedPrediction(NamedTuple):
    """Output of the aligned model that the training losses use."""

    mel: Tensor  # standardised (B, S, M)
    log_duration: Tensor  # (B, T + 2)
    energy: Tensor  # (B, T + 2)
    pitch: Tensor  # standardised log F0 (B, S)
    voiced: Tensor  # logit (B, S)
    flow: Tensor | None = None  # errors of the flow decoder's velocity (B, S)


class AlignedModel(nn.Module):
    """The aligned acoustic model: encoder, durations, prosody, decoder. Mel, pitch and energy are standardised."""

    def __init__(self, config: AlignedConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.symbols + 2, config.width)  # the last two: silence before and after
        layer = ModelConfig(
            width=config.width,
            heads=config.heads,
            feed_forward=config.feed_forward,
            feed_forward_kernel=config.feed_forward_kernel,
            norm_first=True,
            dropout=config.dropout,
            encoder_positions="rotary",
        )
        self.encoder = nn.ModuleList(EncoderLayer(layer) for _ in range(config.encoder_layers))
        self.encoder_norm = nn.LayerNorm(config.width)
        self.speaker_embedding: nn.Embedding | None = None
        if config.speakers > 1:
            # Initially equal, and without drawing random numbers, so all other weights match a single-speaker model's.
            vectors = torch.zeros(config.speakers, config.width)
            self.speaker_embedding = nn.Embedding.from_pretrained(vectors, freeze=False)
        self.timing = ConvStack(config.width, config.width, 2, 2, 5)
        self.timing_output = nn.Linear(config.width, 2)  # log(1 + duration), energy
        self.energy_input = nn.Linear(1, config.width)
        inputs = config.width + POSITION_FEATURES
        self.prosody = ConvStack(inputs, config.prosody_width, config.prosody_layers, config.expansion)
        self.prosody_output = nn.Linear(config.prosody_width, 2)  # pitch, voicing
        self.pitch_input = nn.Conv1d(2, PITCH_FEATURES, 5, padding=2)
        inputs += config.prosody_width + PITCH_FEATURES
        self.decoder = ConvStack(inputs, config.decoder_width, config.decoder_layers, config.expansion)
        self.output = nn.Linear(config.decoder_width, config.mels)
        self.flow: FlowDecoder | None = None
        if config.flow_layers:
            self.flow = FlowDecoder(
                inputs, config.mels, config.flow_width, config.flow_layers, config.expansion, config.flow_noise
            )
        for head in (self.timing_output, self.prosody_output):
            nn.init.zeros_(head.weight)

    @property
    def device(self) -> torch.device:
        return self.output.weight.device

    def of_speaker(self, number: int) -> AlignedModel:
        """A single-speaker model of one of the speakers; it shares all other weights with this model."""
        assert self.speaker_embedding is not None
        single, norm = copy.copy(self), copy.deepcopy(self.encoder_norm)
        norm.bias.data.add_(self.speaker_embedding.weight.data[number])
        single._modules = {**self._modules, "encoder_norm": norm, "speaker_embedding": None}
        single.config = self.config.model_copy(update={"speakers": 1})
        return single

    def sampling(self, steps: int | None = None, guidance: float | None = None) -> AlignedModel:
        """This model with different steps and guidance weight for its flow decoder; it shares all weights."""
        if self.flow is None:
            raise ValueError("this model has no flow decoder: steps and guidance do not apply to it")
        other, flow = copy.copy(self), copy.copy(self.flow)
        flow.steps = self.flow.steps if steps is None else steps
        flow.guidance = self.flow.guidance if guidance is None else guidance
        other._modules = {**self._modules, "flow": flow}
        return other

    def encode(self, tokens: Tensor, lengths: Tensor, speakers: Tensor | None = None) -> Encoding:
        """Encode tokens (B, T), ignoring values after each item's length; speakers (B,) if there are several."""
        before, after = self.config.symbols, self.config.symbols + 1
        tokens = F.pad(tokens, (1, 1)).scatter(1, lengths[:, None] + 1, after)
        tokens[:, 0] = before
        padding = past_end(lengths + 2, tokens.shape[1])
        tokens = tokens.masked_fill(padding, 0)
        x = self.embedding(tokens)
        for layer in self.encoder:
            x = layer(x, padding)
        x = self.encoder_norm(x)
        if self.speaker_embedding is not None:
            if speakers is None:
                raise ValueError(f"this model has {self.config.speakers} speakers: say which, or take one (of_speaker)")
            x = x + self.speaker_embedding(speakers)[:, None]
        timing = self.timing_output(self.timing(x, keep(padding)))
        optional = (tokens < self.config.boundaries) | (tokens >= before)
        return Encoding(x, timing[..., 0], timing[..., 1], padding, optional)

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor,
        durations: Tensor,
        energy: Tensor,
        pitch: Tensor,
        voiced: Tensor,
        target: Tensor | None = None,
        predicted_energy: Tensor | None = None,
        speakers: Tensor | None = None,
    ) -> AlignedPrediction:
        """Prediction for a known alignment and known prosody.

        Args:
            tokens, lengths: phoneme ids (B, T) and how many of them are valid (B,).
            durations: frames of the silence before, of every token and of the silence after (B, T + 2); 0 in padding.
            energy: of the same tokens and silences (B, T + 2).
            pitch, voiced: per frame (B, S); values after each item's frames are ignored.
            target: standardised mel (B, S, M), for a flow decoder to learn from.
            predicted_energy: items that are decoded with the predicted energy, as in synthesis (B,).
            speakers: speaker of each item (B,), if the model has several.
        """
        encoding = self.encode(tokens, lengths, speakers)
        if predicted_energy is not None:
            energy = torch.where(predicted_energy[:, None], encoding.energy.detach().to(energy.dtype), energy)
        frames = durations.sum(1).long()
        present = keep(past_end(frames, pitch.shape[1]))  # (B, S, 1)
        aligned, _ = self.read(encoding, durations, energy, pitch.shape[1])
        hidden, predicted_pitch, predicted_voiced = self.predict_prosody(aligned, present)
        condition = self.decode(aligned, hidden, pitch, voiced, present)
        flow = None
        if self.flow is not None and target is not None:
            flow = self.flow.errors(condition, self.wide(condition, encoding, durations, energy), target)
        return AlignedPrediction(
            condition.mean, encoding.log_duration, encoding.energy, predicted_pitch, predicted_voiced, flow
        )

    def read(
        self, encoding: Encoding, durations: Tensor, energy: Tensor, frames: int, wider: float = 1.0
    ) -> tuple[Tensor, Tensor]:
        """Encoded text that each frame reads where the clocks meet (B, S, E + P), and the weights (B, S, T + 2)."""
        weights = meeting_weights(durations, encoding.padding, frames, wider)
        text = encoding.encoded + self.energy_input(energy[..., None].to(encoding.encoded.dtype))
        features = position_features(durations, frames).to(text.dtype)
        return torch.cat([weights.to(text.dtype) @ text, features], -1), weights

    def predict_prosody(self, aligned: Tensor, present: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Hidden state (B, S, P), pitch and voicing logit (B, S)."""
        hidden = self.prosody(aligned, present)
        pitch, voiced = self.prosody_output(hidden).unbind(-1)
        return hidden, pitch, voiced

    def decode(self, aligned: Tensor, hidden: Tensor, pitch: Tensor, voiced: Tensor, present: Tensor) -> Condition:
        """The condition of each frame, and the mel decoded from it."""
        contour = torch.stack([pitch * voiced, voiced], -1).to(hidden.dtype) * present  # (B, S, 2)
        drawn = self.pitch_input(contour.transpose(1, 2)).transpose(1, 2)
        text = torch.cat([aligned, hidden, drawn], -1)
        return Condition(text, self.output(self.decoder(text, present)), present)

    def wide(self, condition: Condition, encoding: Encoding, durations: Tensor, energy: Tensor) -> Tensor:
        """The condition's text as frames read it by a wide clock.  (B, S, E)"""
        aligned, _ = self.read(encoding, durations, energy, condition.text.shape[1], WIDER)
        return torch.cat([aligned, condition.text[..., aligned.shape[-1] :]], -1)

    @torch.no_grad()
    def synthesise(
        self,
        tokens: Tensor,
        lengths: Tensor,
        *,
        frames: Tensor | None = None,
        mpr: float | Tensor | None = None,
        speed: float | Tensor | None = None,
        durations: Tensor | None = None,
        pitch: Tensor | None = None,
        energy: Tensor | None = None,
        encoded: tuple[Encoding, Tensor] | None = None,
    ) -> Synthesis:
        """Speak; the length is `frames` (B,), `mpr` frames per phoneme, or the natural length divided by `speed`.

        Args:
            tokens, lengths: phoneme ids (B, T) and how many of them are valid (B,).
            durations: whole frames of every token and the enclosing silences (B, T + 2), instead of a length.
            pitch: added to the predicted pitch of each token's frames, standardised (B, T + 2).
            energy: added to the predicted energy of each token, standardised (B, T + 2).
            encoded: result of `encode_timed` for these tokens, if it has already been called.
        """
        encoding, natural = self.encode_timed(tokens, lengths) if encoded is None else encoded
        if durations is None:
            if frames is None and mpr is not None:
                frames = torch.as_tensor(mpr * lengths).round().long()
            if frames is None:
                frames = (natural.sum(1) / (1.0 if speed is None else speed)).round().long()
            durations = fitted_durations(natural, encoding, frames.clamp(min=1))
        durations = durations.to(natural.dtype)
        frames = durations.sum(1).long()
        present = keep(past_end(frames, int(frames.max())))
        loudness = encoding.energy if energy is None else encoding.energy + energy
        aligned, weights = self.read(encoding, durations, loudness, present.shape[1])
        hidden, contour, voiced = self.predict_prosody(aligned, present)
        if pitch is not None:
            contour = contour + (weights @ pitch[..., None].to(weights.dtype))[..., 0]
        condition = self.decode(aligned, hidden, contour, (voiced > 0).float(), present)
        mel = condition.mean
        if self.flow is not None:
            mel = self.flow.sample(condition, self.wide(condition, encoding, durations, loudness))
        centre = (durations.cumsum(1) - durations / 2) / frames[:, None]
        time = (torch.arange(present.shape[1], device=mel.device) + 0.5) / frames[:, None]
        return Synthesis(
            mel=mel,
            frames=frames,
            steps=frames,
            tokens=lengths + 2,
            weights=[weights[:, None]],
            clocks=[Clocks(time[:, None, :, None], centre[:, None, :, None])],
            natural_frames=natural.sum(1).round().long(),
            finished=torch.ones_like(frames, dtype=torch.bool),
            durations=durations.long(),
        )

    @torch.no_grad()
    def encode_timed(self, tokens: Tensor, lengths: Tensor) -> tuple[Encoding, Tensor]:
        """The encoded text, and the predicted frames of each token and of the enclosing silences (B, T + 2)."""
        encoding = self.encode(tokens, lengths)
        return encoding, natural_durations(encoding, lengths)


def one_speaker(weights: Mapping[str, Tensor], vector: Tensor) -> dict[str, Tensor]:
    """Convert the weights of a multi-speaker model to a single-speaker model with this speaker vector (E,)."""
    found = {name: tensor for name, tensor in weights.items() if name != SPEAKERS}
    return found | {"encoder_norm.bias": weights["encoder_norm.bias"] + vector}


def natural_durations(encoding: Encoding, lengths: Tensor) -> Tensor:
    """The aligned model's durations at natural pace, with short enclosing silences; 0 in padding.  (B, T + 2)

    Optional tokens too short for a silence take no frames; all others take at least one.
    """
    duration = encoding.log_duration.float().expm1().nan_to_num(1.0).clamp(max=MOST_FRAMES)
    duration = torch.where(encoding.optional & (duration < SHORTEST_SILENCE), 0.0, duration.clamp(min=1.0))
    duration = duration.masked_fill(encoding.padding, 0.0)
    duration[:, 0] = SILENCE_BEFORE
    return duration.scatter(1, lengths[:, None] + 1, SILENCE_AFTER)


def fitted_durations(natural: Tensor, encoding: Encoding, frames: Tensor) -> Tensor:
    """The aligned model's durations in whole frames, in proportion to the natural ones, that sum to `frames` (B,).

    To be shorter than natural, every token gives up the same share of its frames above the minimum of one, so nothing
    is skipped as long as there is a frame for each phoneme. Pauses and silences have a minimum of zero, and they give
    up their share twice.
    """
    least = (~encoding.optional & ~encoding.padding).to(natural.dtype)
    total, wanted = natural.sum(1, keepdim=True), frames[:, None].to(natural.dtype)
    fewest = least.sum(1, keepdim=True)
    hurried = torch.where(encoding.optional, natural * (wanted / total).clamp(max=1), natural)
    above = (hurried.sum(1, keepdim=True) - fewest).clamp(min=1e-6)
    squeezed = least + (hurried - least) * ((wanted - fewest).clamp(min=0) / above)
    fitted = torch.where(wanted >= total, natural * wanted / total, squeezed)
    fitted = torch.where(wanted < fewest, natural * wanted / total, fitted)  # too short for one frame per phoneme
    ends = (fitted.double().cumsum(1) + 0.5).floor()
    ends = torch.where(encoding.padding, wanted.double(), ends).minimum(wanted.double())
    last = (~encoding.padding).sum(1, keepdim=True) - 1
    ends = ends.scatter(1, last, wanted.double())
    return torch.diff(ends, dim=1, prepend=torch.zeros_like(ends[:, :1])).to(natural.dtype)


def keep(padding: Tensor) -> Tensor:
    """The aligned model's mask as a factor: padding (B, L) → (B, L, 1), 0 in padding, 1 elsewhere."""
    return (~padding)[..., None].float()


def meeting_weights(durations: Tensor, padding: Tensor, frames: int, wider: float = 1.0) -> Tensor:
    """The aligned model's attention: where a uniform target clock meets clocks of these durations.  (B, S, T)

    The meeting score with the −½ log Σ² term kept, Σ² = (duration/2)²/2 + ¼ in frames: neighbours share the frames
    near their boundary, wherever it is. Tokens without frames are never read.
    """
    centre = durations.cumsum(1) - durations / 2  # (B, T)
    variance = ((durations / 2).square() / 2 + 0.25) * wider**2
    time = torch.arange(frames, device=durations.device) + 0.5
    distance = time[None, :, None] - centre[:, None]  # (B, S, T)
    score = -distance.square() / (2 * variance[:, None]) - 0.5 * variance.log()[:, None]
    return score.masked_fill((padding | (durations <= 0))[:, None], -1e9).softmax(-1)


def position_features(durations: Tensor, frames: int) -> Tensor:
    """The aligned model's position features of each frame within its token.  (B, S, 8)

    They are the relative position, logs of length and distances, and sines and cosines of two harmonics.
    """
    end = durations.cumsum(1)
    time = (torch.arange(frames, device=durations.device) + 0.5).expand(len(durations), -1)
    token = torch.searchsorted(end.contiguous(), time.contiguous()).clamp(max=durations.shape[1] - 1)  # (B, S)
    start, length = (end - durations).gather(1, token), durations.gather(1, token).clamp(min=1)
    since = (time - start).clamp(min=0)
    share = since / length
    angle = math.pi * share
    parts = (
        share,
        length.log(),
        since.log1p(),
        (length - since).clamp(min=0).log1p(),
        angle.sin(),
        angle.cos(),
        (2 * angle).sin(),
        (2 * angle).cos(),
    )
    return torch.stack(parts, -1)
