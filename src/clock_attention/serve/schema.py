"""Schemas of requests and responses: OpenAI's, extended with exact times, SSML, pitch and timestamps."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from clock_attention.speech.voice.pacing import FASTEST, SLOWEST

MODEL = "clock-attention"
# Clients written for OpenAI's service ask for these; they get the first voice of this server.
OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
OPENAI_VOICES = (
    *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer"),
    "verse",
)
MOST_CHARACTERS = 1_000_000  # of a text; the server's own limit is checked later
LONGEST = 1e6  # seconds; the server's own limit is checked later


class VoiceId(BaseModel):
    """A voice given by id in a request, like OpenAI's custom voices."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: Annotated[str, Field(max_length=200)]


class TimedLabel(BaseModel):
    """A labelled time interval in seconds, in a response with timestamps."""

    model_config = ConfigDict(extra="forbid", strict=True)

    start: Annotated[float, Field(ge=0, le=LONGEST, allow_inf_nan=False)]
    end: Annotated[float, Field(ge=0, le=LONGEST, allow_inf_nan=False)]
    label: Annotated[str, Field(max_length=1000)]


class SpeechRequest(BaseModel):
    """The body of a request to speak a text."""

    model_config = ConfigDict(extra="forbid", strict=True)

    input: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS, description="The text, or SSML.")]
    model: Annotated[str, Field(max_length=200, description="One of /v1/models, or an OpenAI speech model.")] = MODEL
    voice: Annotated[
        Annotated[str, Field(max_length=200)] | VoiceId | None,
        Field(description="One of /v1/audio/voices; OpenAI's voice names select the server's first voice."),
    ] = None
    instructions: Annotated[
        str | None, Field(max_length=10_000, description="Accepted but ignored: voices cannot follow instructions.")
    ] = None
    response_format: Literal["mp3", "opus", "flac", "wav", "pcm"] = "mp3"
    speed: Annotated[
        float, Field(ge=SLOWEST, le=FASTEST, allow_inf_nan=False, description="2 is twice as fast as natural.")
    ] = 1.0
    stream_format: Annotated[
        Literal["audio", "sse"],
        Field(description="audio: the audio itself; sse: server-sent events with chunks of it in base64."),
    ] = "audio"
    stream: Annotated[
        bool,
        Field(
            description="Send each sentence as soon as it is spoken; false: all at the end, with its length in headers."
        ),
    ] = True
    duration: Annotated[
        float | None,
        Field(
            gt=0, allow_inf_nan=False, description="Total duration in seconds, exact to the mel frame; replaces speed."
        ),
    ] = None
    timeline: Annotated[
        list[TimedLabel] | None,
        Field(
            min_length=1,
            max_length=20_000,
            description="Times of the words or phones, in the form that `timestamps` returns; replaces speed.",
        ),
    ] = None
    ssml: Annotated[bool, Field(description="The input is an SSML document.")] = False
    pitch: Annotated[
        float, Field(ge=-12, le=12, allow_inf_nan=False, description="Semitones above the voice's natural pitch.")
    ] = 0.0
    energy: Annotated[float, Field(ge=-60, le=12, allow_inf_nan=False, description="Decibels louder.")] = 0.0
    timestamps: Annotated[
        bool,
        Field(
            description="Also return the times of sentences, words and phones: as JSON together with the audio in "
            "base64, or within the server-sent events."
        ),
    ] = False


class TimedSpeech(BaseModel):
    """The response to a request with `timestamps`."""

    audio: Annotated[str, Field(description="The audio in base64.")]
    format: str
    seconds: float
    timestamps: dict[str, list[TimedLabel]]


class Fault(BaseModel):
    """An error in the JSON format that OpenAI's clients expect."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorAnswer(BaseModel):
    """The response to every request that fails."""

    error: Fault


class Model(BaseModel):
    """A model in the list of models, as in OpenAI's interface."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "clock-attention"


class Models(BaseModel):
    """The response that lists all models."""

    object: Literal["list"] = "list"
    data: list[Model]


class VoiceEntry(BaseModel):
    """A voice in the list of voices."""

    id: str
    name: str
    language: str
    sample_rate: int
    licence: str


class Voices(BaseModel):
    """The response that lists all voices; the first one is the default."""

    voices: list[VoiceEntry]


class Health(BaseModel):
    """The response of the health check: whether requests are accepted, and how many are in progress."""

    status: Literal["ok"] = "ok"
    version: str
    open_jobs: int
    most_jobs: int


Json = dict[str, Any]
