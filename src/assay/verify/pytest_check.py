"""The check `pytest`: named tests of the task must pass, each judged as far from the agent's code as the task permits.

Where the task has a separation plan (`tests/separation.json`), the tests that it carries run with the original package
in a sandbox that holds nothing of the agent's; the entry points that the plan names are called in a second sandbox with
the final state, across two pipes (`verify.splice`), or are asked fresh inputs (`verify.calls`). All other tests, and
those whose calls were asked, run in process, apart and after, in a fork of the final state: test files are mounted
read-only over whatever stands at their place, and a trusted parent starts pytest with the tool layer's own interpreter,
the standard library before any import root, and records each result as it comes (`assay_supervisor.runner`). A pass
needs all tests, a run that reached its end, and no doubt. The verdict's `separation` is the grade of the tests that
must change to passing.

Covered in process: edited, deleted and skipped tests; configuration; exit codes; an early exit; printed results;
stand-ins for modules; a patched runner (canaries, and a second run over altered tests: `verify.altered`); values that
equal anything (probes). Not covered in process: code under test that recognises the tests, or forges in some runs only;
the suspicions in `code.suspicion` are for that, and the grade `same-process`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import posixpath
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.code.results import TestReport
from assay.environments.interface import ExecResult, Mount, ProcessInfo, Workspace
from assay.errors import TaskError, VerifierError
from assay.records import Separation, digest_bytes
from assay.verdicts import DISTURBED, NO_RESULT, NOT_CONFIRMED, weakest
from assay.verify._pytest_rules import PytestFacts, came_to_no_result, merge_rulings, rule
from assay.verify._ruling import Ruling
from assay.verify._staging import StagedCopy, stage
from assay.verify.calls import call_plans, judge_called_tests
from assay.verify.cited_evidence import CitedEvidence, verifier_digest
from assay.verify.interface import CheckInput, CheckResult
from assay.verify.planted_files import PlantedChange
from assay.verify.sanitise import (
    PYTHON,
    RUNNER,
    SUPERVISOR,
    CleanupPlan,
    clean,
    has_tool_layer,
    left_running,
    opened,
    require_mounts,
    runner_spec,
    select_planted,
)
from assay.verify.script import recorded
from assay.verify.separation_plan import SeparationPlan, TestPlan, encode_plan, load_plan
from assay.verify.splice import NotJoinable, SplicedRun, SpliceRequest, configure_splice, run_spliced
from assay.verify.splice.screening import is_plain

GRACE_S = 20.0
MOST_REPORT = 96 * 1024 * 1024


class TestMount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """File or folder of the task's folder, and its path in the sandbox."""

    __test__ = False

    source: str
    """Relative to the task's folder."""
    target: str
    """Absolute, or relative to the working directory."""


class PytestParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the check. Node ids are relative to the working directory, which is pytest's root folder."""

    tests: tuple[TestMount | str, ...] = ("tests",)
    """Files to mount; a plain path is mounted at the same path below the working directory."""
    expected: tuple[str, ...] = ()
    """Node ids that must pass. Without this and `also`, every test of `tests` must pass."""
    also: tuple[str, ...] = ()
    """Node ids that must keep passing."""
    roots: tuple[str, ...] = (".",)
    """Import roots, added after the standard library; relative to the working directory."""
    timeout_s: float = 300.0
    args: tuple[str, ...] = ()
    """More arguments for pytest, for example `-o`, `asyncio_mode=auto`."""
    env: dict[str, str] = {}
    """Variables of the tests' process."""
    variables: tuple[str, ...] = ()
    """Names of those of them that the code under test gets where it runs in a process of its own."""
    allow: tuple[str, ...] = ()
    """Names of suspicions that are part of this task's honest solutions."""
    keep: tuple[str, ...] = ()
    """Patterns of paths that the agent may change."""


class _Plan(NamedTuple):
    """Resolved parameters."""

    parameters: PytestParameters
    mounts: tuple[Mount, ...]
    targets: tuple[str, ...]
    digest: str
    roots: tuple[str, ...]


class _Run(NamedTuple):
    report: dict[str, Any] | None
    result: ExecResult
    alive: tuple[ProcessInfo, ...]


