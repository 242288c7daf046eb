"""The HTTP interface: OpenAI's speech endpoint, and endpoints for models, voices, health and metrics."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from clock_attention import __version__
from clock_attention.serve import schema
from clock_attention.serve.encoding import AUDIO_FORMATS, Encoder
from clock_attention.serve.engine import Engine, LateError
from clock_attention.serve.errors import ApiError, as_api_error, install_error_handlers
from clock_attention.serve.metrics import CONTENT_TYPE
from clock_attention.serve.tasks import SpeechTask
from clock_attention.speech.voice.voice import Voice
from clock_attention.timestamps import Interval

if TYPE_CHECKING:
    from clock_attention.speech.vocoder.vocoder import Vocoder
    from clock_attention.speech.voice.speech import Speech

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schema.ErrorAnswer, "description": description}
    for status, description in {
        400: "The request is wrong.",
        401: "The API key is missing or wrong.",
        404: "There is no such model.",
        408: "The request arrived too slowly.",
        413: "The request is too large.",
        421: "The server does not answer under this name.",
        429: "The queue is full.",
        503: "The server is stopping.",
        504: "The deadline has passed.",
    }.items()
}
bearer = HTTPBearer(auto_error=False, description="The server's API key, if it has one.")
SOUND = {"schema": {"type": "string", "format": "binary"}}
SPEECH_EVENT = {
    "type": "object",
    "required": ["data"],
    "properties": {
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {
                "type": "object",
                "required": ["type"],
                "properties": {
                    "type": {"enum": ["speech.audio.delta", "speech.audio.done", "error"]},
                    "audio": {"type": "string", "contentEncoding": "base64"},
                    "timestamps": {"type": "object"},
                    "usage": {"type": "object"},
                    "error": {"type": "object"},
                },
            },
        }
    },
}
SPEECH_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The speech.",
        "content": {
            **{form.media_type: SOUND for form in AUDIO_FORMATS.values()},
            "text/event-stream": {"schema": SPEECH_EVENT},
            "application/json": {"schema": {"$ref": "#/components/schemas/TimedSpeech"}},
        },
    },
    **ERRORS,
}


@dataclass(frozen=True)
class Desk:
    """State shared by all of the server's interfaces: the voices, their vocoder and the engine."""

    voices: Mapping[str, Voice]  # the first is the default
    vocoder: str | Vocoder
    engine: Engine

    def task(self, voice: Voice, text: str, *, ssml: bool = False, **options: Any) -> SpeechTask:
        """Create a speech task, with the options of `Voice.stream`, for a text that is within the limits."""
        limits = self.engine.limits
        limits.check_text(text)
        return SpeechTask(voice, self.vocoder_of(voice), text, ssml, {"most_seconds": limits.seconds, **options})

    def vocoder_of(self, voice: Voice) -> Vocoder:
        return voice.vocoder(self.vocoder)

    def warm_up(self) -> None:
        """Load and compile everything before the first request, so that missing files are reported at startup."""
        for voice in self.voices.values():
            for _ in SpeechTask(voice, self.vocoder_of(voice), "Ready.")():
                pass


class ClosingStream(StreamingResponse):
    """A streaming HTTP response with a time limit; its source is closed whenever the client disconnects."""

    def __init__(self, content: AsyncGenerator[bytes, None], *, media_type: str, seconds: float) -> None:
        super().__init__(content, media_type=media_type)
        self.content, self.seconds = content, seconds

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await asyncio.wait_for(super().__call__(scope, receive, send), self.seconds)
        except asyncio.TimeoutError:
            raise LateError(f"the client did not read the response within {self.seconds:g} seconds") from None
        finally:
            await self.content.aclose()


