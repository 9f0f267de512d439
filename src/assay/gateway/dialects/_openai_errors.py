"""Error replies of both OpenAI APIs."""

from __future__ import annotations

from typing import Any

from assay.http.messages import Response

from ._deltas import encode
from .interface import ApiProblem

_STATUS = {
    "bad_request": (400, "invalid_request_error", None),
    "unauthorized": (401, "invalid_request_error", "invalid_api_key"),
    "not_found": (404, "invalid_request_error", "not_found"),
    "too_large": (413, "invalid_request_error", "request_too_large"),
    "context_length": (400, "invalid_request_error", "context_length_exceeded"),
    "rate_limited": (429, "rate_limit_error", "rate_limit_exceeded"),
    "spent": (429, "insufficient_quota", "insufficient_quota"),
    "upstream": (502, "server_error", "upstream_error"),
}


def error_body(problem: ApiProblem) -> dict[str, Any]:
    """Returns the error object."""
    _, kind, code = _STATUS[problem.kind]
    return {"message": problem.message, "type": kind, "param": problem.field, "code": code}


def error_code(problem: ApiProblem) -> str:
    """Returns the error code."""
    _, kind, code = _STATUS[problem.kind]
    return code or kind


def error_reply(problem: ApiProblem) -> Response:
    """Returns the error reply. OpenAI's SDKs obey `x-should-retry`; retrying cannot restore a spent budget."""
    headers: dict[str, str] = {}
    if problem.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, round(problem.retry_after_s)))
    if problem.kind == "spent":
        headers["x-should-retry"] = "false"
    return Response(_STATUS[problem.kind][0], encode({"error": error_body(problem)}), headers)
