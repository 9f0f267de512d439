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
from assay.environments.interface import Snapshot
from assay.verify.calls import (
    CallPlan,
    CallRefusal,
    OtherRelease,
    PowerQuestion,
    RecordRequest,
    ReferenceFix,
    ReleaseUse,
    measure_power,
    programs_of,
    record_calls,
    span_fix,
)
from assay.verify.separation_plan import SeparationPlan, TestPlan

from ._entry_trace import changes_of
from ._gates import all_pass
from ._laboratory import WORKSPACE, Laboratory
from ._releases import Release, version_of
from ._separation import Deciding
from ._splice_proof import mutants_of
from ._tree import SourceTree

__all__ = ["CallMaterial", "failing_mutants", "measure_draft", "plan_calls", "record_request", "tolerance_of"]

APPROXIMATE = re.compile(r"\bapprox\b|almost|\ballclose\b|\bisclose\b")
TOLERANCE = 1e-6
"""That of `pytest.approx`, where the tests compare approximately."""


class CallMaterial(NamedTuple):
    """Material that a call plan is measured with."""

    mutants: int
    """Number of mutants of the reference that a draw is measured on."""
    releases: tuple[Release, ...] = ()
    """Other releases of the package."""


async def plan_calls(
    laboratory: Laboratory, tree: SourceTree, one: Deciding, plan: SeparationPlan, given: CallMaterial
) -> SeparationPlan:
    """Returns the separation plan with the tests that calls carry, of those that are left in process.

    Args:
        laboratory: Where everything runs.
        tree: The unbroken tree.
        one: The candidate's deciding tests.
        plan: The plan so far.
        given: Mutants and other releases.
    """
    left = tuple(test.id for test in plan.tests if test.id in one.cases and not test.decides)
    changes = changes_of(one.right, one.broken)
    if not left or not changes:
        return plan
    draft = await _draft(laboratory, tree, one, left)
    if not draft.programs:
        return plan
    draft = await _with_releases(laboratory, tree, one, draft, given.releases)
    failing = await failing_mutants(laboratory, one, mutants_of(one.right, changes, one.id, given.mutants), left)
    made = await measure_draft(laboratory, one, draft, failing)
    return _with_calls(plan, made, left) if isinstance(made, CallPlan) else plan


async def measure_draft(
    laboratory: Laboratory, one: Deciding, draft: CallPlan, mutants: Sequence[Mapping[str, str]]
) -> CallPlan | CallRefusal:
    """Returns the plan of a draft, with the number of inputs that fails the unrepaired state and the mutants."""
    fixes = tuple(ReferenceFix(path, 0, text, one.right[path]) for path, text in sorted(one.broken.items()))
    state = await _unrepaired(laboratory, one)
    try:
        question = PowerQuestion(draft, fixes, tuple(_placed(texts) for texts in mutants), state)
        return await measure_power(laboratory.backend, laboratory.spec, question, seed=one.id.encode())
    finally:
        await laboratory.backend.release(state)


def _with_calls(plan: SeparationPlan, calls: CallPlan, left: Sequence[str]) -> SeparationPlan:
    carried = set(left) & set(calls.tests)
    if not carried:
        return plan
    tests = tuple(TestPlan(test.id, "calls") if test.id in carried else test for test in plan.tests)
    return msgspec.structs.replace(plan, tests=tests, calls=(msgspec.to_builtins(calls),))


async def _draft(laboratory: Laboratory, tree: SourceTree, one: Deciding, cases: Sequence[str]) -> CallPlan:
    """Records the tests on the reference; the state of the laboratory is the unbroken tree."""
    changes = changes_of(one.right, one.broken) or {}
    targets = {
        path: tuple(function.name.partition("#")[0] for function in changed.functions)
        for path, changed in changes.items()
    }
    request = record_request(tree, targets, cases)
    texts = _placed({path: text for path, text in {**one.base, **one.right}.items() if text is not None})
    recordings = await record_calls(laboratory.backend, laboratory.spec, texts, request, laboratory.state)
    expected = {operation.of for one in recordings for operation in one.operations if operation.result == "raised"}
    files = {case.partition("::")[0] for case in cases}
    sources = [one.base.get(path) or tree.files.get(path, b"").decode("utf-8", "replace") for path in files]
    return CallPlan(
        programs=programs_of(recordings),
        imports=tree.import_names,
        roots=request.paths,
        inputs=0,
        exceptions=tuple(sorted(expected)),
        tolerance=tolerance_of(sources),
    )