class _Part(NamedTuple):
    """Result of the tests that were judged by one method."""

    ruling: Ruling
    marks: frozenset[str]
    tests: tuple[str, ...]
    grade: Separation
    report: dict[str, Any] | None = None
    """The runner's report; None if no tests ran."""
    confirms: tuple[str, ...] = ()
    """Tests of another part that ran once more, for no grade of their own."""

    @property
    def weight(self) -> int:
        """Number of tests in the score: what is only confirmed counts twice if it is not."""
        return len(self.tests) if self.ruling.status == "pass" else len(self.tests or self.confirms)


class PytestCheck:
    """Runs the tests of the task's separation plan from outside, and then the others in process."""

    kind = "pytest"

    async def judge(self, given: CheckInput) -> CheckResult:
        cited = CitedEvidence(given.prefix)
        require_mounts(given.backend)
        if not has_tool_layer(given.spec):
            raise VerifierError("the check 'pytest' needs the tool layer mounted at /opt/assay: run `assay setup`")
        plan = await asyncio.to_thread(_plan, given)
        separation = await asyncio.to_thread(load_plan, given.folder)
        parts = await _judge_parts(given, plan, separation, cited)
        _cite_report(cited, [part.report for part in parts if part.report is not None])
        ruling = merge_rulings([(part.ruling, part.weight) for part in parts])
        grade, grades = _grades(plan.parameters, parts)
        files = plan.digest if separation is None else digest_bytes(plan.digest.encode() + encode_plan(separation))
        ruling = ruling._replace(marks=tuple(sorted(frozenset().union(*(part.marks for part in parts)))))
        verifier = verifier_digest(self.kind, given.check.parameters, files)
        verdict = cited.make_verdict(given.check, verifier, ruling, separation=grade, separations=grades)
        return CheckResult(verdict, tuple(cited.items), mounts_tests=True)


async def _judge_parts(
    given: CheckInput, plan: _Plan, separation: SeparationPlan | None, cited: CitedEvidence
) -> tuple[_Part, ...]:
    """Judges from outside the tests that permit it, then the others in process."""
    planned = await asyncio.to_thread(
        select_planted, given.changes, given.spec, plan.roots, plan.parameters.keep
    ) + _edited(given, plan)
    undoing = CleanupPlan(given.backend, given.spec, given.changes, planned)
    wanted = tuple(dict.fromkeys((*plan.parameters.expected, *plan.parameters.also)))
    carried = () if separation is None else tuple(t for t in separation.of_method("splice") if t.id in set(wanted))
    parts = await _judge_called(given, separation, wanted, cited)
    if separation is not None and carried:
        with contextlib.suppress(NotJoinable):
            apart = {test.id for test in carried}.union(*(part.tests for part in parts))
            confirm = apart == set(wanted) and all(part.ruling.status == "pass" for part in parts)
            parts += await _judge_spliced(given, plan, SplicedTests(separation, carried, undoing, confirm), cited)
    judged = {name for part in parts for name in part.tests}
    rest = tuple(name for name in wanted if name not in judged)
    if any(NO_RESULT in part.marks for part in parts):
        return tuple(parts)  # judged again from outside, before code of the agent's meets the tests
    if judged and any(part.confirms for part in parts):
        return tuple(parts)
    # What passes from outside must pass in process, too: a test may assert what no pipe and no drawn input shows.
    passed = tuple(name for name in wanted if name in judged and all(part.ruling.status == "pass" for part in parts))
    if rest or passed or not judged:
        parts += await _judge_in_process(given, plan, rest, passed, undoing, cited)
    return tuple(parts)


async def _judge_called(
    given: CheckInput, separation: SeparationPlan | None, wanted: Sequence[str], cited: CitedEvidence
) -> list[_Part]:
    """Asks the final state fresh inputs, first of all, so that no test of the task was ever in the worker's sandbox."""
    parts = []
    carried = {test.id for test in separation.of_method("calls")} if separation is not None else set()
    for plan in call_plans(separation):
        called = await judge_called_tests(given, plan, cited)
        names = tuple(name for name in wanted if name in carried and name in plan.tests)
        parts.append(_Part(called.ruling, frozenset(called.ruling.marks), names, called.grade))
    return parts


class SplicedTests(NamedTuple):
    separation: SeparationPlan
    tests: tuple[TestPlan, ...]
    undoing: CleanupPlan
    confirm: bool
    """Nothing of the check is left but to confirm what passes: that runs in the judge's sandbox, if it can."""


