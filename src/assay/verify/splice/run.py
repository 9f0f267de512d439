"""Opens a judge's sandbox and a worker's, joins them by two pipes, and returns the judge's report.

The judge's sandbox is opened on the task's image without any state of the agent's, with the tests mounted; the worker's
on the final state, without tests and without the verifier's folders. They run at the same time and share only the
pipes. Regardless of the worker, the judge ends within its own time limit and its report comes from its own recorder,
over a third pipe. What passed is confirmed after that: the worker is ended, the final state is put into the judge's
sandbox, and its supervisor, which has imported pytest, runs the tests once more, in one process with the code under
test.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.environments.interface import (
    ExecResult,
    Mount,
    PipedExec,
    PipeOptions,
    ProcessInfo,
    Workspace,
    WorkspaceSpec,
)
from assay.environments.pipe_end import PipeEnd
from assay.errors import AssayError, VerifierError
from assay.records import Separation
from assay.verify._staging import stage_programs
from assay.verify.cited_evidence import CitedEvidence
from assay.verify.interface import CheckInput
from assay.verify.sanitise import (
    HOME,
    PYTHON,
    RUNNER,
    SUPERVISOR,
    CleanupPlan,
    Findings,
    inspect_changes,
    left_running,
    opened,
    runner_spec,
    verifier_spec,
)
from assay.verify.separation import cite_open_sandboxes
from assay.verify.separation_plan import EntryUse, SeparationPlan, TestPlan

from .confirming import place_state

PROGRAMS = "/opt/assay-splice"
WORKER = (PYTHON, "-I", "-B", f"{PROGRAMS}/splice_worker.py")
"""Beginning of the command that answers calls."""
CONFIGURATION = f"{HOME}/judge.json"
AGAIN = f"{HOME}/again"
"""File for which the judge's supervisor waits before it runs tests again."""
AGAIN_S = 10.0
GRACE_S = 20.0
MAX_REPORT = 60 << 20
MAX_WORKER_TEXT = 16 << 10
WORKER_GRACE_S = 5.0
PIPES = 3
"""Pipe ends that the judge gets for one run."""


class NotJoinable(VerifierError):
    """The backend's sandboxes cannot be joined by pipes; the tests run in process instead."""


class ConfirmingRun(NamedTuple):
    """Result of tests that ran once more, beside the code under test."""

    report: dict[str, Any]
    alive: tuple[ProcessInfo, ...]
    """Left running."""


class SplicedRun(NamedTuple):
    """Result of tests that were judged from outside."""

    report: dict[str, Any] | None
    """The runner's report, with `refusals`, `items` and `calls`; None if it gave none."""
    judge: ExecResult
    worker: ExecResult | None
    """None where it was killed once the judge had ended."""
    alive: tuple[ProcessInfo, ...]
    """Left running in the judge's sandbox."""
    findings: Findings
    """Planted changes and suspicious files, none of which is in the tests' sandbox."""
    grade: Separation
    again: ConfirmingRun | None = None
    """A run of the same tests in one process with the code under test; None if there was none."""
    mode: str = "judge"
    """Of the judge's supervisor."""

    @property
    def marks(self) -> tuple[str, ...]:
        """Returns the verdict's marks for all actions of the worker other than plain answers."""
        names = {
            "refused": "reply_refused",
            "protocol": "reply_refused",
            "closed": "worker_ended",
            "time": "worker_late",
        }
        refusals = self.report.get("refusals", []) if self.report else []
        return tuple(sorted({names[one["why"]] for one in refusals if one["why"] in names}))

    def require_planned(self, plan: SeparationPlan, tests: Sequence[TestPlan]) -> None:
        """Raises `VerifierError` where the judge did something else than the plan recorded: nothing of the agent's is
        in its sandbox, so the plan, the image or the machine is at fault."""
        if self.report is None:
            return
        calls = self.report.get("calls", {})
        passed = {test["id"] for test in self.report["tests"] if test["status"] == "passed"}
        silent = [f"{test.id} passed without a call" for test in tests if test.id in passed and not calls.get(test.id)]
        unspliced = self.report.get("unspliced", [])
        collected = compare_collection(plan, tests, self.report) if plan.collection else None
        problems = [*unspliced, *([collected] if collected else []), *silent]
        if problems:
            raise VerifierError(f"the separation plan does not fit: {problems[0][:500]}")

    def cite(self, cited: CitedEvidence) -> None:
        tail = str(self.report["tail"]) if self.report else self.judge.stderr[-4000:]
        shown = msgspec.structs.replace(self.judge, stdout=tail[-10_000:], stderr="")
        cited.execution([PYTHON, f"{SUPERVISOR}/runner.py", self.mode], "", shown)
        if self.worker is not None:
            ended = msgspec.structs.replace(self.worker, stdout="", stderr=self.worker.stderr[-1000:])
            cited.execution([PYTHON, f"{PROGRAMS}/splice_worker.py"], "", ended)
        if self.again is not None:
            report = self.again.report
            told = ExecResult(report["exit"], str(report["tail"])[-20_000:], "", report["duration_s"])
            cited.execution([PYTHON, f"{SUPERVISOR}/runner.py", "again"], "", told)
            if self.again.alive:
                cited.processes("tests ended", self.again.alive)


