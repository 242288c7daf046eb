"""Errors in OpenAI's form."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from clock_attention.serve.engine import BusyError, ClosedError, LateError
from clock_attention.serve.schema import ErrorAnswer, Fault

logger = logging.getLogger(__name__)

RETRY_AFTER = 2  # seconds
RE_PARAMETER = re.compile(r"[\w.]+:")
WRONG = "invalid_request_error"


class ApiError(Exception):
    """An error answer of the server, in OpenAI's form."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.fault = Fault(message=sentence(message), type=kind(status), param=param, code=code)


def kind(status: int) -> str:
    """OpenAI's name for the kind of an error with this HTTP status."""
    if status == 429:
        return "rate_limit_error"
    if status == 401:
        return "authentication_error"
    return "server_error" if status >= 500 else WRONG


def sentence(message: str) -> str:
    """An error message as one line with a stop, and a capital unless it begins with the name of a parameter."""
    message = " ".join(message.split())
    if not RE_PARAMETER.match(message):
        message = message[:1].upper() + message[1:]
    return message + ("" if message.endswith((".", "!", "?")) else ".")


def as_api_error(error: BaseException) -> ApiError:
    """What a client is told of an exception, as an error; unexpected ones are logged and kept to ourselves."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, BusyError):
        return ApiError(429, str(error), code="queue_full")
    if isinstance(error, ClosedError):
        return ApiError(503, str(error), code="stopping")
    if isinstance(error, LateError):
        return ApiError(504, str(error), code="deadline")
    if isinstance(error, ValueError):
        return ApiError(400, str(error), param="input")
    logger.error("a request failed", exc_info=error)
    return ApiError(500, "something went wrong here; the server's log says what")


def answer(error: ApiError) -> JSONResponse:
    """An error as an HTTP response, with the headers that belong to its status."""
    headers = {"Retry-After": str(RETRY_AFTER)} if error.status in (429, 503) else {}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(ErrorAnswer(error=error.fault).model_dump(), error.status, headers)


def refusal_body(status: int, reason: str) -> tuple[str, bytes]:
    """The body of an error with which the guard in front of the application refuses a request."""
    return "application/json", ErrorAnswer(error=ApiError(status, reason).fault).model_dump_json().encode()


def install_error_handlers(application: FastAPI) -> None:
    """Let every error of a FastAPI application be answered in OpenAI's form."""

    async def wrong_request(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        return answer(as_validation_error(error.errors()))

    async def http_error(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        found = answer(ApiError(error.status_code, str(error.detail)))
        found.headers.update(error.headers or {})
        return found

    async def other(request: Request, error: Exception) -> JSONResponse:
        return answer(as_api_error(error))

    application.add_exception_handler(RequestValidationError, wrong_request)
    application.add_exception_handler(HTTPException, http_error)
    for known in (ApiError, BusyError, ClosedError, LateError, ValueError):
        application.add_exception_handler(known, other)


def as_validation_error(faults: Sequence[Any]) -> ApiError:
    """Pydantic's faults in a request as one error that names the parameter."""
    first = faults[0]
    place = [str(part) for part in first["loc"] if part != "body"]
    if first["type"] == "json_invalid":
        return ApiError(400, f"the body is not JSON: {first.get('ctx', {}).get('error', first['msg'])}")
    if not place or (first["type"] == "missing" and first["loc"] == ("body",)):
        return ApiError(400, "the body should be a JSON object, sent as application/json")
    name = place[0]
    code = "unknown_parameter" if first["type"] == "extra_forbidden" else None
    return ApiError(400, f"{'.'.join(place)}: {first['msg']}", param=name, code=code)
