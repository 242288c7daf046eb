"""Options of the acoustic model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)

# Upper bounds far above any model in use: a small untrusted configuration must not make us allocate all memory.
Share = Annotated[float, Field(ge=0, lt=1)]
Size = Annotated[int, Field(ge=1, le=4096)]
Depth = Annotated[int, Field(ge=1, le=64)]
Symbols = Annotated[int, Field(ge=1, le=4096)]
Mels = Annotated[int, Field(ge=1, le=512)]


class Section(BaseModel):
    """A section of the acoustic model's configuration: frozen, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ModelConfig(Section):
    """Options of the paper's acoustic model; all of them apply to clock and dot attention alike."""

    architecture: ClassVar[str] = "attention"
    # larope: the dot product with rotary positions relative to both lengths (Kim et al., arXiv:2509.11084);
    # uniform: every token gets the same share of the frames. Both need parallel decoding, where the length is known.
    cross_attention: Literal["clock", "dot", "larope", "uniform"] = "clock"
    decoding: Literal["parallel", "autoregressive"] = "parallel"
    symbols: Symbols = 42  # taken from the corpus when training starts
    mels: Mels = 80  # also taken from the corpus

    width: Size = 256
    heads: Depth = 4
    encoder_layers: Depth = 6
    decoder_layers: Depth = 4
    feed_forward: Annotated[int, Field(ge=1, le=16384)] = 1024
    feed_forward_kernel: Literal[1, 3, 5, 7, 9] = 1  # 1: the Transformer's linear layers; more: a convolution over time
    norm_first: bool = False
    dropout: Share = 0.1
    attention_dropout: Share = 0.0  # of self-attention; Algorithm 1 has none in cross-attention
    out_proj: bool = False  # output projection of the cross-attention
    # Clock attention only; dot attention's projections can learn the scale. Learned (initial value) or constant.
    logit_scale: Literal["learned", "constant"] = "constant"
    logit_scale_start: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    larope_scale: Annotated[float, Field(gt=0, le=1e4)] = 10.0  # LARoPE's γ: positions run from 0 to this
    clock_width: Size | None = None  # channels of each head's clock; None: the head's width, as in the paper

    # Encoder: sinusoids, or rotary positions in self-attention, which are relative and work for texts of any length.
    encoder_positions: Literal["absolute", "rotary"] = "absolute"
    # Decoder. normalized: sinusoids of the relative position in the utterance, scaled to the natural frames of the
    # source, so that any requested length looks like one seen in training; rotary: the same plus relative positions in
    # self-attention (in autoregressive decoding, where the length is unknown: relative positions alone).
    positions: Literal["absolute", "normalized", "rotary"] = "absolute"

    frames_per_step: Annotated[int, Field(ge=1, le=8)] = 1  # the reduction factor: mel frames per decoder step
    postnet_layers: Annotated[int, Field(ge=0, le=64)] = 0
    # Autoregressive decoding only.
    clocks: Literal["causal", "unnormalized"] = "causal"  # unnormalized: as printed in the paper
    causal_norm: Literal["none", "rms", "channel", "cumulative"] = "none"
    prenet_width: Annotated[int, Field(ge=0, le=4096)] = (
        0  # 0: one linear layer; else two ReLU layers of this width with dropout
    )
    prenet_dropout: Share = 0.5

    @model_validator(mode="after")
    def _consistent(self) -> ModelConfig:
        if self.width % self.heads or (self.width // self.heads) % 2:
            raise ValueError(
                f"width {self.width} with {self.heads} heads: the width of a head must be an even whole number"
            )
        if self.autoregressive and self.cross_attention in ("larope", "uniform"):
            raise ValueError(
                f"cross_attention {self.cross_attention} needs the length of the utterance, which autoregressive "
                "decoding does not know: use parallel decoding, or clock or dot"
            )
        return self

    @property
    def autoregressive(self) -> bool:
        return self.decoding == "autoregressive"

    @property
    def target_clocks(self) -> str:
        """The kind of target clocks that the decoding mode needs."""
        return self.clocks if self.autoregressive else "normalized"


class AlignedConfig(Section):
    """Options of the aligned acoustic model: explicit durations, prosody and a convolutional decoder."""

    architecture: Literal["aligned"] = "aligned"
    symbols: Symbols = 42  # taken from the corpus when training starts
    mels: Mels = 80  # from the corpus, too
    boundaries: Annotated[int, Field(ge=0, le=4096)] = 5  # from the corpus, too: the first symbols may take no frames
    speakers: Annotated[int, Field(ge=1, le=4096)] = 1  # from the corpus, too

    width: Size = 192
    heads: Depth = 4
    encoder_layers: Depth = 4
    feed_forward: Size = 512
    feed_forward_kernel: Literal[1, 3, 5, 7, 9] = 3
    dropout: Share = 0.05
    prosody_width: Size = 192
    prosody_layers: Depth = 4
    decoder_width: Size = 256
    decoder_layers: Depth = 8
    expansion: Annotated[int, Field(ge=1, le=8)] = 3  # of the convolution blocks' inner layer
    # A decoder that samples one of the likely mels, starting from the direct mel plus noise (flow.py); 0 layers: none.
    flow_layers: Annotated[int, Field(ge=0, le=64)] = 0
    flow_width: Size = 192
    flow_noise: Annotated[float, Field(gt=0, le=4)] = 0.5  # standard deviations of the mel

    @model_validator(mode="after")
    def _consistent(self) -> AlignedConfig:
        if self.width % self.heads or (self.width // self.heads) % 2:
            raise ValueError(
                f"width {self.width} with {self.heads} heads: the width of a head must be an even whole number"
            )
        return self

    @model_serializer(mode="wrap")
    def _without_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Serialize as earlier versions did if there is only one speaker, so that they can still read it."""
        table: dict[str, Any] = write(self)
        if self.speakers == 1:
            table.pop("speakers", None)
        return table

    # Attributes that callers expect of every acoustic model's options.
    decoding: ClassVar[str] = "parallel"
    cross_attention: ClassVar[str] = "clock"
    autoregressive: ClassVar[bool] = False
    frames_per_step: ClassVar[int] = 1


def architecture(options: Any) -> str:
    """Which acoustic model a configuration is for; older configurations, from when there was only one, omit it."""
    if isinstance(options, dict):
        return str(options.get("architecture", "attention"))
    return str(getattr(options, "architecture", "attention"))  # anything else is left to fail validation


AcousticConfig = Annotated[
    Annotated[ModelConfig, Tag("attention")] | Annotated[AlignedConfig, Tag("aligned")], Discriminator(architecture)
]


def key_of(location: Iterable[int | str]) -> str:
    """The key of a configuration error found by pydantic, as it is written in configuration files."""
    return ".".join(str(part) for part in location if part not in ("attention", "aligned"))
