"""The check `script`: a Harbor task's `tests/test.sh` and the reward that it writes.

The script runs in a fresh fork of the final state; with `environment_mode = "separate"`, in its own image with only the
declared artifacts; where the task names the programs that are judged, on its image alone, and those run in a sandbox of
their own (`judged_programs`). Tests are mounted only now and read-only, the solution never, `/logs/verifier` is fresh
and the verifier's own, the environment is clean, `pytest` and `python3` are the recorded runner's. Its files are read
after all processes in the sandbox were killed. `_script_rules` defines the requirements of a pass.

Covered: pre-written and late rewards, planted configuration, replaced programs, an early exit or a patched runner in
`pytest`, a run without tests, processes that outlive the script, writes to the memory of the script's shell, records
that are forged after a test run. Not covered where judged code runs beside the script (the verdict is `same-user` or
`same-process`): code that rewrites the reward between two of the script's lines, or reads the answers out of the tests
while they run, by a path that it builds from pieces.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
from collections.abc import AsyncIterator, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from assay.code.pytest_output import read_pytest_output
from assay.code.results import MOST_ID, STATUSES, TestReport, TestResult, TestStatus, make_report
from assay.environments.capabilities import CountsOrphans
from assay.environments.interface import Change, ExecResult, Mount, Workspace, WorkspaceSpec
from assay.errors import TaskError
from assay.records import Separation
from assay.verdicts import NO_RESULT, weakest
from assay.verify._script_rules import Demand, ScriptFacts, came_to_no_result, rule, rule_literally, without_own_doubts
from assay.verify._staging import StagedCopy, stage
from assay.verify.cited_evidence import CitedEvidence, verifier_digest
from assay.verify.interface import CheckInput, CheckResult
from assay.verify.judged_programs import MOST_NAMES, JudgedPrograms, judged_spec
from assay.verify.reference_run import find_reference_difference
from assay.verify.rewards import ScriptOutputs, collect, headline
from assay.verify.sanitise import (
    CleanupPlan,
    Findings,
    clean,
    has_tool_layer,
    left_running,
    opened,
    require_mounts,
    select_planted,
    verifier_spec,
)
from assay.verify.script_requests import ScriptRequests
from assay.verify.separation import cite_separation, observe_loads, read_facts, read_loads
from assay.verify.transcript import Transcript

TESTS = "/tests"
DEFAULT_TIMEOUT_S = 600.0
MOST_BROUGHT = 1 << 30
"""Limit of the bytes of one declared artifact, including holes."""
_TOLD = ("problems", "always_equal", "canaries", "exit", "order")
_RUNNER = re.compile(rb"\bpy\.?test\b")
_INLINE = re.compile(rb"\b(?:python|node|perl|ruby)[\d.]*(?: +-\w+)* +-(?:[ce]\b|\s)")
"""A program inside the script, which may import the judged code."""
_JUDGE = re.compile(rb"\bassay-judge (?:run|read)\b")


class ScriptParameters(msgspec.Struct, frozen=True):
    """Parameters of the check; other keys are for other readers."""

    script: str | None = None
    """Relative to the task's folder; its parent folder is mounted. None: a separate verifier's image contains it."""
    interpreter: tuple[str, ...] = ("/bin/sh",)
    timeout_s: float = DEFAULT_TIMEOUT_S
    env: dict[str, str] = {}
    mode: str = "shared"
    network_mode: str | None = None
    """With `no-network`, or a list that cannot be enforced here, the verifier has no network; otherwise the agent's."""
    literal: bool = False
    """The reward file alone decides, as in Harbor; the verdict is marked."""
    evidence: Demand | None = None
    """Requirement for a pass besides the reward; default `tests` if a test script names pytest, otherwise `script`."""
    allow: tuple[str, ...] = ()
    """Names of suspicions that are part of this task's honest solutions."""
    keep: tuple[str, ...] = ()
    """Patterns of paths that the agent may change."""
    roots: tuple[str, ...] = ()
    """Folders that the tests import from, besides the usual ones."""
    programs: tuple[str, ...] = ()
    """Absolute paths of the judged programs. The script then runs on the task's image, without the agent's files; at
    each of these paths it finds a stand-in that starts the program in a sandbox of its own."""
    outputs: tuple[str, ...] = ()
    """Absolute paths of files that the script reads: copied as data to the same path, at the start and after each
    program."""
    inputs: tuple[str, ...] = ()
    """Absolute paths that the script lends to its programs in addition to those on their command lines: its own files,
    and files and folders below `/tests`."""
    variables: tuple[str, ...] = ()
    """Names of the script's variables that its programs get."""


