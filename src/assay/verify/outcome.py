"""Judges a sealed final state by every check of its task.

The state comes from a rollout that just ended or from a later re-verification. An exception of a check becomes a
verdict `error`, unless repeated control runs show that the agent's changes are the cause (`unjudgeable`).
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay import plugins
from assay.environments.interface import Backend, Snapshot, SpillTarget, WorkspaceSpec
from assay.environments.task_digest import digest_check
from assay.errors import AssayError, BoundaryError, EnvironmentFailure, HostFailure, StoreError, VerifierError, boundary
from assay.records import Check, Evidence, Task, Verdict, VerdictStatus
from assay.verdicts import FLAKY, HOST_FAILED, NO_RESULT, weakest, worst_outcome
from assay.verify.altered import (
    AlterableFile,
    ControlRun,
    ProgramRuns,
    altered_folder,
    choose_altered_tests,
    control_check,
    fewer_altered_tests,
    find_alterable_files,
    find_alterable_programs,
    needs_altered_programs,
    needs_altered_tests,
    program_folder,
    rule_altered,
    rule_altered_programs,
    stops_early,
)
from assay.verify.facts import judge_facts
from assay.verify.host_load import measure_load
from assay.verify.interface import (
    SEED_BYTES,
    CheckInput,
    CheckResult,
    OutcomeCheck,
    ReadTranscript,
    WorldCheck,
    WorldInput,
)
from assay.verify.sanitise import NotIsolated
from assay.verify.unjudgeable import (
    JudgedRun,
    blame_agent,
    choose_patience,
    excuse_late_run,
    fail_forger,
    failed_on_busy_host,
    has_no_result,
    is_forged,
    is_unresolved,
    met_limit_on_busy_host,
    replace_cut_short,
    replace_result,
)

if TYPE_CHECKING:
    from assay.verify.splice.screening import Screen


class JudgeRequest(msgspec.Struct, frozen=True):
    """State to be judged, with the task's checks and sandboxes."""

    task: Task
    folder: Path | None
    """Task folder on the host."""
    backend: Backend
    spec: WorkspaceSpec
    """The agent's spec."""
    state: Snapshot
    blobs: SpillTarget
    repetitions: int = 1
    """Number of times that each check judges, each in its own fork; if they disagree, the verdict is `unknown`."""
    separate: WorkspaceSpec | None = None
    """The verifier's own environment for checks in `separate` mode."""
    prefix: str = "v"
    """Prefix of the evidence's ids."""
    seeds: dict[str, bytes] = {}
    """Check to the seed of its drawn inputs, when recorded verdicts are repeated; other checks draw their own."""
    kinds: Mapping[str, OutcomeCheck] = {}
    """Objects that judge, by the kind of their check; other kinds are found by name."""
    transcript: ReadTranscript | None = None
    """As in `CheckInput`."""
    screen: Screen | None = None
    """As in `CheckInput`."""


class WorldRequest(NamedTuple):
    """Final facts of an in-process world to be judged, with the task's checks."""

    task: Task
    facts: dict[str, Any]
    digest: str | None
    kinds: Mapping[str, OutcomeCheck] = {}
    """As in `JudgeRequest`."""
    transcript: ReadTranscript | None = None


async def verify_outcome(request: JudgeRequest) -> tuple[CheckResult, ...]:
    """Returns one result per check, in the task's order, each with the evidence of all repetitions."""
    results = []
    for index, check in enumerate(request.task.checks):
        rounds = []
        for number in range(max(1, request.repetitions)):
            prefix = f"{request.prefix}{index}.{number}." if request.repetitions > 1 else f"{request.prefix}{index}."
            rounds.append(await _judge_or_retry(request, check, prefix))
        results.append(combine_repetitions(rounds))
    return tuple(results)


async def _judge_or_retry(request: JudgeRequest, check: Check, prefix: str) -> CheckResult:
    """Judges, and repeats once if the infrastructure around the check failed, other than the host or the store."""
    failure: BoundaryError | None = None
    for own in (prefix, f"{prefix}retry."):
        try:
            with boundary(VerifierError, f"controls of check {check.name!r}"):
                return await _judge_with_control(request, check, own)
        except (HostFailure, StoreError):
            raise
        except BoundaryError as exc:
            failure = exc
    assert failure is not None
    return _unjudged(check, failure)


async def _judge_with_control(request: JudgeRequest, check: Check, prefix: str) -> CheckResult:
    """Judges, with a control run over altered tests or over the unchanged state if the result needs one.

    All runs draw the same inputs: an attempt that prevents a result gets no second draw.
    """
    seed = request.seeds.get(check.name) or secrets.token_bytes(SEED_BYTES)
    request = msgspec.structs.replace(request, seeds={**request.seeds, check.name: seed})
    run = await _judge(request, check, prefix)
    request = msgspec.structs.replace(request, screen=None)
    if failed_on_busy_host(run):
        run = replace_cut_short(run, await _judge(request, check, f"{prefix}repeated.", choose_patience(run)))
    result = run.result
    if has_no_result(result, request.state.changes):
        result = await _judge_repeatedly(request, check, prefix, run)
    if needs_altered_tests(result):
        return await _judge_altered(request, check, prefix, result)
    if needs_altered_programs(result) and request.folder is not None:
        return await _judge_altered_programs(request, check, prefix, result, request.folder)
    return result


