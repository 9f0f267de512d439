"""The HTTP side: finds the session and the dialect of a request, reads it within bounds, and writes the answer.

A session's address is `http://HOST:PORT/s/ID`, below which each dialect's own paths lie; its key comes where that
dialect's clients put it (a bearer token, `x-api-key`, `x-goog-api-key`, or `?key=`). Phases of a call: `Gateway.admit`
by its head, its body, the dialect's `parse`, then `_answer_whole` or `_answer_stream`.

Covered: a request without the session's key reaches nothing, is not read and is not recorded; header sections and
bodies are bounded in size and time, JSON in depth and number of values, all requests at once in memory, connections
and calls in number; compressed bodies are refused. Upstream credentials live in the backends and
never in a request, an answer, or an error that a client sees.
Not covered: denial of service by a client with a valid key against its own attempt.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import NamedTuple

import msgspec

from assay.errors import AssayError
from assay.garbage import looked_for_seldom

from .dialects import DIALECTS, BadRequest, Dialect, Parsed, Problem, Target, deltas_of
from .http.messages import Head, Written
from .http.server import Bounds, HttpServer, Reply
from .interface import CallHooks
from .model import Model, unheard
from .outgoing import Outgoing
from .reading import Body, Budget, address, check_head
from .session import Refused, Session

__all__ = ["Address", "Gateway", "GatewayOptions"]

_log = logging.getLogger(__name__)
_YOUNG = 10_000
"""New objects after which those in no use are looked for. Calls under way hold thousands, and none in a cycle: looking
after 700 (Python 3.11) took a tenth of the CPU of 64 sessions, and a fifth of that of 512."""


class GatewayOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds and patience of the server."""

    max_body_bytes: int = 32 * 1024 * 1024
    """A longer request is refused with the dialect's 413."""
    max_body_values: int = 1_000_000
    """A request with more JSON values (counted as commas and brackets) is refused with the dialect's 413."""
    max_bytes_at_once: int = 512 * 1024 * 1024
    """What the requests under way may take together, a JSON value counted as 100 bytes; over it clients are told to
    come back."""
    max_connections: int = 4096
    """Connections at once; never more than three quarters of the files that the process may open."""
    header_s: float = 20.0
    """Seconds in which a request's header section must have arrived."""
    body_s: float = 60.0
    """Seconds in which a request's body must have arrived."""
    keep_alive_s: float = 10.0
    """Seconds of silence after which a streaming client is told that the model is at work."""


class Address(NamedTuple):
    """Where a client reaches its session."""

    url: str
    """Without `/v1`: what `ANTHROPIC_BASE_URL` and `GOOGLE_GEMINI_BASE_URL` take; OpenAI clients want `url + "/v1"`."""
    key: str


class Gateway:
    """The server. `async with Gateway() as gateway:`; then `open` sessions and `listen` anywhere."""

    def __init__(self, options: GatewayOptions | None = None, dialects: tuple[Dialect, ...] = DIALECTS) -> None:
        self._options = options or GatewayOptions()
        self._dialects = dialects
        self._sessions: dict[str, Session] = {}
        self._budget = Budget(self._options.max_bytes_at_once)
        self._gate = asyncio.Event()
        self._gate.set()
        self._server: HttpServer | None = None
        self._until_closed = AsyncExitStack()

    async def __aenter__(self) -> Gateway:
        options = self._options
        bounds = Bounds(options.header_s, options.body_s, options.max_connections)
        self._server = await self._until_closed.enter_async_context(HttpServer(self, bounds))
        self._until_closed.enter_context(looked_for_seldom(_YOUNG))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server = None
        await asyncio.shield(self._until_closed.aclose())

    async def listen(self, listener: socket.socket) -> Callable[[], None]:
        """Serves on a listening socket, which it takes over; call what it returns to end that."""
        server = self._server
        if server is None:
            raise RuntimeError("the gateway is not running: use it as an async context manager")
        site = await server.listen(listener)
        return lambda: server.stop(site)

    def open(self, model: Model, hooks: CallHooks) -> Session:
        """A new session with a fresh id and key."""
        session = Session(model, hooks, self._gate)
        self._sessions[session.id] = session
        return session

    def close(self, session: Session) -> None:
        """Ends a session: its key opens nothing any more. Calls under way are finished and recorded."""
        session.open = False
        self._sessions.pop(session.id, None)

    def pause(self) -> None:
        """Holds every new call until `resume`; streaming clients are kept alive meanwhile."""
        self._gate.clear()

    def resume(self) -> None:
        """Lets calls go on."""
        self._gate.set()

    def admit(self, head: Head) -> _Call | Written:
        dialect = self._dialects[-1]
        try:
            addressed = address(head)
            target, owner = addressed.target, self._owner(addressed.target)
            dialect = owner or dialect
            session = self._identify(addressed.session, addressed.key)
            probed = _probed(owner, target, session.model.name)
            if probed is not None:
                return probed
            check_head(head, self._options.max_body_bytes)
        except BadRequest as exc:
            return dialect.error(Problem("bad_request", str(exc), exc.field))
        except Refused as exc:
            return dialect.error(exc.problem)
        body = Body(self._budget, self._options.max_body_bytes, self._options.max_body_values)
        return _Call(self._options, session, dialect, target, body)

    def _owner(self, target: Target) -> Dialect | None:
        for dialect in self._dialects:
            if dialect.owns(target):
                return dialect
        return None

    def _identify(self, session_id: str | None, key: str | None) -> Session:
        session = self._sessions.get(session_id or "")
        if session is None:
            raise Refused(Problem("not_found", "no such session"))
        if not session.admits(key):
            raise Refused(Problem("unauthorized", "the key is not this session's"))
        return session


