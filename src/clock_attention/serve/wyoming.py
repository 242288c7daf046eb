"""The server's Wyoming interface, for Home Assistant and its satellites, on the same engine."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import numpy as np
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Attribution, Describe, Info, TtsProgram, TtsVoice
from wyoming.server import AsyncEventHandler, AsyncServer
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeTextFormat,
    SynthesizeVoice,
)

from clock_attention import __version__
from clock_attention.serve.application import Desk, named_voice
from clock_attention.serve.errors import as_api_error
from clock_attention.speech.text.sentences import split_sentences
from clock_attention.speech.voice.pacing import PAUSE

logger = logging.getLogger(__name__)

CHUNK = 1024  # samples per audio event
IDLE = 300.0  # seconds after which a silent client is disconnected
RE_STOP = re.compile(r"[.!?…][\"'”’)\]]*\s+|\n+")


class BoundedReader:
    """The stream of a Wyoming client, with a limit on the size of events, since clients declare their lengths."""

    def __init__(self, reader: asyncio.StreamReader, most_bytes: int) -> None:
        self._reader, self._most_bytes = reader, most_bytes

    async def readline(self) -> bytes:
        return await asyncio.wait_for(self._reader.readline(), IDLE)

    async def readexactly(self, count: Any) -> bytes:
        if not isinstance(count, int) or count > self._most_bytes:
            raise ValueError(f"an event of {count} bytes; at most {self._most_bytes} are accepted")
        return await asyncio.wait_for(self._reader.readexactly(count), IDLE)

    def feed_eof(self) -> None:
        self._reader.feed_eof()


class Handler(AsyncEventHandler):
    """One client of the Wyoming protocol."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, desk: Desk) -> None:
        super().__init__(BoundedReader(reader, desk.engine.limits.body), writer)  # type: ignore[arg-type]
        self.desk = desk
        self.voice: SynthesizeVoice | None = None
        self.text: str | None = None  # received part of a streamed text that has not been spoken yet
        self.markup = False  # whether this text is SSML
        self.sounding = False  # whether AudioStart has been sent

    async def run(self) -> None:
        try:
            await super().run()
        except (asyncio.TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has disconnected
        except Exception:
            logger.exception("a Wyoming client was disconnected")

    async def handle_event(self, event: Event) -> bool:
        if Describe.is_type(event.type):
            await self.write_event(info(self.desk).event())
            return True
        try:
            await self.take(event)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:
            fault = as_api_error(
                error if not isinstance(error, KeyError | TypeError) else ValueError("a malformed event")
            )
            self.desk.engine.metrics.requests.labels("wyoming", str(fault.status)).inc()
            self.text = None
            await self.end()
            await self.write_event(Error(fault.fault.message, fault.fault.code).event())
        return True

    async def take(self, event: Event) -> None:
        if Synthesize.is_type(event.type):
            request = Synthesize.from_event(event)
            if self.text is None:  # else it repeats a streamed text, for servers without streaming
                self.voice = request.voice
                await self.say(request.text, ssml=request.text_format == SynthesizeTextFormat.SSML)
                await self.done()
        elif SynthesizeStart.is_type(event.type):
            start = SynthesizeStart.from_event(event)
            self.voice, self.text, self.markup = start.voice, "", start.text_format == SynthesizeTextFormat.SSML
        elif SynthesizeChunk.is_type(event.type) and self.text is not None:
            text = self.text + str(SynthesizeChunk.from_event(event).text)
            ready, self.text = ("", text) if self.markup else complete_part(text)  # SSML is spoken once it is complete
            self.desk.engine.limits.check_text(self.text)
            if ready:
                await self.say(ready)
                await self.silence()
        elif SynthesizeStop.is_type(event.type) and self.text is not None:
            rest, self.text = self.text, None
            if rest.strip():
                await self.say(rest, ssml=self.markup)
            await self.done()
            await self.write_event(SynthesizeStopped().event())

    async def say(self, text: str, *, ssml: bool = False) -> None:
        if not isinstance(text, str):
            raise ValueError("expected a text")
        voice = named_voice(self.desk.voices, self.voice.name if self.voice else None)
        pieces = self.desk.engine.stream_async(self.desk.task(voice, text, ssml=ssml))
        try:
            async for piece in pieces:
                await self.send(piece.audio, piece.sample_rate)
        finally:
            await pieces.aclose()

    async def silence(self) -> None:
        rate = next(iter(self.desk.voices.values())).language.mel.sample_rate
        await self.send(np.zeros(round(PAUSE * rate), np.float32), rate)

    async def send(self, wave: Any, rate: int) -> None:
        form = {"rate": rate, "width": 2, "channels": 1}
        if not self.sounding:
            self.sounding = True
            await self.write_event(AudioStart(**form).event())
        samples = (np.clip(wave, -1, 1) * 32767).round().astype("<i2")
        for start in range(0, len(samples), CHUNK):
            await self.write_event(AudioChunk(audio=samples[start : start + CHUNK].tobytes(), **form).event())

    async def end(self) -> None:
        if self.sounding:
            self.sounding = False
            await self.write_event(AudioStop().event())

    async def done(self) -> None:
        await self.end()
        self.desk.engine.metrics.requests.labels("wyoming", "200").inc()


def complete_part(text: str) -> tuple[str, str]:
    """Split a text streamed by Wyoming events between sentences: the part that can be spoken already, and the rest."""
    for stop in reversed(list(RE_STOP.finditer(text))):
        before, after = text[: stop.end()], text[stop.end() :]
        # "Dr. " does not end a sentence, and whether "no. " does depends on what follows.
        if after.strip() and len(split_sentences(text)) == len(split_sentences(before)) + len(split_sentences(after)):
            return (before, after) if before.strip() else ("", text)
    return "", text


def info(desk: Desk) -> Info:
    """Description of this server and its voices for the Wyoming protocol."""
    source = Attribution(name="clock-attention", url="https://arxiv.org/abs/2509.14678")
    voices = [
        TtsVoice(
            name=name,
            description=voice.card.provenance.licence,
            attribution=source,
            installed=True,
            version=__version__,
            languages=["en"],
        )
        for name, voice in desk.voices.items()
    ]
    return Info(
        tts=[
            TtsProgram(
                name="clock-attention",
                description="Speech at an exact pace",
                attribution=source,
                installed=True,
                version=__version__,
                voices=voices,
                supports_synthesize_streaming=True,
            )
        ]
    )


def wyoming_server(uri: str) -> AsyncServer:
    """Create a Wyoming server for tcp://HOST:PORT or unix:///PATH."""
    if not uri.startswith(("tcp://", "unix://")):
        raise ValueError(f"wyoming: got {uri!r}, expected an address such as tcp://127.0.0.1:10200")
    try:
        return AsyncServer.from_uri(uri)
    except ValueError as error:
        raise ValueError(f"wyoming: got {uri!r}, expected an address such as tcp://127.0.0.1:10200 ({error})") from None