class ScriptCheck:
    """Runs a test script and reads its reward."""

    kind = "script"

    async def judge(self, given: CheckInput) -> CheckResult:
        cited = CitedEvidence(given.prefix)
        require_mounts(given.backend)
        parameters = msgspec.convert(given.check.parameters, ScriptParameters)
        parameters = msgspec.structs.replace(parameters, timeout_s=given.patience * parameters.timeout_s)
        tests = await asyncio.to_thread(stage_tests, given.folder, parameters.script)
        way = _apart if _is_apart(parameters, tests) else _separate if parameters.mode == "separate" else _shared
        facts, marks, left, separation = await way(given, parameters, tests, cited)
        if way is not _apart and _names(tests, _INLINE):
            separation = weakest([separation, "same-process"])
        if separation == "separate":
            facts = without_own_doubts(facts)
        facts = facts._replace(demand=_demand(parameters, tests))
        if facts.orphans and "orphaned_processes" not in parameters.allow:
            marks = (*marks, "orphaned_processes")
        ruling = rule_literally(facts) if parameters.literal else rule(facts)
        if parameters.literal:
            marks = (*marks, "literal")
        marks = (*marks, NO_RESULT) if ruling.score is None and came_to_no_result(facts) else marks
        reason = "; ".join([ruling.reason, *facts.notes])
        ruling = ruling._replace(reason=reason, marks=tuple(sorted({*marks, *ruling.marks})))
        verifier = verifier_digest(self.kind, given.check.parameters, tests.digest if tests else None)
        verdict = cited.make_verdict(given.check, verifier, ruling, separation=separation, rewards=left.rewards.values)
        return CheckResult(verdict, tuple(cited.items))


def stage_tests(folder: Path | None, script: str | None) -> StagedCopy | None:
    """Returns a copy of the folder of a task's test script. Raises `TaskError` if it is missing."""
    if script is None:
        return None
    path = Path(script)
    if folder is None or path.is_absolute() or ".." in path.parts or not (folder / path).is_file():
        raise TaskError(f"the test script {script!r} is not in the task's folder")
    return stage((folder / path).parent)


def _demand(parameters: ScriptParameters, tests: StagedCopy | None) -> Demand:
    if parameters.evidence is not None:
        return parameters.evidence
    return "tests" if _names(tests, _RUNNER) else "script"


def _is_apart(parameters: ScriptParameters, tests: StagedCopy | None) -> bool:
    """Returns whether judged programs run in a sandbox of their own, as the task or its script declares."""
    return bool(parameters.programs or parameters.outputs) or _names(tests, _JUDGE)


@lru_cache(maxsize=1024)
def _names(tests: StagedCopy | None, pattern: re.Pattern[bytes]) -> bool:
    """Returns whether a script of the tests folder names a program. A staged copy does not change."""
    return any(pattern.search(_without_comments(p.read_bytes()[: 1 << 20])) for p in _scripts(tests))


def _scripts(tests: StagedCopy | None) -> list[Path]:
    if tests is None:
        return []
    return [p for p in tests.path.rglob("*") if p.is_file() and p.suffix in ("", ".sh", ".bash")][:200]


def _without_comments(data: bytes) -> bytes:
    return b"\n".join(line for line in data.splitlines() if not line.lstrip().startswith(b"#"))


_ScriptRun = tuple[ScriptFacts, tuple[str, ...], ScriptOutputs, Separation]


class _SharedSandbox(NamedTuple):
    """Sandbox that the script shares with the judged code."""

    workspace: Workspace
    tests: StagedCopy | None
    changes: tuple[Change, ...]
    """The agent's changes in this sandbox."""
    findings: Findings


def _mounts(tests: StagedCopy | None) -> tuple[Mount, ...]:
    return (Mount(str(tests.path), TESTS),) if tests is not None else ()


