"""Errors in OpenAI's form."""

import json
import logging

import pytest

pytest.importorskip("fastapi", reason="needs the extra clock-attention[serve]")

from clock_attention.serve.engine import BusyError, ClosedError, LateError
from clock_attention.serve.errors import ApiError, answer, as_api_error, as_validation_error, refusal_body, sentence


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (BusyError("full"), 429, "rate_limit_error", "queue_full"),
        (ClosedError("stopping"), 503, "server_error", "stopping"),
        (LateError("late"), 504, "server_error", "deadline"),
        (ValueError("wrong"), 400, "invalid_request_error", None),
        (ApiError(401, "who are you"), 401, "authentication_error", None),
    ],
)
def test_each_kind_has_its_status_and_type(error, status, kind, code):
    found = as_api_error(error)
    assert (found.status, found.fault.type, found.fault.code) == (status, kind, code)
    headers = answer(found).headers
    assert ("retry-after" in headers) == (status in (429, 503))
    assert ("www-authenticate" in headers) == (status == 401)


def test_unexpected_errors_are_logged_and_not_shown(caplog):
    with caplog.at_level(logging.ERROR):
        found = as_api_error(KeyError("secret path"))
    assert found.status == 500
    assert "secret" not in found.fault.message
    assert "secret path" in caplog.text


@pytest.mark.parametrize(
    ("message", "written"),
    [("too\n long", "Too long."), ("voice: got 3", "voice: got 3."), ("Why?", "Why?"), ("a.b: wrong", "a.b: wrong.")],
)
def test_messages_are_sentences(message, written):
    assert sentence(message) == written


@pytest.mark.parametrize(
    ("fault", "param", "message"),
    [
        (
            {"type": "json_invalid", "loc": ("body", 3), "msg": "x", "ctx": {"error": "Expecting value"}},
            None,
            "not JSON",
        ),
        ({"type": "missing", "loc": ("body",), "msg": "Field required"}, None, "should be a JSON object"),
        ({"type": "extra_forbidden", "loc": ("body", "sped"), "msg": "not permitted"}, "sped", "sped: not permitted"),
        (
            {"type": "float_type", "loc": ("body", "words", 0, "end"), "msg": "a number"},
            "words",
            "words.0.end: a number",
        ),
    ],
)
def test_faults_of_a_body_are_located(fault, param, message):
    found = as_validation_error([fault])
    assert (found.status, found.fault.param) == (400, param)
    assert message in found.fault.message


def test_the_guard_answers_in_the_same_form():
    kind, body = refusal_body(413, "too large")
    assert kind == "application/json"
    assert json.loads(body)["error"]["message"] == "Too large."
