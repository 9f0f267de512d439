"""Opens a judge's sandbox and a worker's, joins them by two pipes, and returns the judge's report.

The judge's sandbox is opened on the task's image without any state of the agent's, with the tests mounted; the worker's
on the final state, without tests and without the verifier's folders. They run at the same time and share only the
pipes. Regardless of the worker, the judge ends within its own time limit and its report comes from its own recorder.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.environments.interface import ExecResult, Mount, PipedExec, ProcessInfo, Workspace, WorkspaceSpec
from assay.errors import AssayError, VerifierError
from assay.records import Separation
from assay.verify._staging import stage
from assay.verify.cited_evidence import CitedEvidence
from assay.verify.interface import CheckInput
from assay.verify.sanitise import (
    HOME,
    PYTHON,
    SUPERVISOR,
    CleanupPlan,
    Findings,
    clean,
    inspect_changes,
    left_running,
    opened,
    remove_paths,
    verifier_spec,
)
from assay.verify.separation import cite_open_sandboxes
from assay.verify.separation_plan import EntryUse, SeparationPlan, TestPlan

from .confirming import ConfirmingEnd

PROGRAMS = "/opt/assay-splice"
CONFIGURATION = f"{HOME}/judge.json"
GRACE_S = 20.0
MAX_REPORT = 60 << 20
MAX_WORKER_TEXT = 16 << 10
WORKER_GRACE_S = 5.0


class NotJoinable(VerifierError):
    """The backend's sandboxes cannot be joined by pipes; the tests run in process instead."""


class Confirmed(NamedTuple):
    """Tests that passed from outside, run once more in the worker's first process."""

    report: dict[str, Any]
    """As the supervisor's, but told by the sandbox of the code under test: it raises no grade."""
    findings: Findings
    """Planted changes, which were undone before."""


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
    confirmed: Confirmed | None = None

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
        cited.execution([PYTHON, f"{SUPERVISOR}/runner.py", "judge"], "", shown)
        if self.worker is not None:
            ended = msgspec.structs.replace(self.worker, stdout="", stderr=self.worker.stderr[-1000:])
            cited.execution([PYTHON, f"{PROGRAMS}/splice_worker.py"], "", ended)
        if self.confirmed is not None:
            report = self.confirmed.report
            told = ExecResult(report["exit"], "", "", report["duration_s"])
            cited.execution([PYTHON, f"{PROGRAMS}/splice_worker.py", "confirm"], "", told)


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
    """Planted changes. They are recorded, and undone only before tests are confirmed: nothing decides in the worker's
    sandbox."""
    confirm: dict[str, Any] | None = None
    """Configuration of the run that confirms what passes; None: nothing is confirmed there."""


async def run_spliced(given: CheckInput, request: SpliceRequest, cited: CitedEvidence) -> SplicedRun:
    """Runs tests of method `splice` once.

    Raises:
        EnvironmentFailure: A sandbox failed; never the agent's failure.
        NotJoinable: A sandbox cannot be joined by pipes.
    """
    programs = Mount(str(stage(Path(__file__).parents[1] / "payload").path), PROGRAMS)
    judge_spec = verifier_spec(given.spec, [*request.mounts, programs], request.env)
    worker_spec = _worker_spec(given.spec, programs, request.worker_env)
    async with opened(given.backend, judge_spec) as judge, opened(given.backend, worker_spec, given.state) as worker:
        findings = await inspect_changes(worker, request.undoing)
        cited.findings(findings)
        await judge.write(CONFIGURATION, json.dumps(request.configuration).encode())
        judged, report, answered, confirmed = await _run_joined(judge, worker, request)
        alive = () if judged.timed_out else await left_running(judge)
        grade = await cite_open_sandboxes(cited, judge, [worker], image=given.spec.image.digest, pipes=2)
    run = SplicedRun(report, judged, answered, alive, findings, grade, confirmed)
    run.cite(cited)
    return run


def _worker_spec(given: WorkspaceSpec, programs: Mount, env: dict[str, str]) -> WorkspaceSpec:
    """The verifier's clean environment without its user, its folders and its runner."""
    clean_env = verifier_spec(given, (), env).env
    return msgspec.structs.replace(given, env=clean_env, mounts=(*given.mounts, programs))