def own_network(spec: WorkspaceSpec, parameters: ScriptParameters) -> WorkspaceSpec:
    """Returns the verifier's spec with the network of its own policy."""
    own = parameters.network_mode in (None, "public")
    return spec if own else msgspec.structs.replace(spec, network="none")


async def _shared(
    given: CheckInput, parameters: ScriptParameters, tests: StagedCopy | None, cited: CitedEvidence
) -> _ScriptRun:
    spec = own_network(verifier_spec(given.spec, _mounts(tests), parameters.env), parameters)
    async with opened(given.backend, spec, given.state) as workspace:
        findings = await _cleaned(workspace, given, parameters, cited, given.changes)
        return await _run_beside(given, parameters, cited, _SharedSandbox(workspace, tests, given.changes, findings))


async def _run_beside(
    given: CheckInput, parameters: ScriptParameters, cited: CitedEvidence, beside: _SharedSandbox
) -> _ScriptRun:
    """Runs the script in one sandbox with the judged code, whose programs may write its files. A test runner imports
    the code under test, so it is not observed: its grade is the lowest in any case. Nor is a script observed where the
    agent left no file: there is nothing of it to load."""
    workspace, imports = beside.workspace, _names(beside.tests, _RUNNER)
    paths = [] if imports else _paths_left(beside.changes)
    if paths:
        await observe_loads(workspace, paths)
    facts, marks, left = await _run(workspace, given, parameters, cited, beside.findings)
    loads = await read_loads(workspace) if paths else None
    box = await read_facts(workspace)
    grade = cite_separation(cited, box, [box], image=workspace.spec.image.digest, loads=loads)
    return facts, marks, left, weakest([grade, "same-process"]) if imports or facts.records else grade


def _paths_left(changes: Iterable[Change]) -> list[str]:
    """Returns the files that an agent wrote. Links are omitted: their targets are in the list or in the image."""
    return [change.path for change in changes if change.kind != "removed" and change.type == "file"]


async def _apart(
    given: CheckInput, parameters: ScriptParameters, tests: StagedCopy | None, cited: CitedEvidence
) -> _ScriptRun:
    """Runs the script on the image alone; judged programs start in a second sandbox with the final state."""
    base = given.separate or given.spec if parameters.mode == "separate" else given.spec
    if parameters.programs and not has_tool_layer(base):
        raise TaskError("judged programs need the tool layer in the script's sandbox: run `assay setup`")
    spec = own_network(verifier_spec(base, _mounts(tests), parameters.env), parameters)
    transcript = Transcript()
    async with opened(given.backend, spec) as script, _final_state(given, parameters, cited) as (judged, changes):
        findings = await _cleaned(judged, given, parameters, cited, changes)
        programs = await _programs(script, judged, parameters, transcript)
        if parameters.outputs:  # else no file that the agent wrote is in the script's sandbox
            await observe_loads(script, parameters.outputs)
        facts, marks, left = await _run(script, given, parameters, cited, findings, programs)
        await judged.kill_all()
        cut_short = 0 if facts.timed_out else programs.cut_short
        runs = [list(run) for run in programs.runs]
        names = {"withheld_variables": programs.withheld, "withheld_files": programs.bare, "lent_files": programs.lent}
        listed = {key: sorted(found)[:MOST_NAMES] for key, found in names.items() if found}
        cited.add("audit", "judged_programs", {"programs": runs, "cut_short": cut_short, **listed})
        loads = await read_loads(script) if parameters.outputs else None
        judge_facts, judged_facts = await read_facts(script), await read_facts(judged)

    async def run_again(reference: CheckInput, its_transcript: Transcript) -> None:
        state = _final_state(reference, parameters, CitedEvidence("reference"))
        async with opened(given.backend, spec) as script, state as (judged, _):
            programs = await _programs(script, judged, parameters, its_transcript)
            async with ScriptRequests(script, programs).serving():
                await script.exec(_command(parameters), timeout_s=parameters.timeout_s)
                await script.kill_all()

    difference = ""
    if left.rewards.values and headline(left.rewards.values) > 0:
        difference = programs.repeated or await find_reference_difference(given, transcript, run_again)
    separation = cite_separation(
        cited, judge_facts, [judged_facts], image=base.image.digest, loads=loads, difference=difference
    )
    return facts._replace(notes=(difference,) if difference else ()), marks, left, separation