def configure_splice(plan: SeparationPlan, tests: Sequence[TestPlan]) -> dict[str, Any]:
    """Returns the plugin's configuration for some tests of a plan."""
    keys = {use.entry for test in tests for use in test.uses}
    return {
        "programs": PROGRAMS,
        "package": plan.package,
        "entries": [[entry.module, entry.qualname] for entry in plan.entries if entry.key in keys],
        "tests": {test.id: {use.entry: _encode_use(use) for use in test.uses} for test in tests},
        "guards": [test.id for test in tests if not test.decides],
        "classes": [[one.module, one.qualname, list(one.fields)] for one in plan.classes],
        "guard_classes": [[one.module, one.qualname, list(one.fields)] for one in plan.guard_classes],
        "sources": plan.sources,
        "call_timeout_s": plan.call_timeout_s,
    }


def _encode_use(use: EntryUse) -> dict[str, Any]:
    kinds = {"answers": use.answers, "inside": use.inside, "handed": use.handed}
    return {"changes": msgspec.to_builtins(use.changes), **kinds}


class SpliceRequest(NamedTuple):
    mounts: Sequence[Mount]
    """Mounts of the tests, for the judge alone."""
    env: dict[str, str]
    """Variables of the check, for the judge."""
    worker_env: dict[str, str]
    """The subset that the code under test gets."""
    configuration: dict[str, Any]
    """Configuration of the runner, with `splice` from `configure_splice`."""
    undoing: CleanupPlan
    """Planted changes. They are recorded and not undone: nothing decides in the worker's sandbox."""
    again: dict[str, Any] | None = None
    """Configuration of the run in process that confirms what passes; None without one."""


async def run_spliced(given: CheckInput, request: SpliceRequest, cited: CitedEvidence) -> SplicedRun:
    """Runs tests of method `splice` once.

    Raises:
        EnvironmentFailure: A sandbox failed; never the agent's failure.
        NotJoinable: A sandbox cannot be joined by pipes.
    """
    judge_spec, worker_spec = sandboxes_of(given, request)
    async with opened(given.backend, judge_spec) as judge, opened(given.backend, worker_spec, given.state) as worker:
        findings = await inspect_changes(worker, request.undoing)
        cited.findings(findings)
        await judge.write(CONFIGURATION, json.dumps({**request.configuration, "again": request.again}).encode())
        joined = JoinedSandboxes(judge, worker, given, request, findings, cited)
        try:
            run = await joined.run()
        finally:
            joined.close()
    run.cite(cited)
    return run


