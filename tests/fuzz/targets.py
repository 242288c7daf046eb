"""All fuzzers by name."""

from __future__ import annotations

from tests.fuzz.files import Metadata, Vocoders, Voices, Wavs
from tests.fuzz.kills import Kills
from tests.fuzz.requests import Requests
from tests.fuzz.runner import Fuzzer
from tests.fuzz.speech_requests import SpeechRequests
from tests.fuzz.tensors import Tensors
from tests.fuzz.texts import Texts

FUZZERS: dict[str, type[Fuzzer]] = {
    each.name: each for each in (Texts, Tensors, Voices, Vocoders, Wavs, Metadata, Requests, SpeechRequests, Kills)
}
