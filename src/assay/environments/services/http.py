"""HTTP interface of the tools of a world, for programs and for the command `service`; its transport is in `serving`.

| request | response |
|---|---|
| `POST /actions/NAME` | the result as JSON; the body is a JSON object of arguments |
| `GET /openapi.json` | the actions as OpenAPI 3.1 |
| `GET /policy` | the rules as text |
| `GET /health` | `{"status": "ok"}` |

A refusal is `{"code", "message"}` with the status of its code. Results and messages are those of the tools.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import unquote

import msgspec

from assay.environments.schemas import split_definitions
from assay.http.messages import RequestHead, Response

from .served_tools import ServedTools, ToolResult
from .transaction import Code

STATUSES: Final[dict[Code, int]] = {
    "not_found": 404,
    "invalid": 422,
    "forbidden": 403,
    "conflict": 409,
    "unavailable": 503,
}
ACTIONS: Final = "/actions/"
_NOTE: Final = "Result of the action"


class HttpInterface:
    """Answers HTTP requests."""

    def __init__(self, tools: ServedTools) -> None:
        self._tools = tools
        self._pages = {
            "/openapi.json": Response(200, msgspec.json.encode(openapi(tools)), {}),
            "/policy": Response(200, tools.policy.encode(), {"Content-Type": "text/plain; charset=utf-8"}),
            "/health": Response(200, b'{"status":"ok"}', {}),
        }

    def route(self, head: RequestHead) -> str | Response:
        """Returns the name of the action whose arguments are the body, or the response to a request without a body."""
        path = head.target.partition("?")[0]
        if path.startswith(ACTIONS):
            name = unquote(path[len(ACTIONS) :])
            return name if head.method == "POST" else error(405, "invalid", "Call an action by POST", "POST")
        page = self._pages.get(path)
        if page is None:
            known = ", ".join([f"POST {ACTIONS}NAME", "POST /mcp", *(f"GET {path}" for path in self._pages)])
            return error(404, "not_found", f"Nothing is at {path[:100]}; there are: {known}")
        return page if head.method in ("GET", "HEAD") else error(405, "invalid", "Read this by GET", "GET")

    async def call(self, name: str, body: bytes) -> Response:
        """Runs an action."""
        try:
            arguments = msgspec.json.decode(body) if body.strip() else {}
        except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
            return error(400, "invalid", f"The body is not JSON: {exc}")
        if not isinstance(arguments, dict):
            return error(400, "invalid", "The body must be a JSON object of arguments")
        result = await self._tools.call(name, arguments)
        if result.code is not None:
            return error(STATUSES[result.code], result.code, result.text)
        return Response(200, self._encode(name, result), {})

    def _encode(self, name: str, result: ToolResult) -> bytes:
        return msgspec.json.encode(result.text) if self._tools.returns_text(name) else result.text.encode()


def error(status: int, code: Code, message: str, allow: str = "") -> Response:
    """Returns the response of a refusal; `allow` names the permitted method."""
    return Response(status, msgspec.json.encode({"code": code, "message": message}), {"Allow": allow} if allow else {})


def openapi(tools: ServedTools) -> dict[str, Any]:
    """Returns the actions as an OpenAPI 3.1 document."""
    refusals = {str(status): {"$ref": "#/components/responses/Refusal"} for status in sorted({400, *STATUSES.values()})}
    schemas: dict[str, Any] = {
        "Refusal": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {"code": {"type": "string", "enum": list(STATUSES)}, "message": {"type": "string"}},
        }
    }
    paths = {}
    for spec in tools.specs:
        arguments, definitions = split_definitions(spec.parameters, f"{spec.name}.")
        schemas |= definitions
        body = {"application/json": {"schema": {"type": "object", **arguments}}}
        operation = {
            "operationId": spec.name,
            "summary": spec.description.partition(". ")[0].rstrip("."),
            "description": spec.description,
            "tags": ["view" if spec.name in tools.read_only else "action"],
            "requestBody": {"required": bool(spec.parameters.get("required")), "content": body},
            "responses": {"200": {"description": _NOTE, "content": {"application/json": {}}}, **refusals},
        }
        paths[f"{ACTIONS}{spec.name}"] = {"post": operation}
    refusal = {
        "description": "The action was refused, and nothing has changed",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": tools.name, "version": "1.0", "description": tools.policy},
        "paths": paths,
        "components": {"responses": {"Refusal": refusal}, "schemas": schemas},
    }