def http_application(
    desk: Desk,
    *,
    api_key: str | None = None,
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]] | None = None,
) -> FastAPI:
    """The HTTP application (FastAPI) with all its endpoints. Put a `Guard` in front of it."""
    # The interactive pages would fetch scripts from a third party: only the OpenAPI description itself is served.
    application = FastAPI(
        title="clock-attention",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    install_error_handlers(application)

    def check_key(given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> None:
        expected = (api_key or "").encode()
        if given is None or not secrets.compare_digest(given.credentials.encode("latin-1"), expected):
            code = None if given is None else "invalid_api_key"
            raise ApiError(401, "this server needs its API key: Authorization: Bearer KEY", code=code)

    # Some clients read no faster than they play.
    longest = desk.engine.limits.deadline + desk.engine.limits.seconds
    protected: dict[str, Any] = {"dependencies": [Depends(check_key)]} if api_key else {}

    @application.get("/health", summary="Whether requests are accepted")
    async def health() -> schema.Health:
        limits = desk.engine.limits
        return schema.Health(
            version=__version__, open_jobs=desk.engine.open_jobs, most_jobs=limits.waiting + desk.engine.workers
        )

    @application.get("/metrics", summary="Metrics in Prometheus's format", response_class=Response, **protected)
    async def metrics() -> Response:
        return Response(desk.engine.metrics.text(), media_type=CONTENT_TYPE)

    @application.get("/v1/models", summary="Models", responses={401: ERRORS[401]}, **protected)
    async def models() -> schema.Models:
        return schema.Models(data=[schema.Model(id=schema.MODEL)])

    @application.get("/v1/audio/voices", summary="Voices", responses={401: ERRORS[401]}, **protected)
    async def voices() -> schema.Voices:
        return schema.Voices(voices=[voice_entry(name, voice) for name, voice in desk.voices.items()])

    @application.post(
        "/v1/audio/speech", summary="Speak", response_class=Response, responses=SPEECH_ANSWERS, **protected
    )
    async def speech(body: schema.SpeechRequest, request: Request) -> Response:
        task = task_of(desk, body)
        pieces = desk.engine.stream_async(task)
        try:
            first = await while_present(request, anext(pieces))  # errors in the text can still set the HTTP status
            encoder = Encoder(body.response_format, first.sample_rate)
            parts = spoken_parts(first, pieces, encoder)
            if body.stream_format == "sse":
                content = events(parts, body.timestamps)
                return ClosingStream(content, media_type="text/event-stream", seconds=longest)
            if body.stream and not body.timestamps and task.sentences != 1:
                return ClosingStream(sound_alone(parts), media_type=encoder.format.media_type, seconds=longest)
            all_parts = await while_present(request, collected(parts))
        except BaseException as error:
            await pieces.aclose()
            if isinstance(error, Exception):
                raise as_api_error(error) from None
            raise
        if body.timestamps:
            return JSONResponse(timed(all_parts, encoder))
        return Response(encoder.whole(), media_type=encoder.format.media_type)

    # The response with timestamps is built by hand above, so FastAPI does not know its schema.
    original = application.openapi

    def described() -> dict[str, Any]:
        found = original()
        schemas = found["components"]["schemas"]
        table = schema.TimedSpeech.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(table.pop("$defs", {}))
        schemas["TimedSpeech"] = table
        return found

    application.openapi = described  # type: ignore[method-assign]
    return application


def task_of(desk: Desk, body: schema.SpeechRequest) -> SpeechTask:
    """The engine's task for an HTTP speech request; an invalid request raises an error that says why."""
    if body.model not in (schema.MODEL, *schema.OPENAI_MODELS):
        raise ApiError(
            404, f"there is no model {body.model!r} here, only {schema.MODEL!r}", param="model", code="model_not_found"
        )
    voice = named_voice(desk.voices, body.voice.id if isinstance(body.voice, schema.VoiceId) else body.voice)
    options: dict[str, Any] = {"pitch": body.pitch, "energy": body.energy}
    lengths = {"speed": body.speed != 1.0, "duration": body.duration is not None, "timeline": body.timeline is not None}
    given = [name for name, wanted in lengths.items() if wanted]
    if len(given) > 1:
        raise ApiError(400, f"{' and '.join(given)} were given together: each of them sets the length", param=given[-1])
    if body.timeline is not None:
        # Always a list: the option also accepts a path, which a client must not be able to pass.
        options["timeline"] = [(one.label, one.start, one.end) for one in body.timeline]
    elif body.duration is not None:
        options["duration"] = body.duration
    else:
        options["pace"] = body.speed
    return desk.task(voice, body.input, ssml=body.ssml, **options)


def named_voice(voices: Mapping[str, Voice], name: str | None) -> Voice:
    """The voice that a request names; the first one if it names none, or one of OpenAI's voices."""
    if name is not None and name in voices:
        return voices[name]
    if name is None or name in schema.OPENAI_VOICES:
        return next(iter(voices.values()))
    raise ApiError(400, f"there is no voice {name!r} here, only {', '.join(voices)}", param="voice", code="no_voice")


def voice_entry(name: str, voice: Voice) -> schema.VoiceEntry:
    """A voice as the HTTP endpoint /v1/audio/voices lists it."""
    return schema.VoiceEntry(
        id=name,
        name=name,
        language="en",
        sample_rate=voice.language.mel.sample_rate,
        licence=voice.card.provenance.licence,
    )


async def while_present(request: Request, work: Any) -> Any:
    """The result of `work`, which is cancelled if the HTTP client disconnects."""
    task = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(departure(request))
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ApiError(499, "the client has disconnected")  # no one receives it; it is logged and counted
        return task.result()
    except StopAsyncIteration:  # must not propagate out of a coroutine
        raise ApiError(400, "there is nothing to say in this text", param="input") from None
    finally:
        leaving.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


async def departure(request: Request) -> None:
    """Wait until the HTTP client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


@dataclass(frozen=True)
class AnswerPart:
    """The part of an HTTP response that comes from one sentence."""

    sound: bytes
    seconds: float = 0.0
    phonemes: int = 0
    frames: int = 0
    tiers: Mapping[str, list[Interval]] | None = None


async def spoken_parts(
    first: Speech, rest: AsyncGenerator[Any, None], encoder: Encoder
) -> AsyncGenerator[AnswerPart, None]:
    """Sentences of a speech job as parts of an HTTP response, and a last part that finishes the file."""
    reached = 0.0
    try:
        piece: Speech | None = first
        while piece is not None:
            sound = await asyncio.to_thread(encoder.write, piece.audio)
            tiers = {
                name: [interval.shifted(reached) for interval in intervals] for name, intervals in piece.tiers().items()
            }
            reached += piece.seconds
            yield AnswerPart(sound, piece.seconds, len(piece.phonemes), len(piece.mel), tiers)
            piece = await anext(rest, None)
        yield AnswerPart(await asyncio.to_thread(encoder.finish))
    finally:
        encoder.close()
        await rest.aclose()


async def collected(parts: AsyncGenerator[AnswerPart, None]) -> list[AnswerPart]:
    """All parts of an HTTP response, collected in a list."""
    return [part async for part in parts]


async def sound_alone(parts: AsyncGenerator[AnswerPart, None]) -> AsyncGenerator[bytes, None]:
    """The audio of HTTP response parts, as they arrive."""
    try:
        async for part in parts:
            if part.sound:
                yield part.sound
    finally:
        await parts.aclose()


async def events(parts: AsyncGenerator[AnswerPart, None], timestamps: bool) -> AsyncGenerator[bytes, None]:
    """OpenAI's server-sent events of a speech job. Tokens are phonemes of the text and mel frames of the speech."""
    phonemes = frames = 0
    try:
        async for part in parts:
            phonemes, frames = phonemes + part.phonemes, frames + part.frames
            if part.sound or part.tiers:
                event: schema.Json = {"type": "speech.audio.delta", "audio": base64.b64encode(part.sound).decode()}
                if timestamps and part.tiers:
                    event["timestamps"] = as_json(part.tiers)
                yield line_of(event)
        usage = {"input_tokens": phonemes, "output_tokens": frames, "total_tokens": phonemes + frames}
        yield line_of({"type": "speech.audio.done", "usage": usage})
    except Exception as error:
        yield line_of({"type": "error", "error": as_api_error(error).fault.model_dump()})
    finally:
        await parts.aclose()


def line_of(event: schema.Json) -> bytes:
    """Format one server-sent event for an HTTP response."""
    return f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def as_json(tiers: Mapping[str, list[Interval]]) -> schema.Json:
    """Tiers of timestamps as JSON for an HTTP response."""
    return {name: [asdict(interval) for interval in intervals] for name, intervals in tiers.items()}


def timed(parts: list[AnswerPart], encoder: Encoder) -> schema.Json:
    """The JSON of an HTTP response with audio and timestamps together."""
    tiers: dict[str, list[Interval]] = {}
    for part in parts:
        for name, intervals in (part.tiers or {}).items():
            tiers.setdefault(name, []).extend(intervals)
    return {
        "audio": base64.b64encode(encoder.whole()).decode(),
        "format": encoder.name,
        "seconds": sum(part.seconds for part in parts),
        "timestamps": as_json(tiers),
    }