async def _programs(
    script: Workspace, judged: Workspace, parameters: ScriptParameters, transcript: Transcript
) -> JudgedPrograms:
    """Returns the judged programs of a script, with a stand-in at each program's path."""
    programs = JudgedPrograms(
        script,
        judged,
        outputs=parameters.outputs,
        inputs=parameters.inputs,
        variables=parameters.variables,
        timeout_s=parameters.timeout_s,
        transcript=transcript,
    )
    await programs.prepare(parameters.programs)
    return programs


def _command(parameters: ScriptParameters) -> list[str]:
    return [*parameters.interpreter, f"{TESTS}/{Path(parameters.script or 'test.sh').name}"]


@contextlib.asynccontextmanager
async def _final_state(
    given: CheckInput, parameters: ScriptParameters, cited: CitedEvidence
) -> AsyncIterator[tuple[Workspace, tuple[Change, ...]]]:
    """Yields the sandbox of the judged programs, and the agent's changes in it."""
    base = own_network(judged_spec(given.spec), parameters)  # the verifier's own image may contain expected answers
    if parameters.mode == "separate":
        async with _with_artifacts(given, base, cited, replaced=True) as opened_with:
            yield opened_with
    else:
        async with opened(given.backend, base, given.state) as workspace:
            yield workspace, given.changes


async def _separate(
    given: CheckInput, parameters: ScriptParameters, tests: StagedCopy | None, cited: CitedEvidence
) -> _ScriptRun:
    """Runs the script in a fresh image with only the declared artifacts of the final state."""
    spec = own_network(verifier_spec(given.separate or given.spec, _mounts(tests), parameters.env), parameters)
    async with _with_artifacts(given, spec, cited) as (workspace, changes):
        findings = await _cleaned(workspace, given, parameters, cited, changes)
        return await _run_beside(given, parameters, cited, _SharedSandbox(workspace, tests, changes, findings))


@contextlib.asynccontextmanager
async def _with_artifacts(
    given: CheckInput, spec: WorkspaceSpec, cited: CitedEvidence, *, replaced: bool = False
) -> AsyncIterator[tuple[Workspace, tuple[Change, ...]]]:
    """Yields a fresh sandbox with the declared artifacts, and the agent's changes among them.

    `replaced` removes the image's files at their places first, so that files that the agent removed stay removed.
    """
    with tempfile.TemporaryDirectory(prefix="assay-artifacts-") as folder:
        brought, left_out = await _bring_out(given, Path(folder))
        room = await asyncio.to_thread(_with_room, spec, brought.values())
        async with opened(given.backend, room) as workspace:
            if replaced:
                await workspace.exec(["/bin/rm", "-rf", "--", *_declared_artifacts(given)], cwd="/")
            for source, copy in brought.items():
                await workspace.upload(copy, source)
            told = {"brought": sorted(brought), "left_out": left_out, "image": spec.image.digest}
            cited.add("state", "artifacts", told)
            inside = tuple(c for c in given.changes if any((c.path + "/").startswith(s + "/") for s in brought))
            yield workspace, inside