async def _judge_altered(request: JudgeRequest, check: Check, prefix: str, result: CheckResult) -> CheckResult:
    """Judges the same state over altered tests, to check that failures are observed."""
    if request.folder is None:
        return result
    files = await asyncio.to_thread(find_alterable_files, request.folder)
    chosen = await asyncio.to_thread(choose_altered_tests, files, request.folder, result)
    names = frozenset[str]().union(*chosen)
    control = await asyncio.to_thread(control_check, request.folder, check, result)
    runs = []
    for number, altered in enumerate(chosen):
        judged = await _judge_altered_once(request, files, control, f"{prefix}altered{number}.", altered)
        fewer = fewer_altered_tests(judged, altered)
        if fewer is not None:
            altered = fewer
            judged = await _judge_altered_once(request, files, control, f"{prefix}altered{number}.fewer.", altered)
        runs.append(ControlRun(altered, names - altered, judged))
    if not runs:
        return result
    early = await asyncio.to_thread(stops_early, request.folder, check)
    return rule_altered(result, runs, prefix, whole=not early)


async def _judge_altered_once(
    request: JudgeRequest, files: list[AlterableFile], check: Check, prefix: str, names: frozenset[str]
) -> CheckResult:
    assert request.folder is not None
    return await _judge_in(altered_folder(request.folder, files, names), request, check, prefix)


async def _judge_altered_programs(
    request: JudgeRequest, check: Check, prefix: str, result: CheckResult, folder: Path
) -> CheckResult:
    """Judges the same state again, unchanged and with altered programs in random order, to check that failures
    count."""
    programs = await asyncio.to_thread(find_alterable_programs, folder)
    if not programs:
        return result
    places: dict[str, Callable[[], AbstractContextManager[Path]]] = {
        "plain": lambda: contextlib.nullcontext(folder),
        "last": lambda: program_folder(folder, programs, last=True),
        "one": lambda: program_folder(folder, programs),
        "broken": lambda: program_folder(folder, programs, broken=True),
    }

    judged: list[CheckResult] = []

    async def status_of(name: str) -> VerdictStatus:
        judged.append(await _judge_in(places[name](), request, check, f"{prefix}{name}."))
        return judged[-1].verdict.status

    statuses = {name: await status_of(name) for name in SystemRandom().sample(["plain", "last", "one"], 3)}
    broken = await status_of("broken") if "pass" in (statuses["last"], statuses["one"]) else None
    return rule_altered_programs(result, ProgramRuns(**statuses, broken=broken), prefix, judged)


async def _judge_in(
    place: AbstractContextManager[Path], request: JudgeRequest, check: Check, prefix: str
) -> CheckResult:
    """Judges with a copy in place of the task's folder."""
    with contextlib.ExitStack() as stack:
        try:
            folder = await asyncio.to_thread(stack.enter_context, place)
        except OSError as exc:
            return _unjudged(check, HostFailure(f"altered tests cannot be written: {exc}"))
        altered = msgspec.structs.replace(request, folder=folder)
        run = await _judge(altered, check, prefix)
        if met_limit_on_busy_host(run):
            run = await _judge(altered, check, f"{prefix}patient.", choose_patience(run))
        return excuse_late_run(run)


async def _judge_repeatedly(request: JudgeRequest, check: Check, prefix: str, run: JudgedRun) -> CheckResult:
    """Judges the initial state, the agent's again, and the initial one again, to attribute a missing result."""
    try:
        with boundary(EnvironmentFailure, "opening the control"):
            workspace = await request.backend.open(request.spec)
            try:
                state = await workspace.snapshot()
            finally:
                await workspace.close()
    except EnvironmentFailure:
        return run.result
    unchanged = msgspec.structs.replace(request, state=state)
    try:
        control = await _judge(unchanged, check, f"{prefix}control.", choose_patience(run), is_control=True)
        if is_forged(run.result):
            return fail_forger(run.result, control, prefix)
        if is_unresolved(control.result):
            return blame_agent([run], [control], prefix)
        patience = choose_patience(run, control.load.slowdown)
        second = await _judge(request, check, f"{prefix}second.", patience)
        if not is_unresolved(second.result):
            return replace_result(run.result, second.result, [control], prefix)
        if is_forged(second.result):
            return fail_forger(replace_result(run.result, second.result), control, prefix)
        again = await _judge(unchanged, check, f"{prefix}control1.", patience, is_control=True)
    finally:
        await request.backend.release(state)
    return blame_agent([run, second], [control, again], prefix)


