"""The service's HTTP side: who asks, for what, within which bounds.

| request | answer |
|---|---|
| `POST /v1/batches` | the batch, 201 if new, 200 if known; 409 if another has its name, 429 if too many wait |
| `GET /v1/batches` | all of them, short |
| `GET /v1/batches/ID?wait=SECONDS` | how it stands; waits (a minute at most) for it to be over |
| `GET /v1/batches/ID/rows?after=CURSOR&most=N` | `{"next": CURSOR or null, "rows": [...]}`; 409 until it is done |
| `POST /v1/batches/ID/cancel` | ends it; its run stays in the store |
| `DELETE /v1/batches/ID` | forgets a batch that is over, and its rows |

Covered: nothing is answered and no body read without the token; bodies are bounded in size, time and depth, requests in
number; a request names no path, URL or module of its own choice (see `config`).
Not covered: TLS and other machines. It listens on loopback; put a proxy of yours before it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec

from assay.errors import AssayError, UserError
from assay.gateway.http.messages import BodyBuffer, RequestHead, Response
from assay.gateway.http.server import ResponseWriter
from assay.tasks.sources import task_count

from .config import BatchRequest, RolloutServiceConfig, run_config
from .ledger import Batch, Ledger
from .rows import page_of
from .worker import Worker

__all__ = ["RolloutApp"]

MOST_BODY = 1 << 20
MOST_AT_ONCE = 64
"""Requests that are being read or answered at once."""
MOST_WAIT_S = 60
_BATCH = re.compile(r"/v1/batches/([A-Za-z0-9][A-Za-z0-9_-]{0,63})(?:/(rows|cancel))?", re.ASCII)
_DECODER = msgspec.json.Decoder(BatchRequest)


class _Route(NamedTuple):
    """What is asked for."""

    answer: Callable[[bytes], Awaitable[Response]]
    has_body: bool = False


class RolloutApp:
    """See the module."""

    def __init__(self, config: RolloutServiceConfig, ledger: Ledger, worker: Worker, token: str) -> None:
        self._config, self._ledger, self._worker = config, ledger, worker
        self._token = hashlib.blake2b(token.encode()).digest()
        self.under_way = 0

    def accept(self, head: RequestHead) -> _Call | Response:
        given = head.headers.get("authorization", "")
        digest = hashlib.blake2b(given.removeprefix("Bearer ").strip().encode()).digest()
        if not given.startswith("Bearer ") or not hmac.compare_digest(digest, self._token):
            return _refusal(
                401, "this service wants its token: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"}
            )
        if self.under_way >= MOST_AT_ONCE:
            return _refusal(429, "too many requests at once; come back", {"Retry-After": "1"})
        try:
            found = self._route(head)
        except ValueError as exc:
            return _refusal(400, f"the address is none: {exc}")
        if isinstance(found, Response):
            return found
        length = head.headers.get("content-length", "0")
        if not length.isascii() or not length.isdecimal() or len(length) > 12 or int(length) > MOST_BODY:
            return _refusal(413, f"a body of {length[:20]} bytes; at most {MOST_BODY}")
        return _Call(self, found)

    def _route(self, head: RequestHead) -> _Route | Response:
        parts = urlsplit(head.target)
        query = dict(parse_qsl(parts.query, max_num_fields=10))
        if parts.path == "/v1/batches":
            known = {"GET": _Route(lambda _: self._all()), "POST": _Route(self._submit, has_body=True)}
            return known.get(head.method) or _refusal(405, "GET lists, POST asks for a batch", {"Allow": "GET, POST"})
        found = _BATCH.fullmatch(parts.path)
        if found is None:
            return _refusal(404, f"nothing is at {parts.path[:100]}; batches are at /v1/batches")
        batch = self._ledger.find(found[1])
        if batch is None:
            return _refusal(404, f"there is no batch {found[1]!r}")
        routes = {
            ("GET", None): _Route(lambda _: self._status(batch, query)),
            ("GET", "rows"): _Route(lambda _: self._rows(batch, query)),
            ("POST", "cancel"): _Route(lambda _: self._cancel(batch)),
            ("DELETE", None): _Route(lambda _: self._forget(batch)),
        }
        return routes.get((head.method, found[2])) or _refusal(405, f"{head.method[:20]} is nothing here")

    async def _submit(self, body: bytes) -> Response:
        try:
            asked = _DECODER.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            return _refusal(400, f"the body is no request for a batch: {exc}")
        if self._ledger.find(asked.id) is None:
            waiting = sum(not one.over for one in self._ledger.all())
            if waiting >= self._config.waiting:
                return _refusal(429, f"{waiting} batches wait already; come back", {"Retry-After": "10"})
            if len(self._ledger.all()) >= self._config.kept:
                return _refusal(507, f"{self._config.kept} batches are remembered: DELETE some that are over")
        try:
            wanted = run_config(self._config, asked, f"batch-{asked.id}")
            self._require_bounded(asked, wanted.tasks)
        except UserError as exc:
            return _refusal(400, str(exc))
        try:
            batch, new = self._ledger.add(asked)
        except UserError as exc:
            return _refusal(409, str(exc))
        self._worker.wake()
        return _json(201 if new else 200, self._told(batch))

    def _require_bounded(self, asked: BatchRequest, sources: Sequence[str]) -> None:
        """Raises `UserError` where it comes to too many attempts."""
        tasks = sum(task_count(source) for source in sources)
        attempts = asked.budget if asked.budget is not None else tasks * asked.attempts
        most = max(tasks, attempts)
        if most > self._config.attempts:
            raise UserError(f"{most} attempts are asked for; at most {self._config.attempts} in one batch")

    async def _all(self) -> Response:
        shown = [{"id": one.request.id, "state": one.state, "run": one.run} for one in self._ledger.all()]
        return _json(200, {"batches": shown})

    async def _status(self, batch: Batch, query: dict[str, str]) -> Response:
        wait_s = _query_number(query, "wait", 0, MOST_WAIT_S)
        if wait_s is None:
            return _refusal(400, f"wait is seconds, from 0 to {MOST_WAIT_S}")
        if wait_s:
            await self._worker.moved(batch.request.id, wait_s)
        now = self._ledger.find(batch.request.id)
        return _json(200, self._told(now)) if now is not None else _refusal(404, "the batch was forgotten meanwhile")

    async def _rows(self, batch: Batch, query: dict[str, str]) -> Response:
        if batch.state != "done":
            return _refusal(409, f"batch {batch.request.id!r} is {batch.state}: it has no rows (yet)")
        after, most = _query_number(query, "after", 0, 2**62), _query_number(query, "most", 100, 1000)
        if after is None or most is None or most < 1:
            return _refusal(400, "after is a cursor that `next` gave, most a number from 1 to 1000")
        try:
            return Response(200, page_of(self._ledger.rows_path(batch), after, most).body, {})
        except UserError as exc:
            return _refusal(400, str(exc))

    async def _cancel(self, batch: Batch) -> Response:
        return _json(200, self._told(await self._worker.cancel(batch)))

    async def _forget(self, batch: Batch) -> Response:
        if not batch.over or self._worker.is_running(batch):
            return _refusal(409, f"batch {batch.request.id!r} is {batch.state}: cancel it first")
        self._ledger.forget(batch)
        return Response(204, b"", {})

    def _told(self, batch: Batch) -> dict[str, Any]:
        """How a batch stands."""
        shown: dict[str, Any] = {"id": batch.request.id, "state": batch.state, "run": batch.run}
        if self._worker.is_running(batch):
            tally = self._worker.tally
            shown |= {"attempts": tally.total, "ended": tally.done, "outcomes": tally.outcomes}
        if batch.error is not None:
            shown["error"] = batch.error
        if batch.state == "done":
            shown |= {"rows": batch.rows, "left_out": batch.left_out, "versions": batch.versions}
            shown["warnings"] = batch.warnings
        return shown


class _Call:
    """One request under way."""

    def __init__(self, app: RolloutApp, route: _Route) -> None:
        self._app, self._route = app, route
        self._body = BodyBuffer()
        self._held = True
        app.under_way += 1

    def feed(self, data: bytes) -> Response | None:
        if not self._route.has_body:
            return _refusal(400, "no body is wanted here")
        if len(self._body) + len(data) > MOST_BODY:
            return _refusal(413, f"a body of more than {MOST_BODY} bytes")
        self._body.add(data)
        return None

    def timed_out(self) -> Response:
        return _refusal(408, "the body did not arrive in time")

    async def answer(self, reply: ResponseWriter) -> None:
        try:
            reply.send(await self._route.answer(self._body.drain()))
        except AssayError as exc:
            reply.send(_refusal(500, str(exc)[:500]))

    def release(self) -> None:
        if self._held:
            self._held = False
            self._app.under_way -= 1


def _query_number(query: dict[str, str], name: str, default: int, most: int) -> int | None:
    text = query.get(name, str(default))
    if not text.isascii() or not text.isdecimal() or len(text) > 19:
        return None
    return int(text) if int(text) <= most else None


def _json(status: int, data: Any) -> Response:
    return Response(status, msgspec.json.encode(data), {})


def _refusal(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return Response(status, msgspec.json.encode({"error": {"message": message}}), headers or {})
