"""The folder of a voice: everything needed to speak, and no executable code.

VOICE/voice.json           model options, phoneme inventory, mel definition, statistics, pace, provenance
VOICE/model.safetensors    the weights
VOICE/lexicon.toml         optional: words with custom pronunciations
VOICE/autoregressive/      optional: another voice of the same speaker, for autoregressive decoding
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from clock_attention.speech.corpus.language import Language
from clock_attention.speech.model.aligned import AlignedModel
from clock_attention.speech.model.build import AcousticModel, build_model, expected_weights
from clock_attention.speech.model.config import AcousticConfig, key_of
from clock_attention.speech.model.transformer_model import SpeechModel
from clock_attention.speech.model.weight_files import weights_fault
from clock_attention.speech.text.lexicon import Lexicon, load_lexicon
from clock_attention.speech.text.phonemes import Phonemes, Phonemizer, token_ids
from clock_attention.speech.text.phonemizers import phonemizer
from clock_attention.speech.training.config import TrainingConfig
from clock_attention.speech.voice.phrases import LONGEST_ALIGNED, LONGEST_PHRASE, PHRASE_SHARE, EncodedPhrase

if TYPE_CHECKING:
    from typing_extensions import Self

    from clock_attention.speech.vocoder.vocoder import Vocoder

FORMAT = 1
CARD, WEIGHTS, LEXICON = "voice.json", "model.safetensors", "lexicon.toml"
DEFAULT = "default"


class VoiceError(ValueError):
    """Raised for a folder that is not a voice, or not one that this version can use."""


class Provenance(BaseModel):
    """Provenance of a voice, stored in its folder, for users and for reproducing it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    corpus: str
    licence: str
    training: TrainingConfig
    steps: int
    seconds: float
    valid_l1: float | None
    software: str
    start: str | None = None  # the voice that its training started from
    blend: float | None = None  # share of the weights after training; the rest are those of `start`
    consent: str | None = None  # for a person's voice: who speaks, and that they agree