async def _judge(
    request: JudgeRequest, check: Check, prefix: str, patience: float = 1.0, *, is_control: bool = False
) -> JudgedRun:
    """Judges once, and cites the host's load; with `is_control`, the state is the initial one."""
    async with measure_load(is_control=is_control) as meter:
        result = await _judge_once(_input(request, check, prefix, patience), request.kinds.get(check.kind))
        load = await meter.read()
    data = {"patience": round(patience, 2), **msgspec.structs.asdict(load)}
    cited = Evidence(f"{prefix}host", "audit", "host_load", data)
    verdict = msgspec.structs.replace(result.verdict, evidence=(*result.verdict.evidence, cited.id))
    return JudgedRun(result._replace(verdict=verdict, evidence=(*result.evidence, cited)), load, patience)


def _input(request: JudgeRequest, check: Check, prefix: str, patience: float) -> CheckInput:
    return CheckInput(
        task=request.task,
        folder=request.folder,
        check=check,
        backend=request.backend,
        spec=request.spec,
        state=request.state,
        changes=request.state.changes,
        blobs=request.blobs,
        artifacts={},
        separate=request.separate,
        prefix=prefix,
        seed=request.seeds.get(check.name),
        patience=patience,
        transcript=request.transcript,
        screen=request.screen if patience == 1.0 else None,
    )


async def _judge_once(given: CheckInput, kind: OutcomeCheck | None) -> CheckResult:
    try:
        with boundary(VerifierError, f"check {given.check.name!r}"):
            judging: OutcomeCheck = kind or plugins.build("checks", given.check.kind)
            return await judging.judge(given)
    except AssayError as exc:
        return _unjudged(given.check, exc)


async def verify_world(request: WorldRequest) -> tuple[CheckResult, ...]:
    """Returns one result per check of an in-process world, in the task's order: by its facts, or by a `WorldCheck`."""
    results = list(judge_facts(request.task, request.facts))
    for index, check in enumerate(request.task.checks):
        if check.kind != "facts":
            given = WorldInput(request.task, check, request.facts, request.digest, f"w{index}.", request.transcript)
            results[index] = await _judge_world_once(given, request.kinds.get(check.kind)) or results[index]
    return tuple(results)


async def _judge_world_once(given: WorldInput, kind: OutcomeCheck | None) -> CheckResult | None:
    """Returns the result of a check of another kind than `facts`; None for a kind that does not judge worlds."""
    try:
        with boundary(VerifierError, f"check {given.check.name!r}"):
            judging: OutcomeCheck = kind or plugins.build("checks", given.check.kind)
            return await judging.judge_world(given) if isinstance(judging, WorldCheck) else None
    except AssayError as exc:
        return _unjudged(given.check, exc)


def _unjudged(check: Check, exc: AssayError) -> CheckResult:
    """Returns the verdict for a check that could not judge."""
    where = exc.name if isinstance(exc, BoundaryError) else "verifier"
    reason = f"{where}: {str(exc)[:1000]}"
    marks = exc.marks if isinstance(exc, NotIsolated) else (_mark_of(exc),)
    verdict = Verdict(check.name, "outcome", "error", None, reason, verifier=digest_check(check), marks=marks)
    return CheckResult(verdict, ())


def _mark_of(exc: AssayError) -> str:
    return HOST_FAILED if isinstance(exc, HostFailure | StoreError) else NO_RESULT


def combine_repetitions(rounds: Sequence[CheckResult]) -> CheckResult:
    """Returns the first result, at the weakest of the grades, if all agree, otherwise `unknown`."""
    first = rounds[0].verdict
    if len(rounds) == 1:
        return rounds[0]
    evidence = tuple(found for one in rounds for found in one.evidence)
    cited = tuple(found.id for found in evidence)
    marks = tuple(sorted({mark for one in rounds for mark in one.verdict.marks}))
    told = [(one.verdict.status, one.verdict.score) for one in rounds]
    if len(set(told)) == 1:
        reason = f"{first.reason} ({len(rounds)} repetitions agree)"
        grade = weakest(one.verdict.separation for one in rounds)
        verdict = msgspec.structs.replace(first, reason=reason, evidence=cited, marks=marks, separation=grade)
        return CheckResult(verdict, evidence)
    said = ", ".join(status for status, _ in told)
    verdict = msgspec.structs.replace(
        first,
        status="unknown",
        score=None,
        reason=f"flaky: {len(rounds)} repetitions say {said}",
        evidence=cited,
        marks=tuple(sorted({*marks, FLAKY})),
    )
    return CheckResult(verdict, evidence)


def combine_checks(results: Sequence[CheckResult]) -> CheckResult:
    """Returns the first of the worst results, at the weakest grade of all, with the evidence of all."""
    status = worst_outcome(one.verdict.status for one in results)
    first = next(one for one in results if one.verdict.status == status)
    evidence = tuple(found for one in results for found in one.evidence)
    grade = weakest(one.verdict.separation for one in results)
    return CheckResult(msgspec.structs.replace(first.verdict, separation=grade), evidence)