def sandboxes_of(given: CheckInput, request: SpliceRequest) -> tuple[WorkspaceSpec, WorkspaceSpec]:
    """Returns the specifications of the judge's sandbox and of the worker's."""
    programs = Mount(str(stage_programs(Path(__file__).parents[1] / "payload")), PROGRAMS, is_own=True)
    judge = runner_spec(given.spec, [*request.mounts, programs], request.env)
    return judge, _worker_spec(given.spec, programs, request.worker_env)


def _worker_spec(given: WorkspaceSpec, programs: Mount, env: dict[str, str]) -> WorkspaceSpec:
    """The verifier's clean environment without its user, its folders and its runner."""
    clean_env = verifier_spec(given, (), env).env
    return msgspec.structs.replace(given, env=clean_env, mounts=(*given.mounts, programs), preload=WORKER)


class JoinedSandboxes:
    """Two sandboxes that are joined by pipes. The judge's reports come over a third one."""

    def __init__(
        self,
        judge: Workspace,
        worker: Workspace,
        given: CheckInput,
        request: SpliceRequest,
        findings: Findings,
        cited: CitedEvidence,
    ) -> None:
        if not (isinstance(judge, PipedExec) and isinstance(worker, PipedExec)):
            raise NotJoinable
        self._judge, self._worker = judge, worker
        self._given, self._request, self._findings, self._cited = given, request, findings, cited
        self._calls = os.pipe2(os.O_CLOEXEC)
        self._answers = os.pipe2(os.O_CLOEXEC)
        self._reports = os.pipe2(os.O_CLOEXEC)
        self._open = {*self._calls, *self._answers, *self._reports}
        self._transport: asyncio.BaseTransport | None = None

    def close(self) -> None:
        self._close(*self._open)
        if self._transport is not None:
            self._transport.close()

    def _close(self, *fds: int) -> None:
        """Closes descriptors, unless they are closed."""
        for fd in self._open.intersection(fds):
            self._open.remove(fd)
            os.close(fd)

    async def run(self) -> SplicedRun:
        """Runs both programs until the judge has told its report; the worker is given a moment and then killed. What
        passed then runs again."""
        failed: list[Exception] = []
        try:
            return await self._run_both()
        except* AssayError as failures:
            failed += failures.exceptions
        raise failed[0]  # callers know single ones, and what is raised above would be in a group

    async def _run_both(self) -> SplicedRun:
        async with asyncio.TaskGroup() as group:
            answering = group.create_task(self._run_worker())
            asking = group.create_task(self._run_judge())
            reader = await self._open_reports()
            text = await _read_line(reader)
            report = _decode_report(text)
            self._close(self._calls[1])
            is_late = report is not None and report["timed_out"]  # then it has long not answered
            done, _ = await asyncio.wait([answering], timeout=0.0 if is_late else WORKER_GRACE_S)
            await self._worker.kill_all()  # what it started may hold its pipes
            alive = () if report is None else await left_running(self._judge, apart_from=_own_processes(report))
            grade = await self._cite_sandboxes()
            again = None if report is None or alive else await self._run_again(report, reader)
            await self._end_judge()
            judged = await asking
        if report is None:
            judged = msgspec.structs.replace(judged, stderr=text.decode(errors="replace"))
        else:
            judged = msgspec.structs.replace(judged, exit_code=0, timed_out=False)
        return SplicedRun(report, judged, answering.result() if done else None, alive, self._findings, grade, again)

    async def _cite_sandboxes(self) -> Separation:
        image = self._given.spec.image.digest
        return await cite_open_sandboxes(self._cited, self._judge, [self._worker], image=image, pipes=PIPES)

    async def _end_judge(self) -> None:
        await self._judge.kill_all()  # whatever it still waits for or tells

    async def _run_again(self, report: dict[str, Any], reader: asyncio.StreamReader) -> ConfirmingRun | None:
        """Has the tests run once more, if all passed and may be confirmed here. What takes much longer than the first
        run gets a sandbox of its own."""
        again, wanted = self._request.again, self._request.configuration["only"]
        passed = {test["id"] for test in report["tests"] if test["status"] == "passed"}
        if again is None or report["problems"] or not passed.issuperset(wanted):
            return None
        if not await place_state(self._judge, self._given.state, self._request.undoing, self._findings):
            return None
        await self._judge.write(AGAIN, b"")
        try:
            async with asyncio.timeout(AGAIN_S + 4 * report["duration_s"]):
                told = _decode_report(await _read_line(reader))
        except TimeoutError:
            return None
        if told is None:
            return None
        return ConfirmingRun(told, await left_running(self._judge, apart_from=_own_processes(report)))

    async def _run_worker(self) -> ExecResult:
        configuration = self._request.configuration
        splice = configuration["splice"]
        modules = sorted({module for module, _ in splice["entries"]})
        argv = [*WORKER, splice["package"]]
        argv += [json.dumps(configuration["roots"]), json.dumps(modules)]
        # Later than the judge, whose limit counts from the same moment: a worker that ended first would be a failure.
        limit = self._judge_limit_s + WORKER_GRACE_S
        return await self._run_piped(self._worker, argv, (self._calls[0], self._answers[1]), limit, MAX_WORKER_TEXT)

    async def _run_judge(self) -> ExecResult:
        argv = [*RUNNER, "judge", CONFIGURATION]
        pipes = (self._answers[0], self._calls[1], self._reports[1])
        return await self._run_piped(self._judge, argv, pipes, self._judge_limit_s, 0)

    @property
    def _judge_limit_s(self) -> float:
        runs = [self._request.configuration, self._request.again or {}]
        return sum(float(config.get("timeout_s", 0.0)) + GRACE_S for config in runs)

    async def _run_piped(
        self, workspace: Workspace, argv: Sequence[str], pipes: tuple[int, ...], limit: float, show_bytes: int
    ) -> ExecResult:
        """Runs one end, and closes its descriptors here, so that the other end sees that it is over."""
        assert isinstance(workspace, PipedExec)
        stdin, stdout, *errors = pipes
        options: PipeOptions = {"timeout_s": limit, "show_bytes": show_bytes}
        if errors:
            options["stderr"] = errors[0]
        try:
            return await workspace.exec_piped(argv, stdin, stdout, **options)
        finally:
            self._close(*pipes)

    async def _open_reports(self) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=MAX_REPORT)
        self._open.remove(self._reports[0])
        end = PipeEnd(self._reports[0])
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), end)
        return reader