async def _judge_spliced(given: CheckInput, plan: _Plan, spliced: SplicedTests, cited: CitedEvidence) -> list[_Part]:
    names = tuple(test.id for test in spliced.tests)
    # Asked for one by one, in the plan's order: the order in which the plan was proven.
    configuration = {**_configuration(given, plan), "owned": [], "only": names, "args": [*plan.parameters.args, *names]}
    configuration["one_canary"] = True  # nothing of the agent's is there that could make more of them pass
    limit = given.patience * spliced.separation.call_timeout_s
    configuration["splice"] = {**configure_splice(spliced.separation, spliced.tests), "call_timeout_s": limit}
    env = plan.parameters.env
    lent = {name: text for name, text in env.items() if name in plan.parameters.variables}
    again = {**_configuration(given, plan), "one_canary": True} if spliced.confirm else None
    request = SpliceRequest(plan.mounts, env, lent, configuration, spliced.undoing, again)
    screened = await _screen(given, plan, spliced, request, cited)
    if screened is not None:
        return [screened]
    run = await run_spliced(given, request, cited)
    part = _part_of(run, plan, spliced)
    if part.ruling.status != "pass" or run.again is None:
        return [part]
    again = run.again.report
    ruling = _confirm(_facts(plan, _Run(again, run.judge, run.again.alive), ()))
    if ruling.status == "pass" or "forged" in ruling.marks:
        wanted = (*plan.parameters.expected, *plan.parameters.also)
        return [part, _confirmation(ruling, frozenset(), _without_passes(again, wanted), wanted)]
    # The tests run again in a sandbox of their own; code that knows the one from the other is not forgiven for it.
    doubt = {DISTURBED} if again["problems"] and not again["timed_out"] else set()
    return [part._replace(marks=part.marks | doubt)]


async def _screen(
    given: CheckInput, plan: _Plan, spliced: SplicedTests, request: SpliceRequest, cited: CitedEvidence
) -> _Part | None:
    """Returns the result of a judge that runs the tests of many attempts, if that is a plain failure."""
    if given.screen is None:
        return None

    def fails(run: SplicedRun) -> bool:
        with contextlib.suppress(VerifierError):  # the judge that decides will say so
            part = _part_of(run, plan, spliced)
            return part.ruling.status == "fail" and is_plain(run) and NO_RESULT not in part.marks
        return False

    run = await given.screen.run(given, request, cited, fails)
    return None if run is None else _part_of(run, plan, spliced)


def _part_of(run: SplicedRun, plan: _Plan, spliced: SplicedTests) -> _Part:
    run.require_planned(spliced.separation, spliced.tests)
    names = tuple(test.id for test in spliced.tests)
    told = _Run(run.report, run.judge, run.alive)
    # What the agent's files reach for is nothing to doubt here: none of it is where the tests are.
    facts = _facts(_of_tests(plan, names), told, ())
    facts = facts._replace(timed_out=facts.timed_out or "worker_late" in run.marks)
    ruling = rule(facts)
    marks = {*run.findings.marks, *ruling.marks, *run.marks, *_no_result(ruling, facts)}
    return _Part(ruling, frozenset(marks), names, run.grade, run.report)


def _confirmation(
    ruling: Ruling, marks: frozenset[str], report: dict[str, Any] | None, confirmed: tuple[str, ...]
) -> _Part:
    """Returns the part of tests that passed from outside and ran once more in process."""
    told = (NOT_CONFIRMED,) if ruling.status == "fail" else ()
    return _Part(ruling, marks | {*ruling.marks, *told}, (), "same-process", report, confirmed)


