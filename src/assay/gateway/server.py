"""The gateway's HTTP interface: finds a request's session and dialect, parses it within bounds, and responds.

A session's URL is `http://HOST:PORT/s/ID`, followed by a dialect's own paths; its key is where that dialect's clients
put it (a bearer token, `x-api-key`, `x-goog-api-key`, or `?key=`). Phases of a call: `Gateway.accept` by its head, its
body, the dialect's `parse`, then `_answer_whole` or `_answer_stream`.

Covered: a request without the session's key is not read and not recorded; header sections and bodies are bounded in
size and time, JSON in depth and number of values, all requests together and what a session's calls leave in memory,
connections and calls in number; compressed bodies are rejected. Upstream credentials stay in the backends and are in no
request, response, or error that a client gets.

Not covered: denial of service by a client with a valid key against its own attempt.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

import msgspec

from assay.errors import AssayError
from assay.gc_tuning import raised_thresholds
from assay.http.messages import RequestHead, Response, error_response
from assay.http.metrics import MetricsRegistry
from assay.http.response_writer import ResponseWriter
from assay.http.server import HttpServer, ServerLimits

from .dialects import DIALECTS, ApiProblem, BadRequest, Dialect, ParsedRequest, RequestTarget, split_reply
from .interface import CallHooks
from .metrics import GatewayLoad
from .model import Model, discard_deltas
from .request_reader import MemoryBudget, RequestBody, check_head, parse_address
from .session import CallRefused, GatewaySession
from .streaming_response import StreamingResponse

_log = logging.getLogger(__name__)
_GC_THRESHOLD = 10_000
"""Garbage-collector threshold: running calls hold thousands of acyclic objects. With the default of 700 (Python 3.11)
collection took 10% of the CPU of 64 sessions, and 20% of that of 512."""


class GatewayOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits and timeouts of the server."""

    max_body_bytes: int = 32 * 1024 * 1024
    """Maximum request size in bytes; larger ones get the dialect's 413."""
    max_body_values: int = 1_000_000
    """Maximum JSON values of a request (counted as commas and brackets); more get the dialect's 413."""
    max_bytes_at_once: int = 512 * 1024 * 1024
    """Maximum memory of all running requests, at 100 bytes per JSON value; beyond it clients get 429."""
    max_session_bytes: int = 1024 * 1024 * 1024
    """Maximum memory of what the ended calls of a session brought, at 100 bytes per JSON value; what several calls
    share counts once. Beyond it clients get the dialect's answer to a spent budget."""
    max_connections: int = 4096
    """Maximum connections, and at most three quarters of the process's file limit."""
    header_s: float = 20.0
    """Timeout in seconds of a request's header section."""
    body_s: float = 60.0
    """Timeout in seconds of a request's body."""
    keep_alive_s: float = 10.0
    """Seconds without data after which a streaming client gets a keep-alive event."""


class Gateway:
    """The server. `async with Gateway() as gateway:`; then `open` sessions and `listen` anywhere."""

    def __init__(
        self,
        options: GatewayOptions | None = None,
        dialects: tuple[Dialect, ...] = DIALECTS,
        *,
        metrics: MetricsRegistry | None = None,
    ) -> None:
        """Creates a gateway. It serves `metrics` at `/metrics` to the holder of any session's key; None serves none, so
        that an agent learns nothing of others."""
        self.options = options or GatewayOptions()
        self._metrics = metrics
        self.rejections: Counter[str] = Counter()
        """Rejected and failed requests, by the kind of their problem."""
        self._dialects = dialects
        self._sessions: dict[str, GatewaySession] = {}
        self._budget = MemoryBudget(self.options.max_bytes_at_once)
        self._server: HttpServer | None = None
        self._until_closed = AsyncExitStack()

    async def __aenter__(self) -> Gateway:
        options = self.options
        bounds = ServerLimits(options.header_s, options.body_s, options.max_connections)
        self._server = await self._until_closed.enter_async_context(HttpServer(self, bounds))
        self._until_closed.enter_context(raised_thresholds(_GC_THRESHOLD))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server = None
        await asyncio.shield(self._until_closed.aclose())

    async def listen(self, listener: socket.socket) -> Callable[[], None]:
        """Serves on a listening socket and owns it; returns a function that stops it."""
        server = self._server
        if server is None:
            raise RuntimeError("the gateway is not running: use it as an async context manager")
        site = await server.listen(listener)
        return lambda: server.stop(site)

    def open(self, model: Model, hooks: CallHooks) -> GatewaySession:
        """Opens a session with a fresh id and key."""
        session = GatewaySession(model, hooks, self.options.max_session_bytes)
        self._sessions[session.id] = session
        return session

    def close(self, session: GatewaySession) -> None:
        """Closes a session and its key. Running calls are finished and recorded."""
        session.open = False
        self._sessions.pop(session.id, None)

    def load(self) -> GatewayLoad:
        """Returns what the gateway does now."""
        calls = sum(session.busy for session in self._sessions.values())
        return GatewayLoad(len(self._sessions), calls, self._budget.reserved, self.rejections)

    def accept(self, head: RequestHead) -> _Call | Response:
        dialect = self._dialects[-1]
        if self._metrics is not None and head.target == "/metrics":
            return self._answer_scrape(self._metrics, head)
        try:
            addressed = parse_address(head)
            target, owner = addressed.target, self._find_dialect(addressed.target)
            dialect = owner or dialect
            session = self._identify(addressed.session, addressed.key)
            answer = _answer_probe(owner, target, session.model.name)
            if answer is not None:
                return answer
            check_head(head, self.options.max_body_bytes)
        except BadRequest as exc:
            return self.reject(dialect, ApiProblem("bad_request", str(exc), exc.field))
        except CallRefused as exc:
            return self.reject(dialect, exc.problem)
        body = RequestBody(self._budget, self.options.max_body_bytes, self.options.max_body_values)
        return _Call(self, session, dialect, target, body)

    def reject(self, dialect: Dialect, problem: ApiProblem) -> Response:
        """Counts a problem, and returns the dialect's response to it."""
        self.rejections[problem.kind] += 1
        return dialect.error(problem)

    def _answer_scrape(self, metrics: MetricsRegistry, head: RequestHead) -> Response:
        scheme, _, key = head.headers.get("authorization", "").partition(" ")
        accepted = [session.accepts_key(key.strip()) for session in self._sessions.values()]
        if scheme != "Bearer" or not any(accepted):
            message = "metrics want the key of a session: Authorization: Bearer KEY"
            return error_response(401, message, {"WWW-Authenticate": "Bearer"})
        return metrics.response() if head.method in ("GET", "HEAD") else error_response(405, "use GET")

    def _find_dialect(self, target: RequestTarget) -> Dialect | None:
        for dialect in self._dialects:
            if dialect.owns(target):
                return dialect
        return None

    def _identify(self, session_id: str | None, key: str | None) -> GatewaySession:
        session = self._sessions.get(session_id or "")
        if session is None:
            raise CallRefused(ApiProblem("not_found", "no such session"))
        if not session.accepts_key(key):
            raise CallRefused(ApiProblem("unauthorized", "the key is not this session's"))
        return session


