"""Requests of the web page: speech, speech with changed word times, and dubbed subtitles, each within limits."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from clock_attention.files import temporary_folder
from clock_attention.speech.dubbing.report import save_report, save_timeline
from clock_attention.speech.dubbing.slot import CueReport, Delivery
from clock_attention.speech.dubbing.subtitles import parse_subtitles
from clock_attention.speech.dubbing.track import DubOptions, dub_in_steps
from clock_attention.speech.model.aligned import AlignedModel
from clock_attention.speech.voice.pacing import parse_duration
from clock_attention.speech.voice.request import Request
from clock_attention.speech.voice.speech import Speech, join
from clock_attention.speech.voice.voice import AUTOREGRESSIVE, Voice
from clock_attention.speech.voice.voice_folder import VoiceError

logger = logging.getLogger(__name__)

MOST_CHARACTERS = 600  # about 40 seconds of speech
LONGEST = 120.0  # seconds of speech
LONGEST_WORK = 120.0  # seconds of computing per request
LONGEST_TRACK = 300.0  # seconds of dubbed subtitles
MOST_CUES = 200
MOST_SUBTITLES = 60_000  # characters
KEPT = 24  # most recent results, whose files can still be downloaded


class Dubbed(NamedTuple):
    """Dubbed subtitles for the web page: the reports on the cues, and files to download."""

    reports: list[CueReport]
    seconds: float
    sound: str
    report: str
    picture: str


class Step(NamedTuple):
    """Speech for the web page so far, and whether it is complete."""

    speech: Speech
    complete: bool


class Times(NamedTuple):
    """A text with word times as dragged on the web page, and the voice and decoding that spoke it."""

    text: str
    seconds: float
    words: list[tuple[str, float, float]]
    voice: str
    decoding: str

    @classmethod
    def of(cls, given: str) -> Times:
        """Parse the page's JSON, which is untrusted input."""
        try:
            table = json.loads(given)
            words = [(str(label), float(start), float(end)) for label, start, end in table["words"]]
            text, voice, decoding = (str(table[key]) for key in ("text", "voice", "decoding"))
            found = cls(text, float(table["seconds"]), words, voice, decoding)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise ValueError("the times of the words arrived damaged: speak the text again") from None
        if not 0 < found.seconds <= LONGEST:
            raise ValueError(f"these times last {found.seconds:g} s; the page speaks for {LONGEST:g} s at most")
        return found

    @property
    def timeline(self) -> dict[str, Any]:
        """The value for the option `timeline` of a voice."""
        return {"tiers": {"words": self.words}, "seconds": self.seconds}


