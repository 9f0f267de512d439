"""MCP server for the tools of a world: the protocol, apart from its transports (`serving`).

Two eras of the protocol are served. Up to 2025-11-25 a client begins with `initialize`; from 2026-07-28 each request is
complete by itself: version and capabilities are in `params._meta`, HTTP repeats version, method and name in headers,
and a client asks `server/discover`. Nothing is remembered between messages in either, so that a client may come and go.

Covered: messages that are no JSON, no JSON-RPC 2.0 or too deep, batches (no version since 2025-06-18 has them), unknown
methods, versions and tools, parameters of the wrong type. Each is answered by an error and changes nothing. A refused
call is a result with `isError`, which the model reads.

Not covered: resources, prompts, sampling, elicitation, and messages from server to client.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from assay.environments.interface import ToolSpec

from .served_tools import ServedTools

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSION: Final = "2026-07-28"
PAGE_SIZE: Final = 1_000
"""Tools in one answer of `tools/list`."""
VERSION: Final = "1.0"
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_VERSION: Final = -32022
_STATUS: Final = {METHOD_NOT_FOUND: 404}
"""HTTP statuses of errors in the stateless era; 400 for others."""
_META: Final = "io.modelcontextprotocol/"
_CAPABILITIES: Final[dict[str, Any]] = {"tools": {"listChanged": False}}
_CACHING: Final = {"ttlMs": 0, "cacheScope": "private"}
_ENCODED: Final = ("=?base64?", "?=")


class McpReply(NamedTuple):
    """Answer to a message."""

    body: bytes
    """A JSON-RPC response; empty for a notification."""
    status: int = 200
    """Status over HTTP."""


class McpError(Exception):
    """A message that cannot be served."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class McpServer:
    """Answers messages of any number of clients."""

    def __init__(self, tools: ServedTools) -> None:
        self._tools = tools
        encoded = [msgspec.Raw(msgspec.json.encode(_encode_tool(spec, tools))) for spec in tools.specs]
        self._pages = [encoded[at : at + PAGE_SIZE] for at in range(0, len(encoded), PAGE_SIZE)] or [[]]
        self._info = {"name": tools.name, "version": VERSION}
        self._result_meta = {f"{_META}serverInfo": self._info}

    async def handle(self, data: bytes, headers: Mapping[str, str] | None = None) -> McpReply:
        """Answers one message.

        Args:
            data: The message, or the body of the HTTP request.
            headers: Headers of the HTTP request, lower case; None for other transports.
        """
        try:
            message = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
            return _encode_error(None, McpError(PARSE_ERROR, f"The message is not JSON: {exc}"), 400)
        if not isinstance(message, dict):
            return _encode_error(None, McpError(INVALID_REQUEST, "A message is one JSON object; no batches"), 400)
        number = message.get("id")
        if not isinstance(number, str | int) or isinstance(number, bool):
            number = None
        stateless = _is_stateless(message, headers)
        try:
            method, params = _read_request(message, number)
            if method is None or "id" not in message:
                return McpReply(b"", 202)  # a response or a notification, which have no effect here
            if stateless:
                _check_envelope(method, params, headers)
            result = await self._result(method, params, stateless=stateless)
        except McpError as exc:
            status = _STATUS.get(exc.code, 400) if stateless or exc.code in _ALWAYS_REFUSED else 200
            return _encode_error(number, exc, status)
        return McpReply(msgspec.json.encode({"jsonrpc": "2.0", "id": number, "result": result}))

    async def _result(self, method: str, params: dict[str, Any], *, stateless: bool) -> dict[str, Any]:
        """Returns the result of a request. Raises `McpError`."""
        if method == "tools/call":
            result = await self._call_tool(params)
        elif method == "tools/list":
            result = self._list_tools(params)
        elif method == "ping":
            result = {}
        elif method == "initialize" and not stateless:
            return self._initialize(params)
        elif method == "server/discover":
            result = {"supportedVersions": [STATELESS_VERSION], **self._introduction()}
        else:
            raise McpError(METHOD_NOT_FOUND, f"Unknown method: {method[:200]}")
        if stateless:
            result = {"resultType": "complete", **result, "_meta": self._result_meta}
            if method in ("tools/list", "server/discover"):
                result |= _CACHING
        return result

    def _introduction(self) -> dict[str, Any]:
        instructions = {"instructions": self._tools.policy} if self._tools.policy else {}
        return {"capabilities": _CAPABILITIES, **instructions}

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        wanted = params.get("protocolVersion")
        version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        return {"protocolVersion": version, "serverInfo": self._info, **self._introduction()}

    def _list_tools(self, params: dict[str, Any]) -> dict[str, Any]:
        cursor = params.get("cursor")
        if cursor is None:
            at = 0
        elif isinstance(cursor, str) and cursor.isascii() and cursor.isdecimal() and len(cursor) < 10:
            at = int(cursor)
        else:
            raise McpError(INVALID_PARAMS, "Unknown cursor")
        if at >= len(self._pages):
            raise McpError(INVALID_PARAMS, "Unknown cursor")
        following = {"nextCursor": str(at + 1)} if at + 1 < len(self._pages) else {}
        return {"tools": self._pages[at], **following}

    async def _call_tool(self, params: dict[str, Any]) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise McpError(INVALID_PARAMS, "params.name must be the name of a tool")
        if not isinstance(arguments, dict | None):
            raise McpError(INVALID_PARAMS, "params.arguments must be an object")
        result = await self._tools.call(name, arguments or {})
        if result.code == "not_found" and name not in self._tools.names:
            raise McpError(INVALID_PARAMS, f"Unknown tool: {name[:200]}")
        return {"content": [{"type": "text", "text": result.text}], "isError": result.code is not None}


