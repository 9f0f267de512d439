"""Messages and tasks of A2A 1.0 in its JSON-RPC binding, as far as one peer needs them. Pure.

A peer's message holds texts and calls: a data part `{"tool": NAME, "arguments": {...}}` is a call. All calls of a
message are one turn. A message of texts alone says that the peer is done.

Covered: fields of the wrong type, too many or too long parts, and ids of other tasks are refused by an error of the
protocol, and change nothing. Not covered: files (parts `raw` and `url`), push notifications, extensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from assay.environments.interface import ToolSpec
from assay.records import Observation, ToolCall, canonical_bytes, require_finite

VERSION: Final = "1.0"
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
TASK_NOT_FOUND: Final = -32001
TASK_NOT_CANCELABLE: Final = -32002
PUSH_NOT_SUPPORTED: Final = -32003
UNSUPPORTED_OPERATION: Final = -32004
CONTENT_TYPE_NOT_SUPPORTED: Final = -32005
NO_EXTENDED_CARD: Final = -32007
VERSION_NOT_SUPPORTED: Final = -32009
WORKING: Final = "TASK_STATE_WORKING"
INPUT_REQUIRED: Final = "TASK_STATE_INPUT_REQUIRED"
COMPLETED: Final = "TASK_STATE_COMPLETED"
CANCELED: Final = "TASK_STATE_CANCELED"
FAILED: Final = "TASK_STATE_FAILED"
TERMINAL: Final = frozenset({COMPLETED, CANCELED, FAILED, "TASK_STATE_REJECTED"})
MOST_CALLS: Final = 16
"""Calls of one message."""
MOST_TEXT: Final = 20_000
MOST_HISTORY: Final = 50
"""Messages that a task shows; the record has all."""
MOST_HISTORY_BYTES: Final = 1 << 20
"""Size of them together; a larger one is shown alone, until the next."""
Identifier = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class A2aError(Exception):
    """A request that cannot be served."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Part(msgspec.Struct, frozen=True, rename="camel"):
    """A part of a message; one of the fields is set."""

    text: str | None = None
    data: Any = None
    raw: str | None = None
    url: str | None = None


