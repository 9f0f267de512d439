"""Judges that run the same tests of many attempts, for attempts of which most are wrong: an admission's cheats and
mutants.

One sandbox a check holds the tests, collected (`payload/assay_supervisor/warm.py`), and a fork of that process runs
them for each attempt. It is opened on the task's image as any judge of spliced tests is, and the agent's code runs in a
sandbox of its own as it always does. Only a plain failure counts (`pytest_check`): a pass, a doubt or a missing result
is judged anew in a sandbox that judges nothing else. So what one attempt could leave to the next could at most let
that one fail.

Nothing is left, as far as it is looked for: a run that changed a file, left a process, met a limit or gave no report
does not count, and its sandbox is closed. A check whose tests change files or leave processes gets no other one here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import msgspec

from assay.environments.capabilities import ListensLocally
from assay.environments.interface import Backend, ExecResult, Workspace, WorkspaceSpec
from assay.environments.workspace.launcher.protocol import receive
from assay.errors import AssayError, EnvironmentFailure
from assay.records import Separation
from assay.verify.cited_evidence import CitedEvidence
from assay.verify.host_load import metered_sandbox
from assay.verify.interface import CheckInput
from assay.verify.sanitise import RUNNER, Findings, inspect_changes, opened
from assay.verify.script_requests import SOCKET
from assay.verify.separation import cite_separation, read_facts

from .run import CONFIGURATION, GRACE_S, PIPES, WORKER_GRACE_S, JoinedSandboxes, SplicedRun, SpliceRequest, sandboxes_of

START_S = 120.0
LEAST_LIMIT_S, TIMES_LONGEST = 3.0, 4.0
"""Wall seconds of a run, at least, and in times of the longest that ended by itself: it counts for nothing beyond."""
MOST_FAILURES = 3
"""Times that a check's judge may fail, for example on a busy host, before it gets no other."""
MOST_OPEN = 4
"""Sandboxes that stay open between the runs of one admission."""


class Screen(NamedTuple):
    """Parts that judge one attempt."""

    judges: ScreeningJudges
    spent: Callable[[float | None], None]
    """Receives the CPU seconds of each run of tests; None: unknown."""

    async def run(
        self, given: CheckInput, request: SpliceRequest, cited: CitedEvidence, fails: Callable[[SplicedRun], bool]
    ) -> SplicedRun | None:
        """Runs the tests; returns None unless they plainly fail (`fails`), or if they cannot be run in this way."""
        before = len(cited.items)
        run = await self.judges.run(given, request, cited)
        if run is not None and run.report is not None:
            self.spent(float(run.report["cpu_s"]))
            if fails(run):
                return run
        del cited.items[before:]
        return None


class _WarmJudge:
    """A sandbox in which the tests are collected."""

    def __init__(self, workspace: Workspace, host: socket.socket, digest: str) -> None:
        self.workspace = workspace
        self.host = host
        self.runs = 0
        self.longest_s = 0.0
        """Duration of its longest run that ended by itself."""
        self.digest = digest
        """Digest of its files before any run."""

    async def is_clean(self) -> bool:
        return await self.workspace.digest() == self.digest