def _with_room(spec: WorkspaceSpec, brought: Iterable[Path]) -> WorkspaceSpec:
    """Returns the spec with additional disk space for the artifacts, so that they cannot fill the verifier's disk."""
    if spec.limits.disk_mib is None:
        return spec
    files = (path for top in brought for path in (top, *top.rglob("*")) if path.is_file() and not path.is_symlink())
    more = sum(-(-path.stat().st_size // 4096) * 4096 for path in files) // (1 << 20) + 1
    limits = msgspec.structs.replace(spec.limits, disk_mib=spec.limits.disk_mib + more)
    return msgspec.structs.replace(spec, limits=limits)


def _declared_artifacts(given: CheckInput) -> list[str]:
    declared = given.task.environment.parameters.get("artifacts") or []
    return [str(entry.get("source")) for entry in declared if isinstance(entry, dict)]


async def _bring_out(given: CheckInput, folder: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """Copies the declared artifacts out of a fork. Returns the copied ones, and why others were left out."""
    sources = _declared_artifacts(given)
    spec = msgspec.structs.replace(given.spec, user="verifier")
    brought: dict[str, Path] = {}
    left_out: dict[str, str] = {}
    async with opened(given.backend, spec, given.state) as workspace:
        for index, source in enumerate(dict.fromkeys([*sources, "/logs/artifacts"])):
            try:
                await workspace.download(source, folder / str(index), limit=MOST_BROUGHT)
            except (OSError, ValueError) as exc:
                if source in sources:
                    left_out[source] = str(exc)[:300]
                continue
            if (folder / str(index)).exists() and not (folder / str(index)).is_symlink():
                brought[source] = folder / str(index)
    return brought, left_out


async def _cleaned(
    workspace: Workspace,
    given: CheckInput,
    parameters: ScriptParameters,
    cited: CitedEvidence,
    changes: tuple[Change, ...],
) -> Findings:
    planned = await asyncio.to_thread(select_planted, changes, given.spec, parameters.roots, parameters.keep)
    findings = await clean(workspace, CleanupPlan(given.backend, given.spec, changes, planned))
    cited.findings(findings)
    return findings


async def _run(
    workspace: Workspace,
    given: CheckInput,
    parameters: ScriptParameters,
    cited: CitedEvidence,
    findings: Findings,
    programs: JudgedPrograms | None = None,
) -> tuple[ScriptFacts, tuple[str, ...], ScriptOutputs]:
    """Runs the script, kills all processes, and reads the script's files."""
    argv = _command(parameters)
    before = await _orphans(workspace)
    requests = ScriptRequests(workspace, programs)
    async with requests.serving():
        result = await workspace.exec(argv, timeout_s=parameters.timeout_s, spill=given.blobs)
        cited.execution(argv, workspace.spec.workdir, result)
        alive = () if result.timed_out else await left_running(workspace)
        orphans = await _orphans(workspace) - before
        await workspace.kill_all()
    if alive:
        cited.processes("test script ended", alive)
    left = _with_records(await collect(workspace), requests)
    marks = [*findings.marks, *left.marks, *(("left_processes",) if alive else ())]
    reports = _cite(cited, left, result)
    facts = ScriptFacts(
        exit_code=result.exit_code,
        timed_out=result.timed_out,
        killed_by=result.killed_by,
        rewards=left.rewards,
        records=left.records,
        reports=reports,
        left_running=len(alive),
        orphans=orphans,
        untrusted=(*findings.untrusted(parameters.allow), *left.marks),
        demand="script",
        allowed=parameters.allow,
    )
    return facts, tuple(marks), left


def _with_records(left: ScriptOutputs, requests: ScriptRequests) -> ScriptOutputs:
    """Returns the script's files with the records that the test runner sent; a record in a file is not trusted."""
    if not requests.takes_records:
        return left
    problem = "a record came as a file, which every process of the script may write"
    strays = tuple({**record, "problems": [problem]} for record in left.records)
    marks = (*left.marks, "forged") if strays else left.marks
    return left._replace(records=(*requests.records(), *strays), marks=marks)


async def _orphans(workspace: Workspace) -> int:
    return await workspace.orphans() if isinstance(workspace, CountsOrphans) else 0


def _cite(cited: CitedEvidence, left: ScriptOutputs, result: ExecResult) -> tuple[TestReport, ...]:
    for record in left.records:
        cited.report(recorded(record), **{k: record.get(k) for k in _TOLD})
    reports = list(left.reports)
    with contextlib.suppress(ValueError):  # a script need not print what pytest prints
        reports.append(read_pytest_output(result.stdout))
    for report in reports:
        cited.report(report)
    rewards: dict[str, Any] = {"values": left.rewards.values, "source": left.rewards.source, "files": list(left.names)}
    cited.add("state", "reward", {**rewards, "problem": left.rewards.problem})
    return tuple(reports)


def recorded(record: dict[str, object]) -> TestReport:
    """Returns the recorder's results as a report; a test without a final result is an `error` with message
    `missing`."""
    tests = record.get("tests")
    results = []
    for test in tests if isinstance(tests, list) else []:
        told = test if isinstance(test, dict) else {}
        status, name = str(told.get("status")), str(told.get("id"))[:MOST_ID]
        known = status in STATUSES
        message = str(told.get("message", ""))[:500] if known else "missing"
        results.append(TestResult(name, cast(TestStatus, status) if known else "error", message))
    return make_report(results, "recorder")