class _Call:
    def __init__(
        self,
        gateway: Gateway,
        session: GatewaySession,
        dialect: Dialect,
        target: RequestTarget,
        body: RequestBody,
    ) -> None:
        self._gateway, self._options = gateway, gateway.options
        self._session = session
        self._dialect = dialect
        self._target = target
        self._body = body
        self._reply_id = os.urandom(12).hex()

    def _reject(self, problem: ApiProblem) -> Response:
        return self._gateway.reject(self._dialect, problem)

    def feed(self, data: bytes) -> Response | None:
        try:
            self._body.feed(data)
        except CallRefused as exc:
            return self._reject(exc.problem)
        return None

    def timed_out(self) -> Response:
        message = f"the body did not arrive within {self._options.body_s:g} s"
        return self._reject(ApiProblem("bad_request", message))

    def release(self) -> None:
        self._body.release()

    async def answer(self, reply: ResponseWriter) -> None:
        try:
            body, raw = self._body.decode()
            parsed = self._dialect.parse(self._target, body)
            lineage = self._dialect.lineage(self._target, body)
            del body  # what is needed of it was taken, and the model may answer for minutes
            ask = self._answer_stream if parsed.stream else self._answer_whole
            await ask(reply, parsed, raw, lineage)
        except BadRequest as exc:
            reply.send(self._reject(ApiProblem("bad_request", str(exc), exc.field)))
        except CallRefused as exc:
            reply.send(self._reject(exc.problem))
        except AssayError as exc:
            reply.send(self._reject(_internal_problem(exc)))
        except RecursionError:
            reply.send(self._reject(ApiProblem("bad_request", "the body is nested too deeply")))

    async def _answer_whole(
        self, reply: ResponseWriter, parsed: ParsedRequest, raw: bytes, lineage: Mapping[str, str]
    ) -> None:
        call = await self._session.begin(parsed, raw, lineage)
        try:
            answered = await self._session.ask(call, discard_deltas)
            body = self._dialect.reply(parsed, answered.reply, self._reply_id, call.started)
            await self._session.finish(call, answered, body, delivered=reply.connected)
        except BaseException as exc:
            await self._session.fail_unended(call, exc)
            raise
        reply.send(Response(200, body, {}))

    async def _answer_stream(
        self, reply: ResponseWriter, parsed: ParsedRequest, raw: bytes, lineage: Mapping[str, str]
    ) -> None:
        """Sends nothing before the first delta, so that an early failure still has its own status."""
        writer = self._dialect.stream(parsed, self._reply_id, time.time())
        out = StreamingResponse(reply, parsed.content_type, writer)
        with out.keep_alive(self._options.keep_alive_s):
            try:
                call = await self._session.begin(parsed, raw, lineage)
                try:
                    answered = await self._session.ask(call, out.write_deltas)
                    if not out.wrote_delta:
                        await out.write_deltas(split_reply(answered.reply))
                    out.open()
                    last = writer.end(answered.reply)
                    await self._session.finish(call, answered, out.transcript(last), delivered=reply.connected)
                except BaseException as exc:
                    await self._session.fail_unended(call, exc)
                    raise
            except AssayError as exc:
                if not out.is_open:
                    raise
                problem = exc.problem if isinstance(exc, CallRefused) else _internal_problem(exc)
                self._gateway.rejections[problem.kind] += 1
                last = writer.error(problem)
        reply.end(last)


def _internal_problem(exc: AssayError) -> ApiProblem:
    _log.error("a call could not be made or recorded", exc_info=exc)
    return ApiProblem("upstream", f"the gateway failed: {type(exc).__name__}")


def _answer_probe(dialect: Dialect | None, target: RequestTarget, model: str) -> Response | None:
    if dialect is None:
        raise CallRefused(ApiProblem("not_found", f"no resource at {target.path[:200]}"))
    return dialect.answer(target, model)
