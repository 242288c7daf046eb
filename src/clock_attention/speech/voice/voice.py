"""`Voice`, a loaded voice that can speak."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clock_attention.speech.model.aligned import AlignedModel
from clock_attention.speech.text.controls import WordControl
from clock_attention.speech.voice import synthesis
from clock_attention.speech.voice.pacing import PAUSE
from clock_attention.speech.voice.planning import PlannedSentence
from clock_attention.speech.voice.request import Keep, Request
from clock_attention.speech.voice.speech import Speech, join
from clock_attention.speech.voice.utterance import Utterance
from clock_attention.speech.voice.voice_folder import CARD, VoiceError, VoiceFolder

if TYPE_CHECKING:
    from clock_attention.speech.vocoder.vocoder import Vocoder

AUTOREGRESSIVE = "autoregressive"


@dataclass(frozen=True)
class Voice(VoiceFolder):
    """A loaded voice: `speak`, `stream` and `utter`."""

    def with_decoding(self, decoding: str) -> Voice:
        """This voice for "parallel" or "autoregressive" decoding, the latter from its subfolder `autoregressive`."""
        if decoding not in ("parallel", AUTOREGRESSIVE):
            raise ValueError(f"decoding: got {decoding!r}, expected 'parallel' or 'autoregressive'")
        if decoding == self.card.model.decoding:
            return self
        if decoding == AUTOREGRESSIVE and (self.path / AUTOREGRESSIVE / CARD).is_file():
            return replace(Voice.load(self.path / AUTOREGRESSIVE, self.device), lexicon=self.lexicon)
        raise VoiceError(
            f"{self.path}: this voice has no {decoding} decoder, only a {self.card.model.decoding} one"
            + (
                f" (an autoregressive one would be a voice in {self.path / AUTOREGRESSIVE})"
                * (decoding == AUTOREGRESSIVE)
            )
        )

    def with_sampling(self, steps: int | None = None, guidance: float | None = None) -> Voice:
        """This voice with other settings of its flow decoder, where it has one (trained with `flow_layers`).

        Args:
            steps: integration steps, 1 … 100; more are slower and follow the flow more closely.
            guidance: weight of clock-informed guidance, 0 … 10; 0 is none.
        """
        if steps is not None and not 1 <= steps <= 100:
            raise ValueError(f"steps: got {steps}, expected 1 … 100 steps of the flow decoder")
        if guidance is not None and not 0 <= guidance <= 10:
            raise ValueError(f"guidance: got {guidance:g}, expected 0 … 10")
        if not isinstance(self.model, AlignedModel) or self.model.flow is None:
            raise VoiceError(
                f"{self.path}: steps and guidance are for voices with a flow decoder, and this one has none"
            )
        return replace(self, model=self.model.sampling(steps, guidance))

    def speak(
        self,
        text: str | None = None,
        *,
        ssml: str | None = None,
        pace: float | None = None,
        mpr: float | None = None,
        duration: float | str | None = None,
        pitch: float = 0.0,
        energy: float = 0.0,
        words: Mapping[int, WordControl | Mapping[str, Any]] | None = None,
        keep: Keep = "pace",
        timeline: Any = None,
        seed: int = 0,
        vocoder: str | Path | Vocoder = "auto",
        pause: float = PAUSE,
        speaker: str | None = None,
    ) -> Speech:
        """Speak a text and return all of it as one `Speech`.

        Args:
            ssml: an SSML document instead of a text, see the guide to control.
            pace: relative to natural, 0.5 … 2; 2 is twice as fast.
            mpr: mel frames per phoneme; natural speech has about 6.
            duration: total duration, pauses included, exact to the mel frame: 3.2, "3.2s" or "3200ms".
            pitch: semitones above (or below) the voice's own pitch, −12 … 12.
            energy: decibels louder (or softer), −60 … 12.
            words: control of single words by number, from 0: `{2: WordControl(duration=0.8, pitch=2)}`, or a dict with
                some of `duration`, `pace`, `pitch`, `energy`. Durations are exact to the mel frame.
            keep: if single words or silences are timed, the others keep their "pace", or they make room so that
                the "total" does not change.
            timeline: times of all words or phones to reproduce: a list of (label, start, end) in seconds, tiers by
                name, the path of a .TextGrid or .json file, other speech, or an alignment.
            seed: random seed for the vocoder and the decoder.
            vocoder: a name or path for `load_vocoder`, or a vocoder.
            pause: seconds between sentences at natural pace, and 2.5 times as many between paragraphs; they scale with
                the speech.
            speaker: speaker of a multi-speaker voice (`voice.speakers`); None: the one chosen with `with_speaker`, or
                the first.
        """
        request = Request.of(
            text,
            ssml=ssml,
            pace=pace,
            mpr=mpr,
            duration=duration,
            pitch=pitch,
            energy=energy,
            words=words,
            keep=keep,
            timeline=timeline,
            seed=seed,
            pause=pause,
            lexicon=self.lexicon,
        )
        voice = self if speaker is None else self.with_speaker(speaker)
        return join(list(voice.perform(request, vocoder)), request.text)

    def stream(
        self,
        text: str | None = None,
        *,
        vocoder: str | Path | Vocoder = "auto",
        most_seconds: float | None = None,
        speaker: str | None = None,
        **options: Any,
    ) -> Iterator[Speech]:
        """Speak a text sentence by sentence, with the options of `speak`; the pieces joined are the whole speech.

        A text that would last longer than `most_seconds` is rejected before any of it is spoken.
        """
        request = Request.of(text, most_seconds=most_seconds, lexicon=self.lexicon, **options)
        voice = self if speaker is None else self.with_speaker(speaker)
        return voice.perform(request, vocoder)

    def perform(
        self,
        request: Request,
        vocoder: str | Path | Vocoder = "auto",
        sentences: Iterable[PlannedSentence] | None = None,
    ) -> Iterator[Speech]:
        """Speak a request sentence by sentence; `sentences` are its `readings`, if already available."""
        return synthesis.stream(self, request.read_with(self.lexicon), vocoder, sentences)

    def utter(
        self,
        texts: Sequence[str],
        *,
        frames: int | Sequence[int] | None = None,
        mpr: float | None = None,
        pace: float | None = None,
    ) -> list[Utterance]:
        """Run one batched pass of the acoustic model: one utterance per text, no sentence splitting, no vocoder."""
        return synthesis.utter(self, texts, frames=frames, mpr=mpr, pace=pace)