async def _judge_in_process(
    given: CheckInput,
    plan: _Plan,
    names: tuple[str, ...],
    confirmed: tuple[str, ...],
    undoing: CleanupPlan,
    cited: CitedEvidence,
) -> list[_Part]:
    """Runs tests in a fork of the final state, in one process with the code under test: those that are judged by it
    alone, and those that are confirmed."""
    wanted = (*names, *confirmed)
    plan = _of_tests(plan, wanted)
    spec = runner_spec(given.spec, plan.mounts, plan.parameters.env)
    async with opened(given.backend, spec, given.state) as workspace:
        findings = await clean(workspace, undoing)
        cited.findings(findings)
        run = await _run(workspace, given, plan, one_canary=not names and bool(confirmed))
    untrusted = findings.untrusted(plan.parameters.allow)
    _cite(cited, run)
    parts = []
    if names or not confirmed:
        facts = _facts(_of_tests(plan, names), run, untrusted)
        ruling = rule(facts)
        left = ("left_processes",) if run.alive else ()
        marks = {*findings.marks, *ruling.marks, *left, *_no_result(ruling, facts)}
        parts.append(_Part(ruling, frozenset(marks), names, "same-process", _without_passes(run.report, confirmed)))
    if confirmed:
        facts = _facts(_of_tests(plan, confirmed), run, ())
        ruling = _confirm(facts)
        cleaning = frozenset({*findings.marks, *_no_result(ruling, facts)})
        report = None if parts else _without_passes(run.report, confirmed)
        parts.append(_confirmation(ruling, cleaning, report, confirmed))
    return parts


def _confirm(facts: PytestFacts) -> Ruling:
    """Returns the ruling over tests that pass from outside. A doubt counts for nothing: the grade rests on the run
    outside, which was not forged."""
    ruling = rule(facts)
    if ruling.status == "unknown" and not came_to_no_result(facts):
        ruling = Ruling("pass", 1.0, "", ruling.marks)
    return ruling._replace(reason="they pass in process, too") if ruling.status == "pass" else ruling


def _without_passes(report: dict[str, Any] | None, names: Sequence[str]) -> dict[str, Any] | None:
    """Returns a report without the tests that another report tells as passed."""
    if report is None:
        return None
    told = set(names)
    tests = [one for one in report["tests"] if one.get("id") not in told or one.get("status") != "passed"]
    return {**report, "tests": tests}


def _no_result(ruling: Ruling, facts: PytestFacts) -> tuple[str, ...]:
    """Returns the mark of a run without a result, whatever the cause."""
    return (NO_RESULT,) if ruling.score is None and came_to_no_result(facts) else ()


def _of_tests(plan: _Plan, names: Sequence[str]) -> _Plan:
    """Returns the plan for some of its tests."""
    parameters = plan.parameters
    some = {
        kind: tuple(name for name in getattr(parameters, kind) if name in set(names)) for kind in ("expected", "also")
    }
    return plan._replace(parameters=msgspec.structs.replace(parameters, **some))


def _grades(parameters: PytestParameters, parts: Sequence[_Part]) -> tuple[Separation, dict[Separation, int]]:
    """Returns the weakest grade of the tests that must change to passing, and the number of required tests by grade."""
    counts: dict[Separation, int] = {}
    for part in parts:
        if part.tests:
            counts[part.grade] = counts.get(part.grade, 0) + len(part.tests)
    deciding = set(parameters.expected)
    grades = [part.grade for part in parts if part.tests and (not deciding or deciding & set(part.tests))]
    if not grades:  # no test is named
        grades = [part.grade for part in parts]
    return weakest(grades), counts


def _inside(base: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(base, path))


def _plan(given: CheckInput) -> _Plan:
    """Stages the test files. Raises `TaskError` if the parameters do not fit the folder."""
    try:
        parameters = msgspec.convert(given.check.parameters, PytestParameters)
    except msgspec.ValidationError as exc:
        raise TaskError(f"parameters of check {given.check.name!r}: {exc}") from exc
    if given.folder is None or not parameters.tests:
        raise TaskError(f"check {given.check.name!r} needs the task's folder and at least one entry in `tests`")
    mounts, digests = [], []
    for entry in parameters.tests:
        test = TestMount(entry, entry) if isinstance(entry, str) else entry
        staged = _staged(given.folder, test)
        mounts.append(Mount(str(staged.path), _inside(given.spec.workdir, test.target)))
        digests.append(f"{test.target} {staged.digest}")
    parameters = msgspec.structs.replace(parameters, timeout_s=given.patience * parameters.timeout_s)
    roots = tuple(_inside(given.spec.workdir, root) for root in parameters.roots)
    targets = tuple(mount.target for mount in mounts)
    return _Plan(parameters, tuple(mounts), targets, digest_bytes("\n".join(digests).encode()), roots)


def _staged(folder: Path, test: TestMount) -> StagedCopy:
    source = Path(test.source)
    target_leaves = not test.target or ".." in Path(test.target).parts
    if source.is_absolute() or ".." in source.parts or target_leaves or not (folder / source).exists():
        raise TaskError(
            f"test file {test.source!r} (to {test.target!r}) is not in the task's folder, or a path leaves it"
        )
    return stage(folder / source)