class Speaker:
    """Serves the web page: checks requests, speaks, keeps the files of the most recent requests."""

    def __init__(
        self,
        voice: Voice,
        *,
        others: Mapping[str, Path] | None = None,
        vocoder: str = "auto",
        most_characters: int = MOST_CHARACTERS,
    ) -> None:
        """`others`: folders of further voices that the page offers, by name. Each is loaded when first selected."""
        self.vocoder = vocoder
        self.most_characters = most_characters
        own = voice.path.resolve()
        self._others = {name: folder for name, folder in (others or {}).items() if folder.resolve() != own}
        self._loaded = {name_among(self._others, voice.path): decoders_of(voice)}
        self._root = temporary_folder("app")
        self._folders: deque[Path] = deque()

    @property
    def voices(self) -> list[str]:
        """The names of the voices that the page offers; the first one is the default."""
        return list(dict.fromkeys([*self._loaded, *self._others]))

    def decoders(self, voice: str = "") -> dict[str, Voice]:
        """A voice with each of its decoders, by the decoders' names; the default voice if no voice is named."""
        voice = voice or self.voices[0]
        if voice not in self._loaded:
            if voice not in self._others:
                raise ValueError(f"There is no voice {voice!r} on this page.")
            self._loaded[voice] = decoders_of(Voice.load(self._others[voice]))
        return self._loaded[voice]

    def decodings(self, voice: str = "") -> list[str]:
        """The names of a voice's decoders, the default one first."""
        return list(self.decoders(voice))

    def about(self, voice: str = "") -> str:
        """What listeners should know about a voice: its licence, its corpus, and its speaker's consent."""
        provenance = next(iter(self.decoders(voice).values())).card.provenance
        consent = f" The speaker's consent: {provenance.consent.rstrip('.')}." if provenance.consent else ""
        return f"The voice's licence: {provenance.licence}. It learned from: {provenance.corpus}.{consent}"

    @property
    def cache(self) -> Path:
        """Folder for the page's copies of downloadable files; deleted together with the others."""
        return self._root / "page"

    def close(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    def speak(self, text: str, **options: Any) -> Speech:
        """Speak a text within the limits of the page, with the options of `speak_in_steps`."""
        *_, last = self.speak_in_steps(text, **options)
        return last.speech

    def adjustable(self, decoding: str, voice: str = "") -> bool:
        """Whether the word times of this decoder's speech can be changed."""
        chosen = self.decoders(voice)[decoding]
        return isinstance(chosen.model, AlignedModel) and chosen.language.prosody is not None

    def speak_in_steps(
        self,
        text: str,
        *,
        decoding: str,
        voice: str = "",
        pace: float = 1.0,
        duration: str = "",
        mpr: float | None = None,
    ) -> Iterator[Step]:
        """Speak a text; yields all speech so far after each sentence, so that it can play, and be cancelled, early.

        A duration, if given, replaces the pace.
        """
        length: dict[str, Any] = {"pace": pace}
        if mpr is not None:
            length = {"mpr": mpr}
        elif duration.strip():
            length = {"duration": within_limit(duration)}
        return self._stream(text, voice, decoding, length)

    def speak_again_in_steps(self, times: Times) -> Iterator[Step]:
        """Speak the text and word times that a player sends after dragging, exact to the frame."""
        return self._stream(times.text, times.voice, times.decoding, {"timeline": times.timeline})

    def _stream(self, text: str, name: str, decoding: str, length: dict[str, Any]) -> Iterator[Step]:
        if len(text) > self.most_characters:
            raise ValueError(
                f"This text has {len(text):,} characters; the page takes {self.most_characters:,} at a time. "
                "`clock-attention speak` reads texts of any length."
            )
        voice = self.decoders(name).get(decoding)
        if voice is None:
            raise ValueError(f"This voice has no {decoding} decoder.")
        request = Request.of(text, most_seconds=LONGEST, lexicon=voice.lexicon, **length)
        pieces: list[Speech] = []
        end = time.monotonic() + LONGEST_WORK
        for piece in voice.perform(request, self.vocoder):
            pieces.append(piece)
            if time.monotonic() > end:
                raise ValueError(f"This text takes more than {LONGEST_WORK:g} seconds of work: give a shorter one.")
            yield Step(join(pieces, text), complete=len(pieces) == len(request.sentences))
        if pieces and len(pieces) < len(request.sentences):  # some sentences had nothing to speak
            yield Step(join(pieces, text), complete=True)

    def files(self, speech: Speech) -> tuple[str, str, str]:
        """Write the figure, audio and timestamps of a speech; the oldest files are deleted."""
        folder = self._folder()
        figure, sound, timestamps = (folder / name for name in ("speech.png", "speech.wav", "speech.TextGrid"))
        speech.plot(figure)
        speech.save(sound)
        speech.save_timestamps(timestamps)
        return str(figure), str(sound), str(timestamps)

    def _folder(self) -> Path:
        folder = Path(tempfile.mkdtemp(dir=self._root))
        self._folders.append(folder)
        while len(self._folders) > KEPT:
            shutil.rmtree(self._folders.popleft(), ignore_errors=True)
        return folder

    def dub_in_steps(self, subtitles: str, *, fastest: float, voice: str = "") -> Iterator[tuple[int, int] | Dubbed]:
        """Dub subtitles; yields (cues done, cues in total) after each cue, and finally the files."""
        if len(subtitles) > MOST_SUBTITLES:
            raise ValueError(f"These subtitles have {len(subtitles):,} characters; the page takes {MOST_SUBTITLES:,}.")
        cues = parse_subtitles(subtitles)
        seconds = max(cue.end for cue in cues)
        if len(cues) > MOST_CUES or seconds > LONGEST_TRACK:
            raise ValueError(
                f"These subtitles have {len(cues):,} cues and last {seconds:,.0f} seconds; the page takes {MOST_CUES} "
                f"cues and {LONGEST_TRACK:g} seconds. `clock-attention dub` takes files of any length."
            )
        chosen = next((found for name, found in self.decoders(voice).items() if name != AUTOREGRESSIVE), None)
        if chosen is None:
            raise ValueError("An autoregressive voice cannot guarantee a duration: subtitles need a parallel one.")
        folder = self._folder()
        sound, report, picture = (folder / name for name in ("dubbed.wav", "report.json", "timeline.png"))
        options = DubOptions(vocoder=self.vocoder, delivery=Delivery(fastest=fastest))
        steps = dub_in_steps(cues, sound, options, chosen)
        end = time.monotonic() + LONGEST_WORK
        finished = 0
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                reports: list[CueReport] = stop.value
                break
            finished += 1
            yield finished, len(cues)
            if time.monotonic() > end:
                raise ValueError(f"These subtitles take more than {LONGEST_WORK:g} seconds of work: give fewer.")
        save_report(reports, report, fastest)
        save_timeline(reports, picture, fastest)
        yield Dubbed(reports, seconds, str(sound), str(report), str(picture))


def name_among(others: Container[str], folder: Path) -> str:
    """The web page's name for a voice: the name of its folder, with the parent folder if that name is taken."""
    path = folder.absolute()
    return f"{path.parent.name}/{path.name}" if path.name in others else path.name


def decoders_of(voice: Voice) -> dict[str, Voice]:
    """Decoders of a voice for the web page: its own, and autoregressive decoding if the voice supports it."""
    found = {voice.card.model.decoding: voice}
    if AUTOREGRESSIVE not in found:
        try:
            found[AUTOREGRESSIVE] = voice.with_decoding(AUTOREGRESSIVE)
        except VoiceError:
            logger.info("%s has no autoregressive decoder", voice.path)
    return found


def within_limit(duration: str) -> float:
    """Parse a duration entered on the web page, in seconds; durations above the page's limit are refused."""
    seconds = parse_duration(duration.strip())
    if seconds > LONGEST:
        raise ValueError(f"duration: got {seconds:g} s; the page speaks for {LONGEST:g} s at most")
    return seconds