class PeerMessage(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A message of the peer."""

    message_id: Identifier
    role: str = ""
    parts: Annotated[tuple[Part, ...], msgspec.Meta(min_length=1, max_length=64)]
    task_id: str = ""
    context_id: str = ""


class SendParams(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Parameters of `SendMessage` and `SendStreamingMessage`."""

    message: PeerMessage


class TaskParams(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Parameters of the methods that name a task."""

    id: Identifier


class Request(NamedTuple):
    """A JSON-RPC request."""

    id: str | int | None
    method: str
    params: Any


class PeerTurn(NamedTuple):
    """Request of a message."""

    calls: tuple[ToolCall, ...]
    text: str


class PeerTask:
    """The one task that a peer works on: its ids, state and shown history."""

    def __init__(self, key: str, opening: Sequence[dict[str, Any]]) -> None:
        self.id, self.context = f"task-{key}", f"context-{key}"
        self.state = INPUT_REQUIRED
        self.opening = list(opening)
        self._answer: list[dict[str, Any]] = self.opening
        self._history: list[dict[str, Any]] = []
        self._sizes: list[int] = []
        self._answers = 0

    @property
    def is_over(self) -> bool:
        """Returns whether the state is terminal."""
        return self.state in TERMINAL

    def require_own(self, task: str, context: str) -> None:
        """Raises `A2aError` for the ids of another task or context; empty ones name none."""
        if task and task != self.id:
            raise A2aError(TASK_NOT_FOUND, "there is no such task here")
        if context and context != self.context:
            raise A2aError(INVALID_PARAMS, "contextId is not that of the task")

    def hear(self, message: PeerMessage) -> None:
        """Adds a message of the peer to the history."""
        parts = [{"text": one.text} if one.text is not None else {"data": one.data} for one in message.parts]
        self._remember({"messageId": message.message_id, "role": "ROLE_USER", "parts": parts})
        self.state = WORKING

    def answer(self, state: str, parts: Sequence[dict[str, Any]]) -> None:
        """Sets the state, and what the peer is told with it."""
        self.state, self._answer = state, list(parts)
        self._answers += 1
        self._remember(self._message())

    def _remember(self, message: dict[str, Any]) -> None:
        self._history.append({**message, "taskId": self.id, "contextId": self.context})
        self._sizes.append(len(msgspec.json.encode(message)))
        while len(self._sizes) > 1 and (len(self._sizes) > MOST_HISTORY or sum(self._sizes) > MOST_HISTORY_BYTES):
            del self._history[0], self._sizes[0]

    def _message(self) -> dict[str, Any]:
        return {"messageId": f"{self.id}-{self._answers}", "role": "ROLE_AGENT", "parts": self._answer}

    def status(self) -> dict[str, Any]:
        """Returns the state as the protocol has it."""
        ids = {"taskId": self.id, "contextId": self.context}
        return {"state": self.state, "message": {**self._message(), **ids}}

    def as_json(self) -> dict[str, Any]:
        """Returns the task as the protocol has it."""
        return {"id": self.id, "contextId": self.context, "status": self.status(), "history": self._history}

    def update(self) -> dict[str, Any]:
        """Returns the state as an event of a stream."""
        return {"statusUpdate": {"taskId": self.id, "contextId": self.context, "status": self.status()}}


def read_request(data: bytes) -> Request:
    """Reads a JSON-RPC request. Raises `A2aError`."""
    try:
        message = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as exc:
        raise A2aError(PARSE_ERROR, f"the body is not JSON: {exc}") from exc
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
        raise A2aError(INVALID_REQUEST, "the body is not one JSON-RPC 2.0 request")
    number = message.get("id")
    known = number if isinstance(number, str | int) and not isinstance(number, bool) else None
    return Request(known, message["method"], message.get("params") or {})


def read_turn(message: PeerMessage, turn: int) -> PeerTurn:
    """Returns the calls and the text of a message. Raises `A2aError`."""
    calls: list[ToolCall] = []
    for part in message.parts:
        if part.raw is not None or part.url is not None:
            raise A2aError(CONTENT_TYPE_NOT_SUPPORTED, "parts are texts and data; files are not taken")
        if part.text is not None:
            continue
        calls.append(_read_call(part.data, f"p{turn}.{len(calls)}"))
    text = "\n".join(part.text for part in message.parts if part.text is not None)
    if len(calls) > MOST_CALLS or len(text) > MOST_TEXT:
        raise A2aError(INVALID_PARAMS, f"a message has at most {MOST_CALLS} calls and {MOST_TEXT} characters of text")
    return PeerTurn(tuple(calls), text)


def _read_call(data: Any, identity: str) -> ToolCall:
    """Returns the call of a data part. Raises `A2aError`, also for arguments that a record cannot hold."""
    name = data.get("tool") if isinstance(data, dict) else None
    arguments = data.get("arguments", {}) if isinstance(data, dict) else None
    if not isinstance(name, str) or not 1 <= len(name) <= 200 or not isinstance(arguments, dict):
        raise A2aError(INVALID_PARAMS, 'a data part is a call: {"tool": NAME, "arguments": {...}}')
    try:
        require_finite(arguments, "the arguments")
        plain = _integers(arguments)
        return ToolCall(identity, name, canonical_bytes(plain).decode(), plain)
    except (ValueError, TypeError, OverflowError, RecursionError) as exc:
        raise A2aError(INVALID_PARAMS, f"the arguments of {name[:40]!r} cannot be recorded: {exc}") from exc


def _integers(value: Any) -> Any:
    """Returns JSON data with whole floats as integers: a peer's protobuf writes every number as a double."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {key: _integers(one) for key, one in value.items()}
    return [_integers(one) for one in value] if isinstance(value, list) else value


def opening_parts(instruction: str, specs: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Returns what a peer is told first: the task, and its tools."""
    tools = [{"name": one.name, "description": one.description, "parameters": one.parameters} for one in specs]
    return [{"text": instruction}, {"data": {"tools": tools}}]


def result_parts(calls: Sequence[ToolCall], seen: Sequence[Observation]) -> list[dict[str, Any]]:
    """Returns the results of a turn, one data part a call."""
    return [
        {"data": {"tool": call.name, "result": one.content[:MOST_TEXT], "error": one.error}}
        for call, one in zip(calls, seen, strict=True)
    ]


def agent_card(name: str, url: str) -> dict[str, Any]:
    """Returns the card at `/.well-known/agent-card.json`."""
    modes = ["text/plain", "application/json"]
    return {
        "name": name,
        "description": "A seat in an attempt: the first message returns the task and its tools, later ones make calls.",
        "version": VERSION,
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": VERSION}],
        "capabilities": {"streaming": True, "pushNotifications": False},
        "defaultInputModes": modes,
        "defaultOutputModes": modes,
        "skills": [
            {"id": "act", "name": "act", "description": "Acts in the environment of the attempt.", "tags": ["attempt"]}
        ],
        "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
    }