def _edited(given: CheckInput, plan: _Plan) -> tuple[PlantedChange, ...]:
    """Returns marks for test files that the agent changed; the mounts cover them."""
    return tuple(
        PlantedChange(change.path, "edited_tests", "note")
        for change in given.changes
        if any(change.path == target or change.path.startswith(target + "/") for target in plan.targets)
    )


def _configuration(given: CheckInput, plan: _Plan) -> dict[str, Any]:
    wanted = (*plan.parameters.expected, *plan.parameters.also)
    files = dict.fromkeys(_inside(given.spec.workdir, name.partition("::")[0]) for name in wanted)
    return {
        "args": [*plan.parameters.args, *(files or plan.targets)],
        "only": list(wanted),
        "rootdir": given.spec.workdir,
        "roots": list(plan.roots),
        "owned": list(plan.targets),
        "cwd": given.spec.workdir,
        "timeout_s": plan.parameters.timeout_s,
    }


async def _run(workspace: Workspace, given: CheckInput, plan: _Plan, *, one_canary: bool) -> _Run:
    result = await workspace.exec(
        [*RUNNER, "check"],
        stdin=json.dumps({**_configuration(given, plan), "one_canary": one_canary}).encode(),
        timeout_s=plan.parameters.timeout_s + GRACE_S,
        show_bytes=MOST_REPORT,
    )
    alive = () if result.timed_out else await left_running(workspace)
    await workspace.kill_all()
    try:
        report = msgspec.json.decode(result.stdout, type=dict[str, Any]) if result.exit_code == 0 else None
    except (msgspec.MsgspecError, RecursionError):
        report = None
    return _Run(report, result, alive)


def _facts(plan: _Plan, run: _Run, untrusted: Sequence[str]) -> PytestFacts:
    parameters = plan.parameters
    report = run.report
    return PytestFacts(
        expected=parameters.expected,
        also=parameters.also,
        report=None if report is None else recorded(report),
        problems=tuple(str(p) for p in report["problems"]) if report else (),
        always_equal=tuple(str(p) for p in report["always_equal"]) if report else (),
        broken_files=_uncollected(report) if report else (),
        canaries=int(report["canaries"]["failed"]) if report else 0,
        forged=bool(report and _passed_canaries(report)),
        timed_out=run.result.timed_out or bool(report and report["timed_out"]),
        exit_code=run.result.exit_code,
        left_running=len(run.alive),
        untrusted=tuple(untrusted),
    )


def _uncollected(report: dict[str, Any]) -> tuple[str, ...]:
    skipped = [f"{name} left itself out" for name in report["skipped_files"]]
    return (*(str(name) for name in report["broken_files"]), *skipped)


def _passed_canaries(report: dict[str, Any]) -> int:
    canaries = report["canaries"]
    return int(canaries["planted"]) - int(canaries["failed"]) - int(canaries["unsure"])


def _cite(cited: CitedEvidence, run: _Run) -> None:
    report, result = run.report, run.result
    tail = str(report["tail"]) if report else result.stdout[-4000:]
    shown = msgspec.structs.replace(result, stdout=tail[-20_000:])
    cited.execution([PYTHON, f"{SUPERVISOR}/runner.py", "check"], "", shown)
    if run.alive:
        cited.processes("tests ended", run.alive)


def _cite_report(cited: CitedEvidence, reports: Sequence[dict[str, Any]]) -> None:
    """Cites the reports of all parts as one report of the check's tests."""
    if not reports:
        return
    lists = ("tests", "problems", "always_equal", "broken_files", "skipped_files", "refusals")
    merged: dict[str, Any] = {name: [one for report in reports for one in report.get(name, ())] for name in lists}
    told: TestReport = recorded({"tests": merged.pop("tests")})
    refusals = merged.pop("refusals")
    canaries = {name: sum(report["canaries"][name] for report in reports) for name in reports[0]["canaries"]}
    calls = sum(sum(report.get("calls", {}).values()) for report in reports)
    ended = {name: max(report[name] for report in reports) for name in ("exit", "timed_out")}
    outside = {"refusals": refusals, "calls": calls} if calls or refusals else {}
    cited.report(told, **merged, canaries=canaries, order=reports[0]["order"], **ended, **outside)
