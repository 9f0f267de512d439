"""HTTP interface of the rollout service.

| request | answer |
|---|---|
| `POST /v1/batches` | the batch, 201 if new, 200 if known; 409 if another has its name, 429 if too many wait |
| `GET /v1/batches` | all of them, short |
| `GET /v1/batches/ID?wait=SECONDS` | how it stands; waits (a minute at most) for it to be over |
| `GET /v1/batches/ID/rows?after=CURSOR&most=N` | `{"next": CURSOR or null, "rows": [...]}`; 409 until it is done |
| `POST /v1/batches/ID/cancel` | ends it; its run stays in the store |
| `DELETE /v1/batches/ID` | forgets a batch that is over, and its rows |

Covered: requests without the token get no data and their bodies are not read; bodies are bounded in size, time and
depth, requests in number; a request can name no path, URL or module of its own (see `config`). Not covered: TLS and
other machines. The service listens on loopback; use a proxy in front of it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec

from assay.errors import AssayError, UserError
from assay.http.bearer import BearerToken
from assay.http.messages import BodyBuffer, RequestHead, Response, error_response
from assay.http.server import ResponseWriter
from assay.tasks.sources import task_count

from .config import BatchRequest, run_config
from .ledger import Ledger, LedgerBatch
from .rows import read_page
from .service_config import RolloutServiceConfig
from .worker import BatchWorker

MAX_BODY_BYTES = 1 << 20
MAX_CONCURRENT_REQUESTS = 64
"""Maximum concurrent requests."""
MAX_WAIT_S = 60
_BATCH = re.compile(r"/v1/batches/([A-Za-z0-9][A-Za-z0-9_-]{0,63})(?:/(rows|cancel))?", re.ASCII)
_DECODER = msgspec.json.Decoder(BatchRequest)


class _Route(NamedTuple):
    answer: Callable[[bytes], Awaitable[Response]]
    has_body: bool = False


class RolloutApp:
    """The service's HTTP application."""

    def __init__(self, config: RolloutServiceConfig, ledger: Ledger, worker: BatchWorker, token: str) -> None:
        self._config, self._ledger, self._worker = config, ledger, worker
        self._token = BearerToken(token)
        self.active_requests = 0

    def accept(self, head: RequestHead) -> _Call | Response:
        refusal = self._token.refusal(head, "this service")
        if refusal is not None:
            return refusal
        if self.active_requests >= MAX_CONCURRENT_REQUESTS:
            return error_response(429, "too many concurrent requests; retry later", {"Retry-After": "1"})
        try:
            route = self._route(head)
        except ValueError as exc:
            return error_response(400, f"invalid request URL: {exc}")
        if isinstance(route, Response):
            return route
        length = head.headers.get("content-length", "0")
        if not length.isascii() or not length.isdecimal() or len(length) > 12 or int(length) > MAX_BODY_BYTES:
            return error_response(413, f"a body of {length[:20]} bytes; at most {MAX_BODY_BYTES}")
        return _Call(self, route)

    def _route(self, head: RequestHead) -> _Route | Response:
        parts = urlsplit(head.target)
        query = dict(parse_qsl(parts.query, max_num_fields=10))
        if parts.path == "/v1/batches":
            known = {"GET": _Route(lambda _: self._list_batches()), "POST": _Route(self._submit, has_body=True)}
            return known.get(head.method) or error_response(
                405, "GET lists, POST asks for a batch", {"Allow": "GET, POST"}
            )
        match = _BATCH.fullmatch(parts.path)
        if match is None:
            return error_response(404, f"no resource at {parts.path[:100]}; batches are at /v1/batches")
        batch = self._ledger.find(match[1])
        if batch is None:
            return error_response(404, f"unknown batch {match[1]!r}")
        routes = {
            ("GET", None): _Route(lambda _: self._status(batch, query)),
            ("GET", "rows"): _Route(lambda _: self._rows(batch, query)),
            ("POST", "cancel"): _Route(lambda _: self._cancel(batch)),
            ("DELETE", None): _Route(lambda _: self._delete(batch)),
        }
        return routes.get((head.method, match[2])) or error_response(405, f"{head.method[:20]} is not supported")

    async def _submit(self, body: bytes) -> Response:
        try:
            request = _DECODER.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            return error_response(400, f"the body is not a batch request: {exc}")
        if self._ledger.find(request.id) is None:
            waiting = sum(not one.is_over for one in self._ledger.all())
            if waiting >= self._config.waiting:
                return error_response(429, f"{waiting} batches are waiting; retry later", {"Retry-After": "10"})
            if len(self._ledger.all()) >= self._config.kept:
                return error_response(507, f"{self._config.kept} batches are remembered: DELETE some that are over")
        try:
            run_settings = run_config(self._config, request, f"batch-{request.id}")
            self._require_bounded(request, run_settings.tasks)
        except UserError as exc:
            return error_response(400, str(exc))
        try:
            batch, new = self._ledger.add(request)
        except UserError as exc:
            return error_response(409, str(exc))
        self._worker.wake()
        return _json_response(201 if new else 200, self._batch_fields(batch))

    def _require_bounded(self, request: BatchRequest, sources: Sequence[str]) -> None:
        """Raises `UserError` if a request exceeds the maximum number of attempts."""
        tasks = sum(task_count(source) for source in sources)
        attempts = request.budget if request.budget is not None else tasks * request.attempts
        most = max(tasks, attempts)
        if most > self._config.attempts:
            raise UserError(f"{most} attempts are asked for; at most {self._config.attempts} in one batch")

    async def _list_batches(self) -> Response:
        fields = [{"id": one.request.id, "state": one.state, "run": one.run} for one in self._ledger.all()]
        return _json_response(200, {"batches": fields})

    async def _status(self, batch: LedgerBatch, query: dict[str, str]) -> Response:
        wait_s = _query_number(query, "wait", 0, MAX_WAIT_S)
        if wait_s is None:
            return error_response(400, f"wait is seconds, from 0 to {MAX_WAIT_S}")
        if wait_s:
            await self._worker.wait_for_change(batch.request.id, wait_s)
        now = self._ledger.find(batch.request.id)
        return (
            _json_response(200, self._batch_fields(now))
            if now is not None
            else error_response(404, "the batch was forgotten meanwhile")
        )

    async def _rows(self, batch: LedgerBatch, query: dict[str, str]) -> Response:
        if batch.state != "done":
            return error_response(409, f"batch {batch.request.id!r} is {batch.state}: it has no rows (yet)")
        after, most = _query_number(query, "after", 0, 2**62), _query_number(query, "most", 100, 1000)
        if after is None or most is None or most < 1:
            return error_response(400, "after is a cursor that `next` gave, most a number from 1 to 1000")
        try:
            return Response(200, read_page(self._ledger.rows_path(batch), after, most), {})
        except UserError as exc:
            return error_response(400, str(exc))

    async def _cancel(self, batch: LedgerBatch) -> Response:
        return _json_response(200, self._batch_fields(await self._worker.cancel(batch)))

    async def _delete(self, batch: LedgerBatch) -> Response:
        if not batch.is_over or self._worker.is_running(batch):
            return error_response(409, f"batch {batch.request.id!r} is {batch.state}: cancel it first")
        self._ledger.delete(batch)
        return Response(204, b"", {})

    def _batch_fields(self, batch: LedgerBatch) -> dict[str, Any]:
        fields: dict[str, Any] = {"id": batch.request.id, "state": batch.state, "run": batch.run}
        if self._worker.is_running(batch):
            tally = self._worker.tally
            fields |= {"attempts": tally.total, "ended": tally.done, "outcomes": tally.outcomes}
        if batch.error is not None:
            fields["error"] = batch.error
        if batch.state == "done":
            fields |= {"rows": batch.rows, "left_out": batch.left_out, "versions": batch.versions}
            fields["warnings"] = batch.warnings
        return fields


class _Call:
    def __init__(self, app: RolloutApp, route: _Route) -> None:
        self._app, self._route = app, route
        self._body = BodyBuffer()
        self._counted = True
        app.active_requests += 1

    def feed(self, data: bytes) -> Response | None:
        if not self._route.has_body:
            return error_response(400, "no body is wanted here")
        if len(self._body) + len(data) > MAX_BODY_BYTES:
            return error_response(413, f"a body of more than {MAX_BODY_BYTES} bytes")
        self._body.add(data)
        return None

    def timed_out(self) -> Response:
        return error_response(408, "the body did not arrive in time")

    async def answer(self, reply: ResponseWriter) -> None:
        try:
            reply.send(await self._route.answer(self._body.drain()))
        except AssayError as exc:
            reply.send(error_response(500, str(exc)[:500]))

    def release(self) -> None:
        if self._counted:
            self._counted = False
            self._app.active_requests -= 1


def _query_number(query: dict[str, str], name: str, default: int, most: int) -> int | None:
    text = query.get(name, str(default))
    if not text.isascii() or not text.isdecimal() or len(text) > 19:
        return None
    return int(text) if int(text) <= most else None


def _json_response(status: int, data: Any) -> Response:
    return Response(status, msgspec.json.encode(data), {})