_ALWAYS_REFUSED: Final = frozenset({INVALID_REQUEST, HEADER_MISMATCH, UNSUPPORTED_VERSION})
"""Errors of the request itself, which have status 400 in both eras."""


def _encode_tool(spec: ToolSpec, tools: ServedTools) -> dict[str, Any]:
    # Some clients refuse every tool that is not marked as read-only unless they are told otherwise.
    hints = {"readOnlyHint": spec.name in tools.read_only, "openWorldHint": False}
    schema = {"type": "object", **spec.parameters}
    return {"name": spec.name, "description": spec.description, "inputSchema": schema, "annotations": hints}


def _is_stateless(message: dict[str, Any], headers: Mapping[str, str] | None) -> bool:
    """Returns whether a message is of the stateless era: by its envelope, its header, or a method that only it has."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    if isinstance(meta, dict) and f"{_META}protocolVersion" in meta:
        return True
    version = (headers or {}).get("mcp-protocol-version")
    return message.get("method") == "server/discover" or (version is not None and version not in HANDSHAKE_VERSIONS)


def _read_request(message: dict[str, Any], number: str | int | None) -> tuple[str | None, dict[str, Any]]:
    """Returns method and parameters of a message; the method of a response is None. Raises `McpError`."""
    if message.get("jsonrpc") != "2.0":
        raise McpError(INVALID_REQUEST, 'jsonrpc must be "2.0"')
    method, params = message.get("method"), message.get("params")
    if method is None and ("result" in message or "error" in message):
        return None, {}
    if not isinstance(method, str):
        raise McpError(INVALID_REQUEST, "method must be a string")
    if "id" in message and number is None:
        raise McpError(INVALID_REQUEST, "id must be a string or an integer")
    if not isinstance(params, dict | None):
        raise McpError(INVALID_PARAMS, "params must be an object")
    return method, params or {}


def _check_envelope(method: str, params: dict[str, Any], headers: Mapping[str, str] | None) -> None:
    """Checks what each request of the stateless era carries. Raises `McpError`."""
    meta = params.get("_meta")
    known = meta if isinstance(meta, dict) else {}
    missing = [key for key in ("protocolVersion", "clientCapabilities") if f"{_META}{key}" not in known]
    if missing:
        raise McpError(INVALID_PARAMS, f"params._meta has no {_META}{missing[0]}")
    version = known[f"{_META}protocolVersion"]
    if headers is not None:
        expected = {"mcp-protocol-version": version, "mcp-method": method}
        if method == "tools/call":
            expected["mcp-name"] = params.get("name")
        for name, value in expected.items():
            if value is not None and _decode_header(headers.get(name)) != value:
                raise McpError(HEADER_MISMATCH, f"The header {name} differs from the message")
    if version != STATELESS_VERSION:
        supported = [STATELESS_VERSION, *reversed(HANDSHAKE_VERSIONS)]
        data = {"supported": supported, "requested": str(version)[:100]}
        raise McpError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def _decode_header(value: str | None) -> str | None:
    """Returns a header's text, which is base64 if it is not plain ASCII; None for a broken one."""
    start, end = _ENCODED
    if value is None or not (value.startswith(start) and value.endswith(end)):
        return value
    try:
        return base64.b64decode(value[len(start) : -len(end)], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _encode_error(number: str | int | None, error: McpError, status: int) -> McpReply:
    described = {"code": error.code, "message": str(error)}
    if error.data is not None:
        described["data"] = error.data
    return McpReply(msgspec.json.encode({"jsonrpc": "2.0", "id": number, "error": described}), status)