def _own_processes(report: dict[str, Any]) -> set[int]:
    """Returns the judge's own processes that outlive a run."""
    return {report["supervisor"], report.get("waiting", -1)}


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """Returns a line without its end; what there is, if that does not come or is too long."""
    try:
        return await reader.readuntil()
    except asyncio.IncompleteReadError as exc:
        return bytes(exc.partial)
    except asyncio.LimitOverrunError:
        return b"more than a report can be"


def _decode_report(line: bytes) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(line, type=dict[str, Any]) if line.endswith(b"\n") else None
    except (msgspec.MsgspecError, RecursionError):
        return None


def compare_collection(plan: SeparationPlan, tests: Sequence[TestPlan], report: dict[str, Any]) -> str | None:
    """Returns how what was collected differs from what the plan recorded; None where it does not."""
    wanted = {test.id for test in tests}
    recorded = [item for item in plan.collection if item.id in wanted]
    found = report.get("items", [])
    if report.get("order") == "reversed":
        found = found[::-1]
    for expected, item in zip(recorded, found, strict=False):
        if (expected.id, list(expected.marks), expected.parameters) != (item["id"], item["marks"], item["parameters"]):
            return f"collected otherwise than recorded: {item['id']}"[:300]
    return None if len(recorded) == len(found) else f"collected {len(found)} tests, and {len(recorded)} are recorded"
