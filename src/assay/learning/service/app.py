"""HTTP interface of the rollout service.

| request | answer |
|---|---|
| `POST /v1/batches` | the batch, 201 if new, 200 if known; 409 if another has its name, 429 if too many wait |
| `GET /v1/batches` | all of them, short |
| `GET /v1/batches/ID?wait=SECONDS` | how it stands; waits (a minute at most) for it to be over |
| `GET /v1/batches/ID/groups?after=CURSOR&most=N&wait=SECONDS` | whole groups, and the cursor after them |
| `POST /v1/batches/ID/acknowledge` | stores a cursor, which stands for `after` where that is missing |
| `POST /v1/batches/ID/cancel` | ends it; its run stays in the store |
| `POST /v1/batches/ID/abort` | ends the trials of attempts under way; each is tried again |
| `DELETE /v1/batches/ID` | forgets a batch that is over, and its groups |
| `POST /v1/pause`, `POST /v1/resume` | holds model calls and new attempts, with their clocks, and lets them go on |
| `GET /v1/policies/NAME` | its versions and the age of the groups that were handed over |
| `GET /metrics` | batches, slots, attempts, model calls and answers in the Prometheus text format |
| `POST /v1/policies/NAME/versions` | loads new weights, and begins the batches that waited for their version |

Covered: requests without the token get no data and their bodies are not read; bodies are bounded in size, time and
depth, requests in number; a request can name no path, URL or module of its own (see `config`); beyond loopback the
service answers over TLS only. Not covered: several clients with different rights; whoever has the token may do all of
this.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlsplit

import msgspec

from assay.errors import AssayError, ProviderError, UserError
from assay.http.bearer import BearerToken
from assay.http.body_reader import BodyReader, announces_more, too_large
from assay.http.messages import RequestHead, Response, error_response
from assay.http.response_writer import ResponseWriter
from assay.store import list_runs
from assay.tasks.sources import task_count

from .config import AbortRequest, AcknowledgeRequest, BatchRequest, VersionRequest, run_config
from .groups import GroupPage, StoredGroup, read_between, read_page
from .ledger import Ledger, LedgerBatch
from .policies import Handover, PolicyBook, PolicyVersion, VersionConflictError
from .service_config import RolloutServiceConfig
from .service_metrics import declare_service_metrics
from .worker import BatchWorker

MAX_BODY_BYTES = 1 << 20
MAX_CONCURRENT_REQUESTS = 64
"""Maximum concurrent requests."""
MAX_WAIT_S = 60
DISCONNECT_S = 0.5
"""Interval in seconds in which a waiting request looks whether its client is still there."""
_BATCH = re.compile(r"/v1/batches/([A-Za-z0-9][A-Za-z0-9_-]{0,63})(?:/(groups|acknowledge|abort|cancel))?", re.ASCII)
_POLICY = re.compile(r"/v1/policies/([A-Za-z0-9][A-Za-z0-9_-]{0,63})(?:/(versions))?", re.ASCII)
_Body = TypeVar("_Body", bound=msgspec.Struct)


class _Route(NamedTuple):
    answer: Callable[[bytes], Coroutine[Any, Any, Response]]
    has_body: bool = False
    may_wait: bool = False
    """True for a request that changes nothing and may wait: it ends once its client has gone."""


class RolloutApp:
    """The service's HTTP application."""

    def __init__(
        self, config: RolloutServiceConfig, ledger: Ledger, policies: PolicyBook, worker: BatchWorker, token: str
    ) -> None:
        self._config, self._ledger, self._policies, self._worker = config, ledger, policies, worker
        self._acknowledging = asyncio.Lock()
        self._handed: dict[str, dict[int, Handover]] = {}
        """Decisions on groups that were handed over and not acknowledged yet, by batch and cursor."""
        self._token = BearerToken(token)
        self.active_requests = 0
        declare_service_metrics(config, ledger, policies, worker)
        self._responses = worker.metrics.registry.counter(
            "assay_responses_total", "Responses to requests, by status.", ("status",)
        )

    def count_response(self, response: Response) -> Response:
        """Counts a response, and returns it."""
        self._responses.add(1, str(response.status))
        return response

    def accept(self, head: RequestHead) -> _Call | Response:
        accepted = self._accept(head)
        return self.count_response(accepted) if isinstance(accepted, Response) else accepted

    def _accept(self, head: RequestHead) -> _Call | Response:
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
        return too_large(MAX_BODY_BYTES) if announces_more(head, MAX_BODY_BYTES) else _Call(self, route)

    def _route(self, head: RequestHead) -> _Route | Response:
        parts = urlsplit(head.target)
        query = dict(parse_qsl(parts.query, max_num_fields=10))
        if parts.path == "/v1/batches":
            known = {"GET": _Route(lambda _: self._list_batches()), "POST": _Route(self._submit, has_body=True)}
            return known.get(head.method) or error_response(
                405, "GET lists, POST asks for a batch", {"Allow": "GET, POST"}
            )
        if parts.path in ("/v1/pause", "/v1/resume"):
            if head.method != "POST":
                return error_response(405, "POST pauses and resumes", {"Allow": "POST"})
            return _Route(lambda _: self._pause(is_paused=parts.path == "/v1/pause"))
        if parts.path == "/metrics":
            if head.method not in ("GET", "HEAD"):
                return error_response(405, "GET returns metrics", {"Allow": "GET"})
            return self._worker.metrics.registry.response()
        policy = _POLICY.fullmatch(parts.path)
        if policy is not None:
            return self._policy_route(head.method, policy[1], policy[2])
        match = _BATCH.fullmatch(parts.path)
        if match is None:
            return error_response(404, f"no resource at {parts.path[:100]}; batches are at /v1/batches")
        batch = self._ledger.find(match[1])
        if batch is None:
            return error_response(404, f"unknown batch {match[1]!r}")
        routes = {
            ("GET", None): _Route(lambda _: self._status(batch, query), may_wait=True),
            ("GET", "groups"): _Route(lambda _: self._groups(batch, query), may_wait=True),
            ("POST", "acknowledge"): _Route(lambda body: self._acknowledge(batch, body), has_body=True),
            ("POST", "abort"): _Route(lambda body: self._abort(batch, body), has_body=True),
            ("POST", "cancel"): _Route(lambda _: self._cancel(batch)),
            ("DELETE", None): _Route(lambda _: self._delete(batch)),
        }
        return routes.get((head.method, match[2])) or error_response(405, f"{head.method[:20]} is not supported")

    def _policy_route(self, method: str, name: str, part: str | None) -> _Route | Response:
        if name not in self._config.policies:
            return error_response(404, f"policy {name!r} is not served here")
        routes = {
            ("GET", None): _Route(lambda _: self._policy_status(name)),
            ("POST", "versions"): _Route(lambda body: self._post_version(name, body), has_body=True),
        }
        return routes.get((method, part)) or error_response(405, f"{method[:20]} is not supported")

    async def _submit(self, body: bytes) -> Response:
        request = _decode(body, BatchRequest, "a batch request")
        if isinstance(request, Response):
            return request
        if self._ledger.find(request.id) is None:
            waiting = sum(not one.is_over for one in self._ledger.all())
            if waiting >= self._config.waiting:
                return error_response(429, f"{waiting} batches are waiting; retry later", {"Retry-After": "10"})
            if len(self._ledger.all()) >= self._config.kept:
                return error_response(507, f"{self._config.kept} batches are remembered: DELETE some that are over")
            if f"batch-{request.id}" in list_runs(self._ledger.folder.parent):
                return error_response(
                    409, f"the run of an earlier batch {request.id!r} is in the store: give another id"
                )
        try:
            newest = self._policies.find(request.policy.name).newest
            version = "none-yet" if newest is None else newest.version
            run_settings = run_config(self._config, request, f"batch-{request.id}", version)
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

    async def _groups(self, batch: LedgerBatch, query: dict[str, str]) -> Response:
        after, most = _query_number(query, "after", batch.acknowledged, 2**62), _query_number(query, "most", 100, 1000)
        wait_s = _query_number(query, "wait", 0, MAX_WAIT_S)
        if after is None or most is None or most < 1 or wait_s is None:
            return error_response(
                400,
                f"after is a cursor that `next` gave, most a number from 1 to 1000, wait seconds, 0 to {MAX_WAIT_S}",
            )
        deadline = time.monotonic() + wait_s
        while True:
            now = self._ledger.find(batch.request.id)
            if now is None:
                return error_response(404, "the batch was forgotten meanwhile")
            self._ledger.require_whole_groups(now)
            try:
                page = await asyncio.to_thread(read_page, self._ledger.groups_path(now), after, most)
            except UserError as exc:
                return error_response(400, str(exc))
            left_s = deadline - time.monotonic()
            if page.groups or now.is_over or left_s <= 0:
                return self._page_response(now, page)
            await self._worker.wait_for_change(now.request.id, min(left_s, 1.0))

    def _page_response(self, batch: LedgerBatch, page: GroupPage) -> Response:
        handed = self._handed.setdefault(batch.request.id, {})
        listed = []
        for group, cursor in page.groups:
            decision = handed[cursor] = self._policies.judge(batch.request, group.token_versions())
            fields: dict[str, Any] = {"id": group.id, "task": group.task, "attempts": group.attempts}
            fields |= {"rows": group.rows} if decision.dropped is None else {"dropped": decision.dropped}
            listed.append(fields)
        end = batch.is_over and not page.has_more
        return _json_response(200, {"next": page.next, "end": end, "state": batch.state, "groups": listed})

    async def _acknowledge(self, batch: LedgerBatch, body: bytes) -> Response:
        request = _decode(body, AcknowledgeRequest, "an acknowledgement")
        if isinstance(request, Response):
            return request
        async with self._acknowledging:
            now = self._ledger.find(batch.request.id)
            if now is None:
                return error_response(404, "the batch was forgotten meanwhile")
            path = self._ledger.groups_path(now)
            try:
                stored = await asyncio.to_thread(read_between, path, now.acknowledged, request.cursor)
            except UserError as exc:
                return error_response(400, str(exc))
            now = self._ledger.find(batch.request.id)
            if now is None:
                return error_response(404, "the batch was forgotten meanwhile")
            return _json_response(200, {"acknowledged": self._count_acknowledged(now, request.cursor, stored)})

    def _count_acknowledged(self, batch: LedgerBatch, cursor: int, groups: Sequence[StoredGroup]) -> int:
        """Stores a cursor, unless a later one is stored, with the age of the groups before it; returns the stored
        one."""
        if cursor <= batch.acknowledged:
            return batch.acknowledged
        handed = self._handed.get(batch.request.id, {})
        lags, dropped = Counter(batch.lags), Counter(batch.dropped)
        for group, following in groups:
            decision = handed.pop(following, None) or self._policies.judge(batch.request, group.token_versions())
            lags["unknown" if decision.lag is None else str(decision.lag)] += 1
            dropped.update([] if decision.dropped is None else [decision.dropped])
        fields = {"acknowledged": cursor, "lags": dict(lags), "dropped": dict(dropped)}
        return self._ledger.save(msgspec.structs.replace(batch, **fields)).acknowledged

    async def _policy_status(self, name: str) -> Response:
        state = self._policies.find(name)
        lags, dropped = Counter[str](), Counter[str]()
        for batch in self._ledger.all():
            if batch.request.policy.name == name and batch.request.step is not None:
                lags.update(batch.lags)
                dropped.update(batch.dropped)
        newest = state.newest
        fields = {
            "name": name,
            "step": None if newest is None else newest.step,
            "version": None if newest is None else newest.version,
            "paused": self._worker.controls.is_paused,
            "acknowledged_groups": lags.total(),
            "lags": lags,
            "dropped": dropped,
        }
        return _json_response(200, fields)

    async def _post_version(self, name: str, body: bytes) -> Response:
        request = _decode(body, VersionRequest, "a version")
        if isinstance(request, Response):
            return request
        if ".." in request.version:
            return error_response(400, "a version contains no two dots in a row")
        new = PolicyVersion(request.step, request.version)
        try:
            posted = await self._worker.engines.post(name, new)
        except VersionConflictError as exc:
            return error_response(409, str(exc))
        except UserError as exc:
            return error_response(400, str(exc))
        except ProviderError as exc:
            return error_response(502, str(exc)[:500])
        self._worker.wake()
        fields: dict[str, Any] = {"name": name, "step": request.step, "version": request.version}
        warned = {} if posted.warning is None else {"warning": posted.warning}
        return _json_response(201 if posted.is_new else 200, fields | warned)

    async def _abort(self, batch: LedgerBatch, body: bytes) -> Response:
        request = _decode(body, AbortRequest, "a list of attempts")
        if isinstance(request, Response):
            return request
        aborted = [one for one in request.attempts if self._worker.controls.abort(batch.run, one)]
        return _json_response(200, {"aborted": aborted})

    async def _pause(self, *, is_paused: bool) -> Response:
        self._policies.set_paused(is_paused=is_paused)
        if is_paused:
            self._worker.controls.pause()
        else:
            self._worker.controls.resume()
        return _json_response(200, {"paused": is_paused})

    async def _cancel(self, batch: LedgerBatch) -> Response:
        return _json_response(200, self._batch_fields(await self._worker.cancel(batch)))

    async def _delete(self, batch: LedgerBatch) -> Response:
        if not batch.is_over or self._worker.is_running(batch):
            return error_response(409, f"batch {batch.request.id!r} is {batch.state}: cancel it first")
        self._ledger.delete(batch)
        self._handed.pop(batch.request.id, None)
        return Response(204, b"", {})

    def _batch_fields(self, batch: LedgerBatch) -> dict[str, Any]:
        fields: dict[str, Any] = {"id": batch.request.id, "state": batch.state, "run": batch.run}
        if self._worker.is_running(batch):
            tally = self._worker.tallies[batch.request.id]
            fields |= {"attempts": tally.total, "ended": tally.done, "outcomes": tally.outcomes}
        if batch.error is not None:
            fields["error"] = batch.error
        elif not batch.is_over and not self._worker.is_served(batch):
            fields["error"] = (
                f"policy {batch.request.policy.name!r} is not served now: the batch goes on once the service is "
                "started with it"
            )
        if batch.state == "done":
            fields |= {
                "groups": batch.groups,
                "rows": batch.rows,
                "left_out": batch.left_out,
                "versions": batch.versions,
            }
            fields["warnings"] = batch.warnings
        return fields


