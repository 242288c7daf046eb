"""The description of the interface and the server agree, for requests that nobody thought of."""

import json
from contextlib import suppress

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from pydantic import ValidationError

from clock_attention.serve.schema import SpeechRequest

schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis")


REFUSALS = (400, 401, 404, 405, 413, 422)  # a text that is too long is refused as too large (413)


@pytest.fixture(scope="module")
def operations(address):
    config = schemathesis.Config.from_dict({"checks": {"negative_data_rejection": {"expected-statuses": REFUSALS}}})
    description = schemathesis.openapi.from_url(f"{address}/openapi.json", config=config)
    return [found.ok() for found in description.get_all_operations()]


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
def test_answers_are_as_described(operations, mode):
    checks = schemathesis.checks
    excluded = [checks.positive_data_acceptance]  # a text may be unreadable or too long, whatever its schema says

    def try_out(operation):
        @settings(
            max_examples=12,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy(generation_mode=mode))
        def answered(case):
            case.call_and_validate(excluded_checks=excluded, timeout=60)

        answered()

    for operation in operations:
        with suppress(Unsatisfiable):  # without parameters nothing can be wrong
            try_out(operation)


def test_the_description_names_every_extension(address):
    table = httpx.get(f"{address}/openapi.json").json()
    properties = table["components"]["schemas"]["SpeechRequest"]["properties"]
    assert {"duration", "timestamps", "stream", "stream_format", "speed"} <= set(properties)
    assert set(table["paths"]) == {"/health", "/metrics", "/v1/models", "/v1/audio/voices", "/v1/audio/speech"}
    answers = table["paths"]["/v1/audio/speech"]["post"]["responses"]
    assert {"200", "400", "401", "413", "429", "504"} <= set(answers)
    assert json.dumps(table).count("TimedSpeech") > 1


def test_numbers_must_be_numbers():
    for wrong in ({"speed": True}, {"speed": float("nan")}, {"duration": float("inf")}, {"stream": "yes"}):
        with pytest.raises(ValidationError):
            SpeechRequest.model_validate({"input": "One.", **wrong})
    assert SpeechRequest.model_validate({"input": "One.", "voice": {"id": "x"}}).voice.id == "x"
