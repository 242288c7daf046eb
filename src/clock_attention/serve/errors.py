"""HTTP errors in OpenAI's format."""

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
    """An error response of the server, in OpenAI's format."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.fault = Fault(message=sentence(message), type=kind(status), param=param, code=code)


def kind(status: int) -> str:
    """OpenAI's error type for an HTTP status."""
    if status == 429:
        return "rate_limit_error"
    if status == 401:
        return "authentication_error"
    return "server_error" if status >= 500 else WRONG


def sentence(message: str) -> str:
    """Format an error message: one line with a full stop, capitalized unless it starts with a parameter name."""
    message = " ".join(message.split())
    if not RE_PARAMETER.match(message):
        message = message[:1].upper() + message[1:]
    return message + ("" if message.endswith((".", "!", "?")) else ".")


def as_api_error(error: BaseException) -> ApiError:
    """Convert an exception to the error sent to a client; unexpected ones are logged and their details withheld."""
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
    return ApiError(500, "something went wrong; see the server's log for details")


def answer(error: ApiError) -> JSONResponse:
    """An error as an HTTP response, with the headers required by its status."""
    headers = {"Retry-After": str(RETRY_AFTER)} if error.status in (429, 503) else {}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(ErrorAnswer(error=error.fault).model_dump(), error.status, headers)


def refusal_body(status: int, reason: str) -> tuple[str, bytes]:
    """Media type and body of the error with which the guard refuses a request."""
    return "application/json", ErrorAnswer(error=ApiError(status, reason).fault).model_dump_json().encode()


def install_error_handlers(application: FastAPI) -> None:
    """Make a FastAPI application report every error in OpenAI's format."""

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
    """Convert Pydantic's validation errors to one error that names the parameter."""
    first = faults[0]
    place = [str(part) for part in first["loc"] if part != "body"]
    if first["type"] == "json_invalid":
        return ApiError(400, f"the body is not JSON: {first.get('ctx', {}).get('error', first['msg'])}")
    if not place or (first["type"] == "missing" and first["loc"] == ("body",)):
        return ApiError(400, "the body should be a JSON object, sent as application/json")
    name = place[0]
    code = "unknown_parameter" if first["type"] == "extra_forbidden" else None
    return ApiError(400, f"{'.'.join(place)}: {first['msg']}", param=name, code=code)