class _Call(BodyReader):
    def __init__(self, app: RolloutApp, route: _Route) -> None:
        super().__init__(self._respond, MAX_BODY_BYTES)
        self._app, self._route = app, route
        self._counted = True
        app.active_requests += 1

    def feed(self, data: bytes) -> Response | None:
        return super().feed(data) if self._route.has_body else error_response(400, "no body is wanted here")

    async def _respond(self, body: bytes, reply: ResponseWriter) -> Response:
        try:
            answer = self._route.answer(body)
            response = await (_while_connected(answer, reply) if self._route.may_wait else answer)
        except AssayError as exc:
            response = error_response(500, str(exc)[:500])
        return self._app.count_response(response)

    def release(self) -> None:
        super().release()
        if self._counted:
            self._counted = False
            self._app.active_requests -= 1


async def _while_connected(answer: Coroutine[Any, Any, Response], reply: ResponseWriter) -> Response:
    """Awaits an answer; cancels it if the client leaves, so that waits of clients that have gone take no place."""
    answering = asyncio.create_task(answer)
    try:
        while not answering.done() and reply.connected:
            await asyncio.wait({answering}, timeout=DISCONNECT_S)
        return answering.result() if answering.done() else error_response(408, "the client has gone")
    finally:
        answering.cancel()


def _decode(body: bytes, kind: type[_Body], what: str) -> _Body | Response:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        return error_response(400, f"the body is not {what}: {exc}")


def _query_number(query: dict[str, str], name: str, default: int, most: int) -> int | None:
    text = query.get(name, str(default))
    if not text.isascii() or not text.isdecimal() or len(text) > 19:
        return None
    return int(text) if int(text) <= most else None


def _json_response(status: int, data: Any) -> Response:
    return Response(status, msgspec.json.encode(data), {})