class _Call:
    """One call from its head to the last byte of its answer. See `http.server.Call`."""

    def __init__(self, options: GatewayOptions, session: Session, dialect: Dialect, target: Target, body: Body) -> None:
        self._options = options
        self._session = session
        self._dialect = dialect
        self._target = target
        self._body = body
        self._reply_id = os.urandom(12).hex()

    def take(self, data: bytes) -> Written | None:
        try:
            self._body.take(data)
        except Refused as exc:
            return self._dialect.error(exc.problem)
        return None

    def late(self) -> Written:
        message = f"the body did not arrive within {self._options.body_s:g} s"
        return self._dialect.error(Problem("bad_request", message))

    def release(self) -> None:
        self._body.release()

    async def answer(self, reply: Reply) -> None:
        try:
            read, raw = self._body.decoded()
            parsed = self._dialect.parse(self._target, read)
            lineage = self._dialect.lineage(self._target, read)
            del read  # what is needed of it was taken, and the model may answer for minutes
            ask = self._answer_stream if parsed.stream else self._answer_whole
            await ask(reply, parsed, raw, lineage)
        except BadRequest as exc:
            reply.whole(self._dialect.error(Problem("bad_request", str(exc), exc.field)))
        except Refused as exc:
            reply.whole(self._dialect.error(exc.problem))
        except AssayError as exc:
            reply.whole(self._dialect.error(_own_failure(exc)))
        except RecursionError:
            reply.whole(self._dialect.error(Problem("bad_request", "the body is nested too deeply")))

    async def _answer_whole(self, reply: Reply, parsed: Parsed, raw: bytes, lineage: Mapping[str, str]) -> None:
        begun = await self._session.begin(parsed, raw, lineage)
        answered = await self._session.ask(begun, unheard)
        body = self._dialect.reply(parsed, answered.reply, self._reply_id, begun.started)
        await self._session.finish(begun, answered, body, delivered=reply.connected)
        reply.whole(Written(200, body, {}))

    async def _answer_stream(self, reply: Reply, parsed: Parsed, raw: bytes, lineage: Mapping[str, str]) -> None:
        """Nothing is sent before there is something to say, so that an early failure still has its own status."""
        writer = self._dialect.stream(parsed, self._reply_id, time.time())
        out = Outgoing(reply, parsed.content_type, writer)
        with out.kept_alive(self._options.keep_alive_s):
            try:
                begun = await self._session.begin(parsed, raw, lineage)
                answered = await self._session.ask(begun, out.deltas)
                if not out.said:
                    await out.deltas(deltas_of(answered.reply))
                out.open()
                last = writer.end(answered.reply)
                await self._session.finish(begun, answered, out.whole(last), delivered=reply.connected)
            except AssayError as exc:
                if not out.opened:
                    raise
                last = writer.error(exc.problem if isinstance(exc, Refused) else _own_failure(exc))
        reply.end(last)


def _own_failure(exc: AssayError) -> Problem:
    """What a client is told where it was not its fault, nor the model's."""
    _log.error("a call could not be made or recorded", exc_info=exc)
    return Problem("upstream", f"the gateway failed: {type(exc).__name__}")


def _probed(dialect: Dialect | None, target: Target, model: str) -> Written | None:
    """The answer to what is no model call."""
    if dialect is None:
        raise Refused(Problem("not_found", f"nothing is at {target.path[:200]}"))
    return dialect.answer(target, model)