async def _run_joined(
    judge: Workspace, worker: Workspace, request: SpliceRequest
) -> tuple[ExecResult, dict[str, Any] | None, ExecResult | None, Confirmed | None]:
    """Runs both programs until the judge ends, and has confirmed what passed; the worker is given a moment and then
    killed. Returns how the judge ended, its report, how the worker ended, and what was confirmed."""
    if not (isinstance(judge, PipedExec) and isinstance(worker, PipedExec)):
        raise NotJoinable
    splice = request.configuration["splice"]
    modules = sorted({module for module, _ in splice["entries"]})
    answering = [PYTHON, "-I", "-B", f"{PROGRAMS}/splice_worker.py", splice["package"]]
    answering += [json.dumps(request.configuration["roots"]), json.dumps(modules)]
    asking = [PYTHON, "-I", "-B", f"{SUPERVISOR}/runner.py", "judge", CONFIGURATION]
    (calls_out, calls_in), (answers_out, answers_in) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    limit = float(request.configuration["timeout_s"]) + GRACE_S
    confirming = ConfirmingEnd(os.dup(calls_in), os.dup(answers_out))
    confirmed = None
    try:
        async with asyncio.TaskGroup() as group:
            answers = _run_piped(worker, answering, (calls_out, answers_in), limit + WORKER_GRACE_S, MAX_WORKER_TEXT)
            background = group.create_task(answers)
            judged = await _run_piped(judge, asking, (answers_out, calls_in), limit, MAX_REPORT)
            report = _report(judged)
            if request.confirm is not None and _all_passed(report, request.confirm["only"]):
                confirmed = await _confirm(worker, request, confirming)
            confirming.close()
            done, _ = await asyncio.wait([background], timeout=WORKER_GRACE_S)
            if not done:
                await worker.kill_all()
    except* AssayError as failures:  # one of them is the cause, and callers know single ones
        raise failures.exceptions[0] from None
    finally:
        confirming.close()
    return judged, report, background.result() if done else None, confirmed


def _all_passed(report: dict[str, Any] | None, names: Sequence[str]) -> bool:
    if report is None or report["problems"]:
        return False
    passed = {test["id"] for test in report["tests"] if test["status"] == "passed"}
    return set(names) <= passed


async def _confirm(worker: Workspace, request: SpliceRequest, end: ConfirmingEnd) -> Confirmed | None:
    """Has tests run in the worker's sandbox. Mounts cannot be added to it: the tests are written over what stands at
    their places. Returns None where anything prevents that."""
    assert request.confirm is not None
    try:
        findings = await clean(worker, request.undoing)
        await remove_paths(worker, [mount.target for mount in request.mounts])
        for mount in request.mounts:
            await worker.upload(Path(mount.source), mount.target)
        report = await end.run_tests(request.confirm)
    except (AssayError, OSError, ValueError):  # here the files are the agent's, and so are their permissions
        return None
    return None if report is None else Confirmed(report, findings)


async def _run_piped(
    workspace: PipedExec, argv: Sequence[str], pipes: tuple[int, int], limit: float, show_bytes: int
) -> ExecResult:
    """Runs one end, and closes its descriptors here, so that the other end sees that it is over."""
    try:
        return await workspace.exec_piped(argv, *pipes, timeout_s=limit, show_bytes=show_bytes)
    finally:
        for fd in pipes:
            os.close(fd)


def _report(judged: ExecResult) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(judged.stderr, type=dict[str, Any]) if judged.exit_code == 0 else None
    except (msgspec.MsgspecError, RecursionError):
        return None


def compare_collection(plan: SeparationPlan, tests: Sequence[TestPlan], report: dict[str, Any]) -> str | None:
    """Returns how what was collected differs from what the plan recorded; None where it does not."""
    wanted = {test.id for test in tests}
    recorded = [item for item in plan.collection if item.id in wanted]
    found = report.get("items", [])
    for expected, item in zip(recorded, found, strict=False):
        if (expected.id, list(expected.marks), expected.parameters) != (item["id"], item["marks"], item["parameters"]):
            return f"collected otherwise than recorded: {item['id']}"[:300]
    return None if len(recorded) == len(found) else f"collected {len(found)} tests, and {len(recorded)} are recorded"
