"""Speech recognizers behind one interface. Each needs an optional package, imported on first use."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from clock_attention.evaluation.optional_packages import needs
from clock_attention.evaluation.scoring.unheard_words import TimedPhone
from clock_attention.speech.audio.wave import Wave, resample

# All of them were trained on speech at this sample rate.
RATE = 16000


class Recognizer(Protocol):
    """A speech recognizer: wave → transcript. `fingerprint` changes whenever a transcript could change."""

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    def transcribe(self, wave: Wave, sample_rate: int) -> str: ...


class BaseRecognizer(ABC):
    """Base class of the speech recognizers. Silence gives an empty transcript; several would invent words."""

    SILENT = 1e-3

    def transcribe(self, wave: Wave, sample_rate: int) -> str:
        if wave.ndim != 1:
            raise ValueError(f"expected a wave of shape (samples,), got {wave.shape}")
        if not np.isfinite(wave).all():
            raise ValueError("the wave contains samples that are not finite: the vocoder was given an invalid mel")
        if not len(wave) or np.abs(wave).max() < self.SILENT:
            return ""
        return self.recognize(resample(wave, sample_rate, RATE)).strip()

    @abstractmethod
    def recognize(self, samples: Wave) -> str:
        """Transcribe samples at 16 kHz."""


class Moonshine(BaseRecognizer):
    """The recognizer Moonshine tiny (English). Its package contains the weights: nothing is downloaded.

    Without some silence on both sides, it misrecognizes the first and last words.
    """

    name = "moonshine"
    SILENCE = 0.25
    OPTIONS: ClassVar = {
        # No voice activity detection: it splits single sentences, recognizes "you" in the leading
        # silence, and keeps state between utterances.
        "vad_threshold": 0.0,
        # The default limit, a guard against endless loops, truncates speech at twice its natural pace.
        "max_tokens_per_second": 15.0,
    }

    def __init__(self) -> None:
        moonshine = needs("moonshine_voice", extra="evaluation")
        folder = Path(moonshine.__file__).parent / "assets" / "tiny-en"
        if not folder.is_dir():
            raise FileNotFoundError(
                f"{folder} is missing: this release of moonshine-voice does not contain the weights; "
                "`pip install 'clock-attention[evaluation]'` installs one that does"
            )
        tiny = moonshine.ModelArch.TINY
        self._transcriber = moonshine.Transcriber(model_path=folder, model_arch=tiny, options=self.OPTIONS)
        settings = {"version": version("moonshine-voice"), "silence": self.SILENCE, **self.OPTIONS}
        self.fingerprint = fingerprint(*folder.glob("*"), settings=settings)

    def recognize(self, samples: Wave) -> str:
        padded = np.pad(samples, round(self.SILENCE * RATE))
        lines = self._transcriber.transcribe_without_streaming(padded.tolist(), RATE).lines
        return " ".join(line.text.strip() for line in lines)


class Whisper(BaseRecognizer):
    """The recognizer Whisper on CTranslate2. `model` is a local folder, or a name such as "base.en" to download.

    Sometimes it repeats one syllable far beyond what fits into the audio. It then decodes again, with a repetition
    penalty.
    """

    # Threshold for decoding again: three times as many tokens as in natural speech, plus a few for short utterances.
    LOOPING: ClassVar = {"tokens per second": 12.0, "tokens": 16, "penalty": 1.3}

    def __init__(self, model: str | Path = "base.en", *, beam: int = 5, threads: int = 0, device: str = "cpu") -> None:
        faster_whisper = needs("faster_whisper", extra="whisper")
        compute = "int8" if device == "cpu" else "float16"
        self._beam = beam
        try:
            self._model = faster_whisper.WhisperModel(
                str(model), device=device, compute_type=compute, cpu_threads=threads
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise FileNotFoundError(
                f"cannot load Whisper from {str(model)!r}: give a CTranslate2 model folder, or a model name with "
                f"network access ({str(error).splitlines()[0]})"
            ) from error
        folder = Path(model)
        self.name = f"whisper-{folder.name.removeprefix('whisper-')}"
        self.fingerprint = fingerprint(
            *(folder.glob("*") if folder.is_dir() else ()),
            settings={
                "version": version("faster-whisper"),
                "model": folder.name if folder.is_dir() else str(model),
                "beam": beam,
                "compute": compute,
                "looping": self.LOOPING,
            },
        )

    def recognize(self, samples: Wave) -> str:
        text, tokens = self.decode(samples)
        if tokens > self.LOOPING["tokens"] + self.LOOPING["tokens per second"] * len(samples) / RATE:
            text, _ = self.decode(samples, repetition_penalty=self.LOOPING["penalty"])
        return text

    def decode(self, samples: Wave, **options: float) -> tuple[str, int]:
        """Transcript, and its number of tokens including timestamps."""
        # A fixed temperature: the fallback to sampling would give a different transcript in every run.
        segments, _ = self._model.transcribe(
            samples,
            language="en",
            beam_size=self._beam,
            temperature=0.0,
            condition_on_previous_text=False,
            **options,
        )
        found = list(segments)
        return " ".join(segment.text.strip() for segment in found), sum(len(segment.tokens) for segment in found)


class Wav2Vec2(BaseRecognizer):
    """The recognizer wav2vec 2.0 with a CTC head, decoded greedily. `model` is a local folder or a published name."""

    SHORTEST = 400  # samples: receptive field of its convolutions

    def __init__(self, model: str | Path = "facebook/wav2vec2-large-960h-lv60-self", *, device: str = "cpu") -> None:
        transformers = needs("transformers", extra="wav2vec2")
        try:
            self._processor = transformers.Wav2Vec2Processor.from_pretrained(str(model))
            self._model = transformers.Wav2Vec2ForCTC.from_pretrained(str(model)).to(device).eval()
        except OSError as error:
            raise FileNotFoundError(
                f"cannot load wav2vec 2.0 from {str(model)!r}: give a folder saved by transformers, or a model name "
                f"with network access ({str(error).splitlines()[0]})"
            ) from error
        self._device = device
        folder = Path(model)
        self.name = f"wav2vec2-{folder.name.removeprefix('wav2vec2-')}"
        self.fingerprint = fingerprint(
            *(folder.glob("*") if folder.is_dir() else ()),
            settings={"version": version("transformers"), "model": "" if folder.is_dir() else str(model)},
        )

    def recognize(self, samples: Wave) -> str:
        import torch

        samples = np.pad(samples, (0, max(0, self.SHORTEST - len(samples))))
        features = self._processor(samples, sampling_rate=RATE, return_tensors="pt")
        with torch.inference_mode():
            logits = self._model(features.input_values.to(self._device)).logits  # (1, steps, letters)
        return str(self._processor.batch_decode(logits.argmax(dim=-1))[0])


class PocketSphinx(BaseRecognizer):
    """The recognizer PocketSphinx with the US English model from its package: words, or phones only."""

    def __init__(self, *, phones: bool = False) -> None:
        pocketsphinx = needs("pocketsphinx", extra="pocketsphinx")
        self.phones = phones
        self.name = "pocketsphinx-phones" if phones else "pocketsphinx"
        settings: dict[str, Any] = {"loglevel": "FATAL"}
        if phones:
            # Narrower beams and a lighter language model than for words; not tuned.
            phone_model = pocketsphinx.get_model_path("en-us/en-us-phone.lm.bin")
            settings |= {"allphone": phone_model, "lm": None, "dict": None, "beam": 1e-20, "pbeam": 1e-20, "lw": 2.0}
        self._decoder = pocketsphinx.Decoder(**settings)
        self.fingerprint = fingerprint(settings={"version": version("pocketsphinx"), "phones": phones, "reset": True})

    def recognize(self, samples: Wave) -> str:
        self.decode(samples)
        if self.phones:
            return " ".join(segment.word for segment in self.spoken_segments())
        best = self._decoder.hyp()
        return best.hypstr if best else ""

    def timed_phones(self, wave: Wave, sample_rate: int) -> list[TimedPhone]:
        """The phones of a wave with their times; only if it recognizes phones."""
        self.decode(resample(wave, sample_rate, RATE))
        per_second = self._decoder.config["frate"]
        return [
            TimedPhone(segment.word, segment.start_frame / per_second, (segment.end_frame + 1) / per_second)
            for segment in self.spoken_segments()
        ]

    def decode(self, samples: Wave) -> None:
        """Run the decoder over a whole utterance at 16 kHz."""
        pcm = (np.clip(samples, -1.0, 1.0) * 32767).astype(np.int16)
        self._decoder.reinit_feat()  # otherwise its feature means depend on earlier audio
        self._decoder.start_utt()
        self._decoder.process_raw(pcm.tobytes(), full_utt=True)
        self._decoder.end_utt()

    def spoken_segments(self) -> list[Any]:
        """Segments found by the decoder, without silence and noise."""
        return [segment for segment in self._decoder.seg() if segment.word.isalpha() and segment.word != "SIL"]


RECOGNIZERS: dict[str, Callable[..., Recognizer]] = {
    "moonshine": Moonshine,
    "whisper": Whisper,
    "wav2vec2": Wav2Vec2,
    "pocketsphinx": PocketSphinx,
    "pocketsphinx-phones": lambda: PocketSphinx(phones=True),
}


def load_recognizer(name: str, threads: int = 0) -> Recognizer:
    """Load a speech recognizer: "moonshine", "whisper[:MODEL]", "wav2vec2[:MODEL]", "pocketsphinx[-phones]".

    `threads` is for Whisper, 0 for its default; the others use one thread, or torch's setting.
    """
    kind, model = require_known(name)
    options = {"threads": threads} if kind == "whisper" else {}
    return RECOGNIZERS[kind](*([model] if model else []), **options)


def require_known(name: str) -> tuple[str, str]:
    """Kind and model of a speech recognizer by name; does not check that the model is available."""
    kind, _, model = name.partition(":")
    if kind not in RECOGNIZERS or (model and kind not in ("whisper", "wav2vec2")):
        raise ValueError(
            f"unknown recognizer {name!r}; choose one of {', '.join(RECOGNIZERS)} "
            "(whisper and wav2vec2 take a model: whisper:small.en, wav2vec2:FOLDER)"
        )
    return kind, model


def fingerprint(*files: Path, settings: dict[str, Any]) -> str:
    """The fingerprint of a speech recognizer: hash of its model's files and its settings."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for file in sorted(file for file in files if file.is_file()):
        digest.update(file.name.encode())
        with open(file, "rb") as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()[:16]
