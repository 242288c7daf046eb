"""What requests and answers look like: OpenAI's, with exact times, SSML, pitch and timestamps added."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from clock_attention.speech.voice.pacing import FASTEST, SLOWEST

MODEL = "clock-attention"
# Programs made for OpenAI's service ask for these; they get the first voice of this server.
OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
OPENAI_VOICES = (
    *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable", "marin", "nova", "onyx", "sage", "shimmer"),
    "verse",
)
MOST_CHARACTERS = 1_000_000  # of a text, before the server's own limit is looked at
LONGEST = 1e6  # seconds, before the server's own limit is looked at


class VoiceId(BaseModel):
    """A voice by its id in a request, as OpenAI's custom voices are given."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: Annotated[str, Field(max_length=200)]


class TimedLabel(BaseModel):
    """A labelled stretch of time in seconds, in an answer with timestamps."""

    model_config = ConfigDict(extra="forbid", strict=True)

    start: Annotated[float, Field(ge=0, le=LONGEST, allow_inf_nan=False)]
    end: Annotated[float, Field(ge=0, le=LONGEST, allow_inf_nan=False)]
    label: Annotated[str, Field(max_length=1000)]


class SpeechRequest(BaseModel):
    """The body of a request: a text to be spoken."""

    model_config = ConfigDict(extra="forbid", strict=True)

    input: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS, description="The text, or SSML.")]
    model: Annotated[str, Field(max_length=200, description="One of /v1/models, or an OpenAI speech model.")] = MODEL
    voice: Annotated[
        Annotated[str, Field(max_length=200)] | VoiceId | None,
        Field(description="One of /v1/audio/voices; OpenAI's names mean the server's first voice."),
    ] = None
    instructions: Annotated[
        str | None, Field(max_length=10_000, description="Accepted and not used: voices do not act.")
    ] = None
    response_format: Literal["mp3", "opus", "flac", "wav", "pcm"] = "mp3"
    speed: Annotated[
        float, Field(ge=SLOWEST, le=FASTEST, allow_inf_nan=False, description="2 is twice as fast as natural.")
    ] = 1.0
    stream_format: Annotated[
        Literal["audio", "sse"],
        Field(description="audio: the sound itself; sse: server-sent events with pieces of it in base64."),
    ] = "audio"
    stream: Annotated[
        bool,
        Field(description="Send each sentence when it is spoken; false: all at the end, with its length in headers."),
    ] = True
    duration: Annotated[
        float | None,
        Field(gt=0, allow_inf_nan=False, description="Seconds of the whole, exact to the mel frame; replaces speed."),
    ] = None
    timeline: Annotated[
        list[TimedLabel] | None,
        Field(
            min_length=1,
            max_length=20_000,
            description="When each word or each phone is to be said, as `timestamps` answers it; replaces speed.",
        ),
    ] = None
    ssml: Annotated[bool, Field(description="The input is an SSML document.")] = False
    pitch: Annotated[
        float, Field(ge=-12, le=12, allow_inf_nan=False, description="Semitones above how the voice would say it.")
    ] = 0.0
    energy: Annotated[float, Field(ge=-60, le=12, allow_inf_nan=False, description="Decibels louder.")] = 0.0
    timestamps: Annotated[
        bool,
        Field(
            description="Also say when sentences, words and phones are said: answers with JSON that holds the sound in "
            "base64, or adds the times to the events."
        ),
    ] = False


class TimedSpeech(BaseModel):
    """The answer to a request with `timestamps`."""

    audio: Annotated[str, Field(description="The sound in base64.")]
    format: str
    seconds: float
    timestamps: dict[str, list[TimedLabel]]


class Fault(BaseModel):
    """An error in the JSON that OpenAI's clients expect."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorAnswer(BaseModel):
    """Every answer that is not a success."""

    error: Fault


class Model(BaseModel):
    """A model in the answer that lists models, as OpenAI does."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "clock-attention"


class Models(BaseModel):
    """The answer that lists all models."""

    object: Literal["list"] = "list"
    data: list[Model]


class VoiceEntry(BaseModel):
    """A voice in the answer that lists voices."""

    id: str
    name: str
    language: str
    sample_rate: int
    licence: str


class Voices(BaseModel):
    """The answer that lists all voices; the first one is the default."""

    voices: list[VoiceEntry]


class Health(BaseModel):
    """The answer about health: whether requests are taken, and how many are under way."""

    status: Literal["ok"] = "ok"
    version: str
    open_jobs: int
    most_jobs: int


Json = dict[str, Any]
