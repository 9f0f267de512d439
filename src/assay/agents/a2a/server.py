"""Serves one seat to one peer over A2A: HTTP on 127.0.0.1, JSON-RPC, and streams of server-sent events.

Requests are answered beside the agent; what acts is put into a queue that the agent empties in its own turns.

Covered: without the seat's token nothing but the card is answered; bodies are bounded in size and time, connections,
streams and waiting messages in number; a stream ends with the attempt. A message that was sent twice acts once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from assay.http.bearer import BearerToken
from assay.http.body_reader import BodyReader, read_body
from assay.http.messages import RequestHead, Response, error_response
from assay.http.response_writer import ResponseWriter
from assay.http.server import ServerLimits

from .protocol import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    NO_EXTENDED_CARD,
    PUSH_NOT_SUPPORTED,
    TASK_NOT_CANCELABLE,
    UNSUPPORTED_OPERATION,
    VERSION,
    VERSION_NOT_SUPPORTED,
    A2aError,
    PeerMessage,
    PeerTask,
    Request,
    SendParams,
    TaskParams,
    read_request,
    read_turn,
)

CARD_PATH: Final = "/.well-known/agent-card.json"
MOST_BODY: Final = 1 << 20
MOST_WAITING: Final = 8
"""Messages that wait for the agent."""
MOST_STREAMS: Final = 4
LIMITS: Final = ServerLimits(header_s=10.0, body_s=20.0, connections=16)
_STREAM_HEADERS: Final = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
T = TypeVar("T", bound=msgspec.Struct)


class Pending(NamedTuple):
    """A message that waits for the agent; None cancels the task."""

    message: PeerMessage | None
    done: asyncio.Future[None]


class SeatServer:
    """Implements `App` for one seat."""

    def __init__(self, task: PeerTask, card: dict[str, Any], token: str) -> None:
        self.task = task
        self.queue: asyncio.Queue[Pending] = asyncio.Queue(MOST_WAITING)
        self.counts: Counter[str] = Counter()
        """Answered requests by method, and refused ones by the reason."""
        self._card = msgspec.json.encode(card)
        self._token = BearerToken(token)
        self._heard: dict[str, asyncio.Future[None]] = {}
        self._changed = asyncio.Event()
        self._streams = 0

    def accept(self, head: RequestHead) -> BodyReader | Response:
        path = head.target.partition("?")[0]
        if path == CARD_PATH and head.method in ("GET", "HEAD"):
            return Response(200, self._card, {})
        refusal = self._token.refusal(head, "the seat")
        if refusal is not None:
            self.counts["refused: no token"] += 1
            return refusal
        if head.method != "POST" or path != "/":
            return error_response(404, f"requests are sent by POST to /; the card is at {CARD_PATH}")
        return read_body(head, lambda body, reply: self.answer(head, body, reply), MOST_BODY, self._refuse_body)

    def _refuse_body(self, status: int, message: str) -> Response:
        self.counts[f"refused: {'too large' if status == 413 else 'too slow'}"] += 1
        return error_response(status, message)

    def announce_change(self) -> None:
        """Wakes the streams."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def answer(self, head: RequestHead, body: bytes, reply: ResponseWriter) -> Response | None:
        """Answers one request; returns None for one whose answer was streamed."""
        number: str | int | None = None
        try:
            _require_version(head)
            request = read_request(body)
            number = request.id
            if request.method in ("SendStreamingMessage", "SubscribeToTask"):
                await self._stream(request, reply)
                return None
            result = await self._result(request)
        except A2aError as exc:
            self.counts[f"refused: {exc.code}"] += 1
            error = {"code": exc.code, "message": str(exc)}
            return Response(200, msgspec.json.encode({"jsonrpc": "2.0", "id": number, "error": error}), {})
        self.counts[request.method] += 1
        return Response(200, _encode(number, result), {})

    async def _result(self, request: Request) -> dict[str, Any]:
        match request.method:
            case "SendMessage":
                await self._send(_read(request, SendParams).message)
                return {"task": self.task.as_json()}
            case "GetTask":
                self.task.require_own(_read(request, TaskParams).id, "")
                return self.task.as_json()
            case "ListTasks":
                return {"tasks": [self.task.as_json()], "nextPageToken": "", "pageSize": 1, "totalSize": 1}
            case "CancelTask":
                self.task.require_own(_read(request, TaskParams).id, "")
                if self.task.is_over:
                    raise A2aError(TASK_NOT_CANCELABLE, "the task has ended")
                await self._wait(None)
                return self.task.as_json()
            case "GetExtendedAgentCard":
                raise A2aError(NO_EXTENDED_CARD, "there is no other card")
            case method if "PushNotificationConfig" in method:
                raise A2aError(PUSH_NOT_SUPPORTED, "there are no push notifications")
            case method:
                raise A2aError(METHOD_NOT_FOUND, f"unknown method {method[:100]!r}")

    async def _send(self, message: PeerMessage) -> None:
        """Hands a message to the agent and waits until it is dealt with. Raises `A2aError`."""
        self.task.require_own(message.task_id, message.context_id)
        read_turn(message, 0)
        earlier = self._heard.get(message.message_id)
        if earlier is not None:
            await asyncio.shield(earlier)
            return
        if self.task.is_over:
            raise A2aError(UNSUPPORTED_OPERATION, "the task has ended and takes no message")
        if not message.task_id and self._heard:
            raise A2aError(INVALID_PARAMS, "this seat has one task: name its taskId")
        await self._wait(message)

    async def _wait(self, message: PeerMessage | None) -> None:
        done = asyncio.get_running_loop().create_future()
        try:
            self.queue.put_nowait(Pending(message, done))
        except asyncio.QueueFull:
            raise A2aError(UNSUPPORTED_OPERATION, f"{MOST_WAITING} messages wait already") from None
        if message is not None:
            self._heard[message.message_id] = done
        await asyncio.shield(done)

    async def _stream(self, request: Request, reply: ResponseWriter) -> None:
        """Sends the task, then each change, until it needs an answer or has ended."""
        if self._streams >= MOST_STREAMS:
            raise A2aError(UNSUPPORTED_OPERATION, f"there are {MOST_STREAMS} streams already")
        sending: asyncio.Task[None] | None = None
        if request.method == "SubscribeToTask":
            self.task.require_own(_read(request, TaskParams).id, "")
            if self.task.is_over:
                raise A2aError(UNSUPPORTED_OPERATION, "the task has ended")
        else:
            sending = asyncio.create_task(self._send(_read(request, SendParams).message))
            await asyncio.sleep(0)
            if sending.done():
                sending.result()
        self.counts[request.method] += 1
        self._streams += 1
        try:
            reply.begin(_STREAM_HEADERS)
            reply.write(_event(request.id, {"task": self.task.as_json()}))
            changed, waiter = self._changed, asyncio.ensure_future(self._changed.wait())
            while reply.connected and not self.task.is_over and not (sending is not None and sending.done()):
                waits = {waiter, *([sending] if sending is not None else [])}
                await asyncio.wait(waits, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
                if changed.is_set():
                    changed, waiter = self._changed, asyncio.ensure_future(self._changed.wait())
                    reply.write(_event(request.id, self.task.update()))
                    await reply.drain()
            waiter.cancel()
            reply.end()
        finally:
            self._streams -= 1
            if sending is not None:
                await asyncio.wait({sending})


def _read(request: Request, kind: type[T]) -> T:
    try:
        return msgspec.convert(request.params, kind)
    except msgspec.ValidationError as exc:
        raise A2aError(INVALID_PARAMS, f"params: {exc}") from exc


def _require_version(head: RequestHead) -> None:
    if head.headers.get("a2a-version") != VERSION:
        raise A2aError(VERSION_NOT_SUPPORTED, f"this is version {VERSION}: send the header A2A-Version")


def _encode(number: str | int | None, result: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": number, "result": result})


def _event(number: str | int | None, result: dict[str, Any]) -> bytes:
    return b"data: " + _encode(number, result) + b"\n\n"