async def _with_releases(
    laboratory: Laboratory, tree: SourceTree, one: Deciding, draft: CallPlan, releases: Sequence[Release]
) -> CallPlan:
    """Adds the releases whose version of what is changed passes all tests of the task."""
    changes = changes_of(one.right, one.broken) or {}
    made = {release.name: version_of(release, tree, one.right, changes) for release in releases}
    others = {name: texts for name, texts in made.items() if texts is not None}
    cases = (*one.cases, *one.passing)
    jobs = [
        Job(f"{one.id} release {name}", cases, write={**one.base, **texts}, cpu_s=one.cpu_s)
        for name, texts in others.items()
    ]
    done = await laboratory.run(jobs, repetition=0) if jobs else {}
    names = tuple({case.partition("[")[0] for case in cases})
    passing = {name for name, job in zip(others, jobs, strict=True) if all_pass(names, done[job.id])}
    uses: dict[str, ReleaseUse] = {
        name: "reference" if name in passing else "fails the tests" if name in others else "no other text"
        for name in made
    }
    fixes = {
        name: tuple(span_fix(path, text, others[name][path]) for path, text in sorted(one.broken.items()))
        for name in others
        if name in passing
    }
    further = tuple(OtherRelease(name, spans) for name, spans in fixes.items())
    return msgspec.structs.replace(draft, releases=further, releases_given=uses)


def record_request(tree: SourceTree, targets: Mapping[str, Sequence[str]], cases: Sequence[str]) -> RecordRequest:
    """Returns the request to record some cases.

    Args:
        tree: The package.
        targets: File of the tree to qualified names of the functions that the calls have to reach.
        cases: Node ids.
    """
    tests: dict[str, list[str]] = {}
    for case in cases:
        tests.setdefault(f"{WORKSPACE}/{case.partition('::')[0]}", []).append(f"{WORKSPACE}/{case}")
    return RecordRequest(
        tests={path: tuple(names) for path, names in tests.items()},
        targets={f"{WORKSPACE}/{path}": tuple(names) for path, names in targets.items()},
        packages=tuple(f"{name.partition('.')[0]}." for name in tree.import_names),
        imports=tree.import_names,
        paths=tuple(f"{WORKSPACE}/{root}".removesuffix("/.") for root in tree.roots),
        root=WORKSPACE,
    )


def tolerance_of(sources: Iterable[str]) -> float:
    """Returns the relative tolerance of floats that test files ask for; 0 where none compares approximately."""
    return TOLERANCE if any(APPROXIMATE.search(source) for source in sources) else 0.0


def _placed(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {f"{WORKSPACE}/{path}": text.encode() for path, text in texts.items()}


async def failing_mutants(
    laboratory: Laboratory, one: Deciding, drawn: Sequence[Mapping[str, str]], cases: Sequence[str]
) -> list[Mapping[str, str]]:
    """Returns the mutants that the tests fail: the others may be equivalent, and nothing is owed for them."""
    jobs = [
        Job(f"{one.id} calls {number}", tuple(cases), write={**one.base, **mutant}, cpu_s=one.cpu_s)
        for number, mutant in enumerate(drawn)
    ]
    done = await laboratory.run(jobs, repetition=0)
    names = tuple({case.partition("[")[0] for case in cases})
    return [mutant for job, mutant in zip(jobs, drawn, strict=True) if not all_pass(names, done[job.id])]


async def _unrepaired(laboratory: Laboratory, one: Deciding) -> Snapshot:
    workspace = await laboratory.backend.open(laboratory.spec, state=laboratory.state)
    try:
        for path, text in sorted({**one.base, **one.broken}.items()):
            if text is None:
                await workspace.exec(["rm", "-f", "--", f"{WORKSPACE}/{path}"])
            else:
                await workspace.write(f"{WORKSPACE}/{path}", text.encode())
        return await workspace.snapshot()
    finally:
        await workspace.close()
