"""Finds which deciding tests of a candidate calls on fresh inputs can judge, where splicing does not carry them.

The tests' public calls are recorded on the reference; the plan is kept where a draw of fresh inputs fails the
unrepaired state and mutants that the tests fail, of the inputs on which other releases that pass the tests agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from assay.code.batches import Job
from assay.verify.calls import (
    CallPlan,
    CallRefusal,
    OtherRelease,
    PowerQuestion,
    RecordRequest,
    ReferenceFix,
    ReleaseUse,
    measure_power,
    record_calls,
    slice_programs,
    span_fix,
)
from assay.verify.separation_plan import SeparationPlan, TestPlan

from ._entry_trace import compare_changes
from ._gates import all_pass
from ._laboratory import WORKSPACE, Laboratory, import_paths
from ._releases import Release, apply_release
from ._separation import DecidingTests
from ._splice_proof import draw_mutants
from ._tree import SourceTree

APPROXIMATE = re.compile(r"\bapprox\b|almost|\ballclose\b|\bisclose\b")
TOLERANCE = 1e-6
"""That of `pytest.approx`, where the tests compare approximately."""


class CallMeasurement(NamedTuple):
    """Material that a call plan is measured with."""

    mutants: int
    """Number of mutants of the reference that a draw is measured on."""
    releases: tuple[Release, ...] = ()
    """Other releases of the package."""


async def plan_calls(
    laboratory: Laboratory,
    tree: SourceTree,
    deciding: DecidingTests,
    plan: SeparationPlan,
    measurement: CallMeasurement,
) -> SeparationPlan:
    """Returns the separation plan with the tests that calls carry, of those that are left in process."""
    undecided = tuple(test.id for test in plan.tests if test.id in deciding.cases and not test.decides)
    changes = compare_changes(deciding.right, deciding.broken)
    if not undecided or not changes:
        return plan
    draft = await _record_draft(laboratory, tree, deciding, undecided)
    if not draft.programs:
        return plan
    draft = await _add_releases(laboratory, tree, deciding, draft, measurement.releases)
    mutants = draw_mutants(deciding.right, changes, deciding.id, measurement.mutants)
    failing, failing_parts = [
        await find_failing_versions(laboratory, deciding, versions, undecided) for versions in (mutants, deciding.parts)
    ]
    versions = await measure_draft(laboratory, deciding, draft, failing, failing_parts)
    return _add_calls(plan, versions, undecided) if isinstance(versions, CallPlan) else plan


async def measure_draft(
    laboratory: Laboratory,
    deciding: DecidingTests,
    draft: CallPlan,
    mutants: Sequence[Mapping[str, str]],
    parts: Sequence[Mapping[str, str]] = (),
) -> CallPlan | CallRefusal:
    """Returns the plan of a draft, with the number of inputs that fails the unrepaired state, the mutants, and each
    state in which a part of the change is left unrepaired."""
    fixes = tuple(ReferenceFix(path, 0, text, deciding.right[path]) for path, text in sorted(deciding.broken.items()))
    state = await laboratory.snapshot_with({**deciding.base, **deciding.broken})
    try:
        wrong, partial = [
            tuple(_absolute_texts({**deciding.right, **texts}) for texts in many) for many in (mutants, parts)
        ]
        question = PowerQuestion(draft, fixes, wrong, state, partial)
        return await measure_power(laboratory.backend, laboratory.spec, question, seed=deciding.id.encode())
    finally:
        await laboratory.backend.release(state)


def _add_calls(plan: SeparationPlan, calls: CallPlan, undecided: Sequence[str]) -> SeparationPlan:
    carried = set(undecided) & set(calls.tests)
    if not carried:
        return plan
    tests = tuple(TestPlan(test.id, "calls") if test.id in carried else test for test in plan.tests)
    return msgspec.structs.replace(plan, tests=tests, calls=(msgspec.to_builtins(calls),))


async def _record_draft(
    laboratory: Laboratory, tree: SourceTree, deciding: DecidingTests, cases: Sequence[str]
) -> CallPlan:
    """Records the tests on the reference; the state of the laboratory is the unbroken tree."""
    changes = compare_changes(deciding.right, deciding.broken) or {}
    targets = {
        path: tuple(function.name.partition("#")[0] for function in changed.functions)
        for path, changed in changes.items()
    }
    request = build_record_request(tree, targets, cases)
    texts = _absolute_texts(
        {path: text for path, text in {**deciding.base, **deciding.right}.items() if text is not None}
    )
    recordings = await record_calls(laboratory.backend, laboratory.spec, texts, request, laboratory.state)
    expected = {
        operation.of for deciding in recordings for operation in deciding.operations if operation.result == "raised"
    }
    files = {case.partition("::")[0] for case in cases}
    sources = [deciding.base.get(path) or tree.files.get(path, b"").decode("utf-8", "replace") for path in files]
    return CallPlan(
        programs=slice_programs(recordings),
        imports=tree.import_names,
        roots=request.paths,
        inputs=0,
        exceptions=tuple(sorted(expected)),
        tolerance=find_tolerance(sources),
    )


async def _add_releases(
    laboratory: Laboratory, tree: SourceTree, deciding: DecidingTests, draft: CallPlan, releases: Sequence[Release]
) -> CallPlan:
    """Adds the releases whose version of what is changed passes all tests of the task."""
    changes = compare_changes(deciding.right, deciding.broken) or {}
    versions = {release.name: apply_release(release, tree, deciding.right, changes) for release in releases}
    others = {name: texts for name, texts in versions.items() if texts is not None}
    cases = (*deciding.cases, *deciding.passing)
    jobs = [
        Job(f"{deciding.id} release {name}", cases, write={**deciding.base, **texts}, cpu_s=deciding.cpu_s)
        for name, texts in others.items()
    ]
    results = await laboratory.run(jobs, repetition=0) if jobs else {}
    names = tuple({case.partition("[")[0] for case in cases})
    passing = {name for name, job in zip(others, jobs, strict=True) if all_pass(names, results[job.id])}
    uses: dict[str, ReleaseUse] = {
        name: "reference" if name in passing else "fails the tests" if name in others else "no other text"
        for name in versions
    }
    fixes = {
        name: tuple(span_fix(path, text, others[name][path]) for path, text in sorted(deciding.broken.items()))
        for name in others
        if name in passing
    }
    further = tuple(OtherRelease(name, spans) for name, spans in fixes.items())
    return msgspec.structs.replace(draft, releases=further, releases_given=uses)


def build_record_request(tree: SourceTree, targets: Mapping[str, Sequence[str]], cases: Sequence[str]) -> RecordRequest:
    """Returns the request to record some cases; `targets` maps files to the functions that the calls have to reach."""
    tests: dict[str, list[str]] = {}
    for case in cases:
        tests.setdefault(f"{WORKSPACE}/{case.partition('::')[0]}", []).append(f"{WORKSPACE}/{case}")
    return RecordRequest(
        tests={path: tuple(names) for path, names in tests.items()},
        targets={f"{WORKSPACE}/{path}": tuple(names) for path, names in targets.items()},
        packages=tuple(f"{name.partition('.')[0]}." for name in tree.import_names),
        imports=tree.import_names,
        paths=import_paths(tree),
        root=WORKSPACE,
    )


def find_tolerance(sources: Iterable[str]) -> float:
    """Returns the relative tolerance of floats that test files ask for; 0 where none compares approximately."""
    return TOLERANCE if any(APPROXIMATE.search(source) for source in sources) else 0.0


def _absolute_texts(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {f"{WORKSPACE}/{path}": text.encode() for path, text in texts.items()}


async def find_failing_versions(
    laboratory: Laboratory, deciding: DecidingTests, versions: Sequence[Mapping[str, str]], cases: Sequence[str]
) -> list[Mapping[str, str]]:
    """Returns the versions that the tests fail: others may be equivalent to the reference, and nothing is owed for
    them."""
    jobs = [
        Job(f"{deciding.id} calls {number}", tuple(cases), write={**deciding.base, **version}, cpu_s=deciding.cpu_s)
        for number, version in enumerate(versions)
    ]
    results = await laboratory.run(jobs, repetition=0) if jobs else {}
    names = tuple({case.partition("[")[0] for case in cases})
    return [version for job, version in zip(jobs, versions, strict=True) if not all_pass(names, results[job.id])]