class VoiceCard(BaseModel):
    """Contents of `voice.json` in a voice's folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    model: AcousticConfig
    language: Language
    provenance: Provenance
    weights_sha256: str | None = None  # of the weight file; None in voices of earlier versions
    measures: dict[str, float] | None = None  # quality measured when it was made: wer, distillmos, sentences …


@dataclass(frozen=True)
class VoiceFolder:
    """A voice's folder, read and checked: the model in evaluation mode, with its text and mel settings."""

    card: VoiceCard
    model: AcousticModel
    path: Path
    lexicon: Lexicon | None = None  # takes precedence over the built-in names
    speaker: str | None = None  # of a voice with several: the speaker of `model` and `language`
    all_speakers: AlignedModel | None = field(default=None, repr=False, compare=False)  # with all speaker vectors
    _vocoders: dict[str, Vocoder] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def load(cls, path: str | Path = DEFAULT, device: torch.device | str = "cpu") -> Self:
        """Read and check a voice folder; only data (JSON, TOML and safetensors) is read, and no code is executed.

        Without a path, it loads the package's default voice. A name such as "attention" means a voice of the package
        (`shipped_voices`), unless it is the path of a voice.
        """
        folder = voice_folder(path)
        card = read_card(folder)
        try:
            weights = load_file(folder / WEIGHTS, device=str(device))
        except FileNotFoundError:
            raise VoiceError(f"{folder}: {WEIGHTS} is missing; export the voice again") from None
        except OSError as error:
            raise VoiceError(f"{folder / WEIGHTS}: cannot be read ({error.strerror or error})") from None
        except SafetensorError as error:
            raise VoiceError(f"{folder / WEIGHTS}: damaged or not a safetensors file ({error})") from None
        check_weights(folder / WEIGHTS, expected_weights(card.model), weights)
        if card.weights_sha256 is not None and card.weights_sha256 != file_digest(folder / WEIGHTS):
            raise VoiceError(
                f"{folder / WEIGHTS}: damaged, or not the weights that {CARD} was written for (the check sum differs); "
                "export or copy the voice again"
            )
        with torch.device(device):
            model = build_model(card.model)
        model.load_state_dict(weights)
        if isinstance(model, SpeechModel):
            for attention in model.clock_layers:
                # Loading the compiled kernel takes two seconds and saves a few milliseconds per sentence.
                attention.impl = "portable"
        model.eval().requires_grad_(False)
        if card.language.speakers:
            assert isinstance(model, AlignedModel)  # checked by read_card
            voice = cls(card, model, folder, read_lexicon(folder), all_speakers=model)
            return voice.with_speaker(voice.speakers[0])
        return cls(card, model, folder, read_lexicon(folder))

    @property
    def speakers(self) -> tuple[str, ...]:
        """Names of a multi-speaker voice's speakers, the first of which is the default; empty for a single speaker."""
        return tuple(speaker.name for speaker in self.card.language.speakers)

    def with_speaker(self, name: str) -> Self:
        """This voice with another of its speakers; takes almost no time or memory."""
        if self.all_speakers is None:
            raise VoiceError(f"{self.path}: this voice has one speaker: leave out the speaker (got {name!r})")
        if name not in self.speakers:
            raise VoiceError(
                f"{self.path}: this voice has no speaker {name!r}; choose one of {', '.join(self.speakers)}"
            )
        return replace(self, model=self.all_speakers.of_speaker(self.speakers.index(name)), speaker=name)

    @property
    def identity(self) -> str:
        """Identifier of a voice and its speaker: the checksum of the weights, and the speaker's name."""
        weights = self.card.weights_sha256 or str(self.path)
        return weights if self.speaker is None else f"{weights}:{self.speaker}"

    @cached_property
    def language(self) -> Language:
        """Inventory, mel and statistics of the voice, for the chosen speaker."""
        language = self.card.language
        return language if self.speaker is None else language.of_speaker(self.speaker)

    @property
    def longest_phrase(self) -> int:
        """Most phonemes that the model can speak at once; longer sentences are spoken in phrases.

        In parallel decoding it is less than the longest utterances in training, because these were few.
        """
        if isinstance(self.model, AlignedModel):
            return LONGEST_ALIGNED
        longest = self.card.provenance.training.longest_tokens
        if not longest:
            return LONGEST_PHRASE
        return longest if self.card.model.autoregressive else max(2, round(PHRASE_SHARE * longest))

    @property
    def device(self) -> torch.device:
        return self.model.output.weight.device

    @property
    def frames_per_second(self) -> float:
        return self.language.mel.frames_per_second

    @cached_property
    def phonemizer(self) -> Phonemizer:
        """The phonemizer that the voice was trained with; raises if its inventory has changed since."""
        reader = phonemizer(self.language.phonemizer, self.lexicon)
        if reader.symbols != self.language.symbols:
            raise VoiceError(
                f"{self.path} was trained with another inventory of the phonemizer {reader.name!r}: train it again "
                "with this version, or use the version that it was made with"
            )
        return reader

    def batch_tokens(self, phonemes: Sequence[Phonemes]) -> tuple[Tensor, Tensor]:
        """Token ids (B, T), padded with 0, and how many of them are valid (B,)."""
        ids = [torch.tensor(token_ids(item.tokens, self.language.symbols)) for item in phonemes]
        lengths = torch.tensor([len(item) for item in ids], device=self.device)
        return torch.nn.utils.rnn.pad_sequence(ids, batch_first=True).to(self.device), lengths

    def encode(self, phonemes: Phonemes) -> EncodedPhrase:
        """A phrase as the model encodes it, with its natural length."""
        tokens = self.batch_tokens([phonemes])
        if not isinstance(self.model, AlignedModel):
            memory, frames = self.model.encode_timed(*tokens)
            return EncodedPhrase(int(frames), (memory, frames))
        encoding, natural = self.model.encode_timed(*tokens)
        optional = encoding.optional[0].cpu().numpy()
        return EncodedPhrase(int(natural.sum().round()), (encoding, natural), natural[0].cpu().numpy(), optional)

    def with_lexicon(self, lexicon: Lexicon | str | Path) -> Self:
        """This voice with additional words, which take precedence over its own; a path must be that of a TOML file."""
        added = lexicon if isinstance(lexicon, Lexicon) else load_lexicon(lexicon)
        return replace(self, lexicon=self.lexicon.extended(added) if self.lexicon else added)

    def vocoder(self, name: str | Path | Vocoder = "auto") -> Vocoder:
        """The vocoder of this name for the voice's mel (see `load_vocoder`), cached; a `Vocoder` is returned as is."""
        from clock_attention.speech.vocoder.vocoder import compare_mels, load_vocoder

        if not isinstance(name, str | Path):
            compare_mels(name.name, name.mel, self.language.mel)
            return name
        if str(name) not in self._vocoders:
            self._vocoders[str(name)] = load_vocoder(name, self.language.mel, device=self.device)
        return self._vocoders[str(name)]

    def standardised(self, mel: Tensor) -> Tensor:
        """log-mel (…, M) → standardised mel, as predicted by the model."""
        return (mel - self._statistic("mean", mel)) / self._statistic("std", mel)

    def log_mel(self, standardised: Tensor) -> Tensor:
        """Standardised mel, as predicted by the model → log-mel (…, M)."""
        return standardised * self._statistic("std", standardised) + self._statistic("mean", standardised)

    def _statistic(self, name: str, like: Tensor) -> Tensor:
        return torch.tensor(getattr(self.language, name), dtype=like.dtype, device=like.device)


