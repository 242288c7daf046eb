"""An exported voice: the same planning as with torch, three ONNX sessions instead of its modules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from clock_attention.arrays import FloatArray, IntArray
from clock_attention.runtime.durations import fitted_durations, paced_frames
from clock_attention.runtime.folder import (
    FRAMES,
    LEXICON,
    TEXT,
    VOCODER,
    WAVE,
    RuntimeCard,
    RuntimeVoiceError,
    read_card,
)
from clock_attention.runtime.speech import RuntimeSpeech, join
from clock_attention.runtime.vocoders import OnnxHarmonicVocoder, WaveVocoder
from clock_attention.speech.audio.shaping import amplified, fitted, frames_with_silence, with_quiet_onset
from clock_attention.speech.audio.wave import Wave
from clock_attention.speech.text.lexicon import Lexicon, load_lexicon
from clock_attention.speech.text.phonemes import Phonemes, Phonemizer, joined, token_ids
from clock_attention.speech.text.phonemizers import phonemizer
from clock_attention.speech.voice.pacing import Pacing
from clock_attention.speech.voice.phrases import EncodedPhrase, Phrase
from clock_attention.speech.voice.planning import (
    PhrasePlan,
    PlannedSentence,
    planned_request,
    spoken_durations,
    with_silences,
)
from clock_attention.speech.voice.request import Request
from clock_attention.timestamps import Alignment, Interval


class RuntimeVoice:
    """A loaded voice of the runtime, without torch: `speak` and `stream`."""

    def __init__(self, folder: Path, *, threads: int | None = None) -> None:
        self.path = folder
        self.card: RuntimeCard = read_card(folder)
        self.lexicon: Lexicon | None = None
        if (folder / LEXICON).is_file():
            self.lexicon = load_lexicon(folder / LEXICON)
        self._text, self._frames, sounding = (session(folder / name, threads) for name in (TEXT, FRAMES, VOCODER))
        self._vocoder: WaveVocoder | OnnxHarmonicVocoder
        if self.card.vocoder == WAVE:
            self._vocoder = WaveVocoder(sounding, self.card.hop_length, self.card.vocoder_context)
        else:
            self._vocoder = OnnxHarmonicVocoder(sounding, self.card.hop_length, self.card.sample_rate)

    # The interface that planning expects of a voice.

    @property
    def language(self) -> RuntimeCard:
        return self.card

    @property
    def frames_per_second(self) -> float:
        return self.card.sample_rate / self.card.hop_length

    @property
    def longest_phrase(self) -> int:
        return self.card.longest_phrase

    @cached_property
    def phonemizer(self) -> Phonemizer:
        reader = phonemizer(self.card.phonemizer, self.lexicon)
        if reader.symbols != self.card.symbols:
            raise RuntimeVoiceError(
                f"{self.path}: exported with another inventory of the phonemizer {reader.name!r}: export it again with "
                "this version, or use the version that it was made with"
            )
        return reader

    def encode(self, phonemes: Phonemes) -> EncodedPhrase:
        found = self._read(phonemes)
        natural = found["natural"].reshape(-1)
        return EncodedPhrase(
            round(float(natural.sum(dtype=np.float32))), found, natural, found["optional"].reshape(-1).astype(bool)
        )

    # Speaking.

    def speak(self, text: str | None = None, **options: Any) -> RuntimeSpeech:
        """Speak a text, joined into one speech, with the options of `stream`."""
        pieces = list(self.stream(text, **options))
        return join(pieces, " ".join(piece.text for piece in pieces) if text is None else text)

    def stream(
        self, text: str | None = None, *, most_seconds: float | None = None, speaker: str | None = None, **options: Any
    ) -> Iterator[RuntimeSpeech]:
        """Speak a text sentence by sentence.

        The options are those of `clock_attention.speech.voice.Voice.speak`, except for the vocoder, which is exported
        with the voice.
        """
        if speaker is not None:
            raise ValueError(
                f"{self.path}: an exported voice has one speaker, so {speaker!r} cannot be chosen: export that one "
                "with `clock-attention export --runtime VOICE FOLDER --speaker NAME`"
            )
        request = Request.of(text, most_seconds=most_seconds, lexicon=self.lexicon, **options)
        if request.controlled and self.card.pitch_std is None:
            raise ValueError(f"{self.path}: this voice does not say what its pitch is measured in; export it again")
        return self._perform(request)

    def _perform(self, request: Request) -> Iterator[RuntimeSpeech]:
        for sentence, phrase_plans in planned_request(self, request):
            yield self._say(sentence, phrase_plans, request.pacing)

    def _say(self, sentence: PlannedSentence, phrase_plans: Sequence[PhrasePlan], pacing: Pacing) -> RuntimeSpeech:
        """Speak one sentence, phrase by phrase, each followed by its pause."""
        hop = self.card.hop_length
        phonemes: list[Phonemes] = []
        durations: list[IntArray] = []
        waves: list[Wave] = []
        end = 0
        for phrase, plan in zip(sentence.phrases, phrase_plans, strict=True):
            wave, lengths = self._utter(phrase, pacing, plan)
            phonemes.append(with_silences(phrase.phonemes))
            durations.append(lengths.copy())
            end = sum(int(part.sum()) for part in durations)
            durations[-1][-1] += plan.pause
            waves += [wave, np.zeros(plan.pause * hop, np.float32)]
        spoken = joined(phonemes)
        return RuntimeSpeech(
            text=sentence.text,
            audio=np.concatenate(waves),
            sample_rate=self.card.sample_rate,
            phonemes=spoken,
            alignment=Alignment(spoken.tokens, np.concatenate(durations), 1 / self.frames_per_second),
            sentences=(Interval(0, end / self.frames_per_second, sentence.text),),
        )

    def _utter(self, phrase: Phrase, pacing: Pacing, plan: PhrasePlan) -> tuple[Wave, IntArray]:
        """The audio of a phrase, and the frames of its tokens and the silences around them (T + 2,)."""
        phonemes, frames = phrase.phonemes, plan.frames
        if frames is None and pacing.mpr is not None:
            frames = max(1, round(pacing.mpr * len(phonemes)))
        text, wanted = self._timed(phrase, frames, pacing.pace or 1.0, plan.durations)
        short = wanted if plan.durations is None else spoken_durations(wanted, phonemes)
        pitch = np.zeros(short.shape, np.float32)
        if plan.pitch is not None:
            assert self.card.pitch_std is not None
            pitch = (plan.pitch * (math.log(2) / 12 / self.card.pitch_std)).astype(np.float32)
        side = {"encoded": text["encoded"], "energy": text["energy"]}
        mel, attention = self._frames.run(None, {**side, "durations": short[None], "pitch": pitch[None]})
        if not np.isfinite(mel).all():
            raise RuntimeVoiceError(f"{self.path}: the model's output is not finite: export the voice again")
        onset_quieted = with_quiet_onset(mel[0], int(short[0]), math.log(self.card.log_floor))
        source = np.arange(len(mel[0])) if (short == wanted).all() else frames_with_silence(short.copy(), wanted)
        return self._sounded(onset_quieted, attention[0], source, plan.energy), wanted

    def _timed(
        self, phrase: Phrase, frames: int | None, pace: float, durations: IntArray | None
    ) -> tuple[dict[str, NDArray[Any]], IntArray]:
        """The encoded text of a phrase, reused if available, and the frames of its tokens and silences (T + 2,)."""
        if phrase.encoded is not None:
            text: dict[str, NDArray[Any]] = phrase.encoded.state
            if durations is not None:
                return text, durations
            natural = text["natural"].reshape(-1)
            optional = text["optional"].reshape(-1).astype(bool)
            return text, fitted_durations(natural, optional, frames or paced_frames(natural, pace))
        # The graph that encodes the text also divides the frames among its tokens.
        text = self._read(phrase.phonemes, frames=frames or 0, pace=pace)
        return text, text["durations"][0] if durations is None else durations

    def _sounded(
        self, mel: NDArray[np.float32], attention: NDArray[np.float32], source: IntArray, energy: FloatArray | None
    ) -> Wave:
        """The waveform: mel frames go through the vocoder, inserted silence does not."""
        hop = self.card.hop_length
        wave = np.zeros(len(source) * hop, np.float32)
        for before, after in pairwise([-1, *np.flatnonzero(source < 0).tolist(), len(source)]):
            if after > before + 1:
                part = self._vocoder(mel[source[before + 1 : after]])
                wave[(before + 1) * hop : after * hop] = fitted(part, (after - before - 1) * hop)
        if energy is None:
            return wave
        nearest = np.maximum.accumulate(np.maximum(source, 0))
        return amplified(wave, attention[nearest] @ energy, hop)

    def _read(self, phonemes: Phonemes, *, frames: int = 0, pace: float = 1.0) -> dict[str, NDArray[Any]]:
        ids = np.array([token_ids(phonemes.tokens, self.card.symbols)], np.int64)
        lengths = {"frames": np.array([frames]), "pace": np.array([pace], np.float32)}
        found = self._text.run(None, {"tokens": ids, "token_lengths": np.array([ids.shape[1]]), **lengths})
        return dict(zip((output.name for output in self._text.get_outputs()), found, strict=True))


def session(path: Path, threads: int | None) -> onnxruntime.InferenceSession:
    """An ONNX Runtime session for one graph of an exported voice."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Busy-waiting threads would take CPU time from everything else.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime raises a different exception for each kind of damage
        raise RuntimeVoiceError(f"{path}: missing or damaged; export the voice again ({error})") from None


def load(folder: str | Path, *, threads: int | None = None) -> RuntimeVoice:
    """Load an exported voice from the folder that `clock-attention export --runtime` has written."""
    return RuntimeVoice(Path(folder), threads=threads)
