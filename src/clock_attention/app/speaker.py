"""What the web page asks for: speech, speech again with other times, and dubbed subtitles, each within limits."""

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
LONGEST_WORK = 120.0  # seconds that a request may take
LONGEST_TRACK = 300.0  # seconds of dubbed subtitles
MOST_CUES = 200
MOST_SUBTITLES = 60_000  # characters
KEPT = 24  # results whose files can still be downloaded


class Dubbed(NamedTuple):
    """Dubbed subtitles as the web page gets them: the report of the cues, and files to download."""

    reports: list[CueReport]
    seconds: float
    sound: str
    report: str
    picture: str


class Step(NamedTuple):
    """All that has been spoken so far for the web page: speech and its figure."""

    speech: Speech
    complete: bool


class Times(NamedTuple):
    """A text and the times of its words, as a visitor dragged them on the web page, and what had spoken it."""

    text: str
    seconds: float
    words: list[tuple[str, float, float]]
    voice: str
    decoding: str

    @classmethod
    def of(cls, given: str) -> Times:
        """From the page's JSON, which anybody may have written."""
        try:
            table = json.loads(given)
            words = [(str(label), float(start), float(end)) for label, start, end in table["words"]]
            text, voice, decoding = (str(table[key]) for key in ("text", "voice", "decoding"))
            found = cls(text, float(table["seconds"]), words, voice, decoding)
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ValueError("the times of the words did not arrive as they were: speak the text again") from None
        if not 0 < found.seconds <= LONGEST:
            raise ValueError(f"these times last {found.seconds:g} s; the page speaks for {LONGEST:g} s at most")
        return found

    @property
    def timeline(self) -> dict[str, Any]:
        """For `timeline=` of a voice."""
        return {"tiers": {"words": self.words}, "seconds": self.seconds}


class Speaker:
    """Serves the web page: checks requests, speaks, keeps the files of the most recent ones."""

    def __init__(
        self,
        voice: Voice,
        *,
        others: Mapping[str, Path] | None = None,
        vocoder: str = "auto",
        most_characters: int = MOST_CHARACTERS,
    ) -> None:
        """`others`: folders of voices by name that the page offers as well. Each is loaded when it is first chosen."""
        self.vocoder = vocoder
        self.most_characters = most_characters
        own = voice.path.resolve()
        self._others = {name: folder for name, folder in (others or {}).items() if folder.resolve() != own}
        self._loaded = {name_among(self._others, voice.path): decoders_of(voice)}
        self._root = temporary_folder("app")
        self._folders: deque[Path] = deque()

    @property
    def voices(self) -> list[str]:
        """The names of the voices that the page offers; the first one speaks unless another is chosen."""
        return list(dict.fromkeys([*self._loaded, *self._others]))

    def decoders(self, voice: str = "") -> dict[str, Voice]:
        """A voice with each of the decoders that it has, by their names; without a name, the first voice."""
        voice = voice or self.voices[0]
        if voice not in self._loaded:
            if voice not in self._others:
                raise ValueError(f"There is no voice {voice!r} on this page.")
            self._loaded[voice] = decoders_of(Voice.load(self._others[voice]))
        return self._loaded[voice]

    def decodings(self, voice: str = "") -> list[str]:
        """The names of a voice's decoders, the usual one first."""
        return list(self.decoders(voice))

    def about(self, voice: str = "") -> str:
        """What listeners should know of a voice: its licence, whose it is, and what that person agreed to."""
        provenance = next(iter(self.decoders(voice).values())).card.provenance
        consent = f" The speaker's consent: {provenance.consent.rstrip('.')}." if provenance.consent else ""
        return f"The voice's licence: {provenance.licence}. It learned from: {provenance.corpus}.{consent}"

    @property
    def cache(self) -> Path:
        """Where the page keeps its copies of what visitors may download; goes with the rest."""
        return self._root / "page"

    def close(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    def speak(self, text: str, **options: Any) -> Speech:
        """One text within the limits of the page, with the options of `speak_in_steps`."""
        *_, last = self.speak_in_steps(text, **options)
        return last.speech

    def adjustable(self, decoding: str, voice: str = "") -> bool:
        """Whether the words of this decoder's speech can be given other times."""
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
        """All that has been spoken, after each sentence: it can be heard, and whoever waits no longer can leave.

        A duration, where there is one, replaces the pace.
        """
        length: dict[str, Any] = {"pace": pace}
        if mpr is not None:
            length = {"mpr": mpr}
        elif duration.strip():
            length = {"duration": within_limit(duration)}
        return self._stream(text, voice, decoding, length)

    def speak_again_in_steps(self, times: Times) -> Iterator[Step]:
        """The text and times that a player sends after its words have been dragged, exact to the frame."""
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
        if pieces and len(pieces) < len(request.sentences):  # some had nothing that can be read aloud
            yield Step(join(pieces, text), complete=True)

    def files(self, speech: Speech) -> tuple[str, str, str]:
        """Figure, sound and timestamps of a speech; those of older ones disappear."""
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
        """How many cues of how many are spoken, again and again, and at last the files."""
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
            raise ValueError("An autoregressive voice cannot promise a duration: subtitles need a parallel one.")
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
    """The web page's name of a voice in a folder: the folder's, with its parent's where another voice has that name."""
    path = folder.absolute()
    return f"{path.parent.name}/{path.name}" if path.name in others else path.name


def decoders_of(voice: Voice) -> dict[str, Voice]:
    """For the web page: a voice as it is, and for autoregressive decoding where it can."""
    found = {voice.card.model.decoding: voice}
    if AUTOREGRESSIVE not in found:
        try:
            found[AUTOREGRESSIVE] = voice.with_decoding(AUTOREGRESSIVE)
        except VoiceError:
            logger.info("%s has no autoregressive decoder", voice.path)
    return found


def within_limit(duration: str) -> float:
    """Seconds of a duration typed on the web page; refused above the page's limit."""
    seconds = parse_duration(duration.strip())
    if seconds > LONGEST:
        raise ValueError(f"duration: got {seconds:g} s; the page speaks for {LONGEST:g} s at most")
    return seconds