class ScreeningJudges:
    """The open sandboxes, by what they judge. Close it before the backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._open: OrderedDict[str, tuple[_WarmJudge, contextlib.AsyncExitStack]] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}
        self._unfit: set[str] = set()
        self._failures: Counter[str] = Counter()

    async def run(self, given: CheckInput, request: SpliceRequest, cited: CitedEvidence) -> SplicedRun | None:
        """Runs the tests; returns None if they cannot be run in this way, or left something."""
        spec, _ = sandboxes_of(given, request)
        key = json.dumps([repr(spec), request.configuration], sort_keys=True, default=repr)
        async with self._locks.setdefault(key, asyncio.Lock()):
            return await self._run(key, spec, given, request, cited)

    async def _run(
        self, key: str, spec: WorkspaceSpec, given: CheckInput, request: SpliceRequest, cited: CitedEvidence
    ) -> SplicedRun | None:
        if key in self._unfit:
            return None
        run: SplicedRun | None = None
        try:
            judge = await self._judge(key, spec, request)
            found = await _run_in(judge, given, request, cited)
            if not _left_something(found) and await judge.is_clean():
                run = found
                if run.report is not None and not _met_limit(run):
                    judge.longest_s = max(judge.longest_s, float(run.report["duration_s"]))
            else:
                self._unfit.add(key)
        except (AssayError, OSError, ValueError):
            self._failures[key] += 1
            if self._failures[key] == MOST_FAILURES:
                self._unfit.add(key)
        finally:
            if run is None or _met_limit(run):
                await self._discard(key)
        return run

    async def _judge(self, key: str, spec: WorkspaceSpec, request: SpliceRequest) -> _WarmJudge:
        if key not in self._open:
            for other in [name for name in self._open if not self._locks[name].locked()]:
                if len(self._open) >= MOST_OPEN:
                    await self._discard(other)  # the one that was used longest ago
            async with contextlib.AsyncExitStack() as stack:
                judge = await stack.enter_async_context(_opened_judge(self._backend, spec, request))
                self._open[key] = judge, stack.pop_all()
        self._open.move_to_end(key)
        return self._open[key][0]

    async def _discard(self, key: str) -> None:
        _, stack = self._open.pop(key, (None, None))
        if stack is not None:
            await stack.aclose()

    async def close(self) -> None:
        """Closes all sandboxes."""
        for key in list(self._open):
            await self._discard(key)


@contextlib.asynccontextmanager
async def _opened_judge(backend: Backend, spec: WorkspaceSpec, request: SpliceRequest) -> AsyncIterator[_WarmJudge]:
    """Opens a sandbox and has the tests collected. Raises `EnvironmentFailure` if they cannot be run in forks."""
    async with opened(backend, spec) as workspace:
        if not isinstance(workspace, ListensLocally):
            raise EnvironmentFailure("this tier's sandboxes have no socket to their host")
        await workspace.write(CONFIGURATION, json.dumps(request.configuration).encode())
        listener = await workspace.listen_local(SOCKET)
        loop = asyncio.get_running_loop()
        serving = loop.create_task(workspace.exec([*RUNNER, "serve", CONFIGURATION]))
        host: socket.socket | None = None
        try:
            async with asyncio.timeout(START_S):
                with listener:
                    host = await _first(loop.create_task(loop.sock_accept(listener)), serving)
                told = await _next_message(host)
            if told.get("problem") != "":
                raise EnvironmentFailure(f"the tests cannot be run in forks: {str(told.get('problem'))[:200]}")
            yield _WarmJudge(workspace, host, await workspace.digest())
        except TimeoutError as exc:
            raise EnvironmentFailure("the tests were not collected in time") from exc
        finally:
            if host is not None:
                host.close()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


async def _first(
    accepting: asyncio.Task[tuple[socket.socket, object]], serving: asyncio.Task[ExecResult]
) -> socket.socket:
    """Returns the connection of the program. Raises `EnvironmentFailure` if it ends before it connects."""
    try:
        await asyncio.wait({accepting, serving}, return_when=asyncio.FIRST_COMPLETED)
        if not accepting.done():
            raise EnvironmentFailure(f"the judge did not start: {serving.result().stderr[-500:]}")
        connection = accepting.result()[0]
        connection.setblocking(False)
        return connection
    finally:
        accepting.cancel()


async def _next_message(host: socket.socket) -> dict[str, object]:
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(host, lambda: None if readable.done() else readable.set_result(None))
    try:
        await readable
    finally:
        loop.remove_reader(host)
    message, fds = receive(host)
    for fd in fds:
        os.close(fd)
    return message or {"problem": "it ended"}


async def _run_in(judge: _WarmJudge, given: CheckInput, request: SpliceRequest, cited: CitedEvidence) -> SplicedRun:
    _, worker_spec = sandboxes_of(given, request)
    with metered_sandbox(judge.workspace):
        async with opened(given.backend, worker_spec, given.state) as worker:
            findings = await inspect_changes(worker, request.undoing)
            cited.findings(findings)
            joined = _JoinedToWarm(judge, worker, given, request, findings, cited)
            limit = float(request.configuration["timeout_s"]) + GRACE_S
            try:
                async with asyncio.timeout(limit + WORKER_GRACE_S):
                    run = await joined.run()
            except TimeoutError as exc:
                raise EnvironmentFailure("the judge gave no report") from exc
            finally:
                joined.close()
    run = run._replace(mode="serve")
    if run.report is not None:
        run = run._replace(judge=msgspec.structs.replace(run.judge, duration_s=float(run.report["duration_s"])))
    run.cite(cited)
    return run


def _left_something(run: SplicedRun) -> bool:
    """Returns whether a run left a process or a changed file, as far as the judge's own process can tell."""
    return run.report is None or bool(run.alive or run.report["changed"])


def _met_limit(run: SplicedRun) -> bool:
    """Returns whether a run ended in another way than by itself."""
    return run.report is None or bool(run.report["timed_out"] or run.report["problems"])


def is_plain(run: SplicedRun) -> bool:
    """Returns whether a run ended by itself, and its result does not depend on which end of the pipes was first: what a
    worker writes unasked is refused as a frame, or as that of a worker that has ended."""
    refusals = run.report.get("refusals", ()) if run.report is not None else ()
    return not _met_limit(run) and all(one["why"] not in ("protocol", "time") for one in refusals)


class _JoinedToWarm(JoinedSandboxes):
    """A worker's sandbox that is joined to one whose tests are collected."""

    def __init__(
        self,
        judge: _WarmJudge,
        worker: Workspace,
        given: CheckInput,
        request: SpliceRequest,
        findings: Findings,
        cited: CitedEvidence,
    ) -> None:
        super().__init__(judge.workspace, worker, given, request._replace(again=None), findings, cited)
        self._warm = judge

    async def _run_judge(self) -> ExecResult:
        pipes = (self._answers[0], self._calls[1], self._reports[1])
        self._warm.runs += 1
        enough_s = max(LEAST_LIMIT_S, TIMES_LONGEST * self._warm.longest_s)
        limit = {"limit_s": min(enough_s, float(self._request.configuration["timeout_s"]))}
        try:
            socket.send_fds(self._warm.host, [json.dumps(limit).encode()], list(pipes))
        except OSError as exc:
            raise EnvironmentFailure(f"the judge is gone: {exc}") from exc
        finally:
            self._close(*pipes)
        return ExecResult(0, "", "", 0.0)

    async def _cite_sandboxes(self) -> Separation:
        """Cites the sandboxes as they are: the judge's got the pipes of all its runs."""
        facts = await read_facts(self._judge)
        pipes = PIPES * self._warm.runs
        handed = {**facts.handed_over, "pipe": facts.handed_over.get("pipe", 0) + pipes}
        facts = msgspec.structs.replace(facts, handed_over=handed, handed_total=sum(handed.values()))
        judged = await read_facts(self._worker)
        return cite_separation(self._cited, facts, [judged], image=self._given.spec.image.digest, pipes=pipes)

    async def _end_judge(self) -> None:
        """Leaves the judge waiting for the next run."""