def shipped_voices() -> dict[str, Path]:
    """Folders of the voices that come with the package, by name."""
    folder = Path(str(resources.files("clock_attention.speech.voice"))) / "voices"
    return {path.parent.name: path.parent for path in sorted(folder.glob(f"*/{CARD}"))}


def voice_folder(name: str | Path) -> Path:
    """The folder of a voice, given by path or name."""
    shipped = shipped_voices()
    if (Path(name) / CARD).is_file() or (str(name) not in shipped and str(name) != DEFAULT):
        return Path(name)
    if DEFAULT not in shipped:
        raise VoiceError(
            "this build of clock-attention has no default voice: name the folder of a voice, made with "
            "`clock-attention train` and `clock-attention export`"
        )
    return shipped[str(name)]


def read_card(folder: Path) -> VoiceCard:
    """Read and check `voice.json` in a voice's folder."""
    try:
        text = (folder / CARD).read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise VoiceError(
            f"{folder}: not a voice (no {CARD}); name one of the package ({', '.join(shipped_voices())}), or make one "
            "with `clock-attention export RUN VOICE`"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise VoiceError(f"{folder / CARD}: cannot be read ({error})") from None
    try:
        card = VoiceCard.model_validate_json(text)
    except ValidationError as error:
        fault = error.errors()[0]
        where = key_of(fault["loc"]) or "file"
        raise VoiceError(f"{folder / CARD}: {where}: {fault['msg']}; export the voice again") from None
    if card.format != FORMAT:
        raise VoiceError(f"{folder / CARD}: voice format {card.format}, this version reads {FORMAT}: export it again")
    if card.model.symbols != len(card.language.symbols) or card.model.mels != card.language.mel.n_mels:
        raise VoiceError(
            f"{folder / CARD}: a model for {card.model.symbols} symbols and {card.model.mels} mel bins, but an "
            f"inventory of {len(card.language.symbols)} symbols and a mel of {card.language.mel.n_mels} bins"
        )
    if getattr(card.model, "speakers", 1) != max(1, len(card.language.speakers)):
        raise VoiceError(
            f"{folder / CARD}: a model for {getattr(card.model, 'speakers', 1)} speakers, but names and statistics of "
            f"{len(card.language.speakers)}: export the voice again"
        )
    return card


def read_lexicon(folder: Path) -> Lexicon | None:
    """Read the lexicon in a voice's folder, if any."""
    if not (folder / LEXICON).is_file():
        return None
    try:
        return load_lexicon(folder / LEXICON)
    except ValueError as error:
        raise VoiceError(str(error)) from None


def check_weights(path: Path, expected: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> None:
    """Check a voice folder's weights: names, shapes and values, before the model is built."""
    if fault := weights_fault(expected, found):
        raise VoiceError(f"{path}: weights do not belong to the model in {CARD}: {fault}")


def file_digest(path: Path) -> str:
    """Hash of a file in a voice's folder."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
