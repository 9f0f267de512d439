"""Plans judging by calls on fresh inputs for tests that splicing does not carry.

The tests' calls are recorded with the reference in place, and their power is measured by `verify.calls` on an image of
the unrepaired tree and on mutants that the tests fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from assay.code.batches import Job
from assay.code.function_changes import FunctionChanges
from assay.environments.interface import WorkspaceSpec
from assay.errors import EnvironmentFailure, TaskError
from assay.verify.calls import (
    CallPlan,
    CallRefusal,
    PowerQuestion,
    RecordRequest,
    measure_power,
    programs_of,
    record_calls,
)

from ._laboratory import WORKSPACE, Laboratory
from ._splice_proof import mutants_of
from ._task_folder import spans_to_fix
from ._tree import SourceTree

__all__ = ["CallQuestion", "plan_calls"]


class CallQuestion(msgspec.Struct, frozen=True):
    """The tests of one candidate; files are named as in the tree."""

    id: str
    right: Mapping[str, str]
    broken: Mapping[str, str]
    base: Mapping[str, str | None]
    changes: Mapping[str, FunctionChanges]
    cases: tuple[str, ...]
    cpu_s: float


async def plan_calls(
    laboratory: Laboratory, tree: SourceTree, question: CallQuestion, mutants: int
) -> CallPlan | CallRefusal:
    """Returns the plan by which some tests are judged by calls, or why there is none."""
    texts = {**question.base, **question.broken}
    present = {path: text for path, text in texts.items() if text is not None}
    if len(present) < len(texts):
        return CallRefusal("the reference's tree lacks files of the newest one")
    failed = await _failed_mutants(laboratory, question, mutants)
    async with laboratory.image_of(present) as image:
        spec = msgspec.structs.replace(laboratory.spec, image=image)
        try:
            draft = await _record(laboratory, tree, spec, question)
            asked = PowerQuestion(draft, spans_to_fix(question.right, question.broken), failed)
            return await measure_power(laboratory.backend, spec, asked, seed=question.id.encode())
        except (TaskError, EnvironmentFailure):
            return CallRefusal("the tests' calls cannot be recorded")


async def _failed_mutants(
    laboratory: Laboratory, question: CallQuestion, mutants: int
) -> tuple[Mapping[str, bytes], ...]:
    """Returns mutants of the reference that the tests fail."""
    drawn = mutants_of(question.right, question.changes, question.id, mutants)
    jobs = [
        Job(f"{question.id} {number}", question.cases, write={**question.base, **mutant}, cpu_s=question.cpu_s)
        for number, mutant in enumerate(drawn)
    ]
    done = await laboratory.run(jobs, repetition=0, warm=True)
    return tuple(
        {f"{WORKSPACE}/{path}": text.encode() for path, text in mutant.items()}
        for mutant, job in zip(drawn, jobs, strict=True)
        if any(result.outcome in ("failed", "error") for result in done[job.id].tests.values())
    )


async def _record(laboratory: Laboratory, tree: SourceTree, spec: WorkspaceSpec, question: CallQuestion) -> CallPlan:
    tests: dict[str, tuple[str, ...]] = {}
    for case in question.cases:
        path = f"{WORKSPACE}/{case.partition('::')[0]}"
        tests[path] = (*tests.get(path, ()), f"{WORKSPACE}/{case}")
    roots = tuple(f"{WORKSPACE}/{root}".removesuffix("/.") for root in tree.roots)
    request = RecordRequest(
        tests=tests,
        targets={
            f"{WORKSPACE}/{path}": tuple(one.name for one in changes.functions)
            for path, changes in question.changes.items()
        },
        packages=tuple(f"{name}." for name in tree.import_names),
        imports=tree.import_names,
        paths=roots,
        root=WORKSPACE,
    )
    right = {f"{WORKSPACE}/{path}": text.encode() for path, text in question.right.items()}
    recordings = await record_calls(laboratory.backend, spec, right, request)
    programs = tuple(one for one in programs_of(recordings) if _is_asked(one.test, question.cases))
    raised = {one.of for recording in recordings for one in recording.operations if one.result == "raised"}
    recorded = tuple(sorted({one.test for one in programs}))
    return CallPlan(programs, tree.import_names, roots, 0, exceptions=tuple(sorted(raised)), tests=recorded)


def _is_asked(test: str, cases: Sequence[str]) -> bool:
    return test.removeprefix(f"{WORKSPACE}/") in cases
