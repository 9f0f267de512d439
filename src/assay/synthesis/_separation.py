"""Makes the separation plan of a candidate: which of its deciding tests can be judged apart from what an agent writes.

A test is carried by splicing where its entry points are known, more than one bit comes back, the test does not use them
to compare, every lie fails it with the task unrepaired, and its spliced outcome is its plain one on the reference, the
unrepaired state and mutants. All else stays in process, with the reason. Nothing in a plan hangs on time or machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple, cast

import msgspec

from assay.code.function_changes import FunctionChanges
from assay.verify.separation_plan import (
    Argument,
    EntryKind,
    EntryPoint,
    EntryUse,
    RecordedClass,
    SeparationPlan,
    TestPlan,
)

from ._comparisons import compared_calls
from ._entry_trace import TracedTest, TraceJob, TraceResult, changes_of, trace_entries
from ._false_answers import LieJob, tell_lies
from ._laboratory import Laboratory
from ._splice_proof import ProofJob, Proven, mutants_of, prove_splices
from ._tree import SourceTree

__all__ = ["Deciding", "carried_tests", "plan_separation"]

ONE_BIT = "one-bit answers decide nothing alone"
COMPARES = "the test compares with an entry point's own answers"
FUNCTIONS = "an entry point answers with a function"


class Deciding(NamedTuple):
    """The deciding tests of one candidate; files are named as in the tree."""

    id: str
    right: Mapping[str, str]
    """The texts of the reference, of the files that are changed."""
    broken: Mapping[str, str]
    """The same files unrepaired."""
    base: Mapping[str, str | None]
    """Texts of the reference's tree, where they differ from the tree's."""
    cases: tuple[str, ...]
    cpu_s: float


class _Subject(NamedTuple):
    """One candidate on its way."""

    deciding: Deciding
    changes: dict[str, FunctionChanges]
    trace: TraceResult
    reasons: dict[str, str]
    """Case to why it is not carried; filled step by step."""

    def carried(self) -> dict[str, TracedTest]:
        """Returns the cases that nothing speaks against yet."""
        return {case: self.trace.tests[case] for case in self.deciding.cases if case not in self.reasons}


async def plan_separation(
    laboratory: Laboratory, tree: SourceTree, all_deciding: Sequence[Deciding], mutants: int
) -> dict[str, SeparationPlan]:
    """Makes and proves the plans of some candidates.

    Args:
        laboratory: Where everything runs.
        tree: The unbroken tree.
        all_deciding: The candidates' deciding tests.
        mutants: How many mutants of the reference spliced and plain outcomes are compared on.
    """
    subjects = await _trace(laboratory, tree, all_deciding)
    await _refute(laboratory, tree, subjects)
    jobs = []
    for subject in subjects:
        one = subject.deciding
        if subject.carried():
            drawn = mutants_of(one.right, subject.changes, one.id, mutants)
            jobs.append(ProofJob(one.id, _plan(tree, subject), one.base, one.broken, drawn, one.cpu_s))
    proven = await prove_splices(laboratory, tree, jobs)
    found = {}
    for subject in subjects:
        shown = proven.get(subject.deciding.id, Proven({}, (), {}))
        subject.reasons.update(shown.objections)
        plan = _plan(tree, subject)
        collected = tuple(item for item in shown.collected if item.id in subject.carried())
        found[subject.deciding.id] = msgspec.structs.replace(plan, collection=collected)
    return found


def carried_tests(plan: SeparationPlan, cases: Mapping[str, tuple[str, ...]], tests: Iterable[str]) -> tuple[str, ...]:
    """Returns the tests of which every case is judged apart, sorted."""
    apart = {test.id for test in plan.tests if test.method != "in-process"}
    return tuple(sorted(test for test in tests if cases[test] and apart.issuperset(cases[test])))


async def _trace(laboratory: Laboratory, tree: SourceTree, all_deciding: Sequence[Deciding]) -> list[_Subject]:
    changes = {one.id: changes_of(one.right, one.broken) for one in all_deciding}
    jobs = [TraceJob(one.id, one.cases, one.base, changes[one.id] or {}, one.cpu_s) for one in all_deciding]
    traced = await trace_entries(laboratory, tree, [job for job in jobs if job.changed])
    subjects = []
    for one in all_deciding:
        trace = traced.get(one.id, TraceResult(one.id))
        subject = _Subject(one, changes[one.id] or {}, trace, {})
        for case in one.cases:
            reason = _static_reason(tree, one, trace, case)
            if reason:
                subject.reasons[case] = reason
        subjects.append(subject)
    return subjects


def _static_reason(tree: SourceTree, one: Deciding, trace: TraceResult, case: str) -> str:
    """Returns what the trace alone shows against splicing a test."""
    test = trace.tests.get(case)
    if trace.ended != "done" or test is None:
        return "its trace has no end" if trace.ended != "done" else "it is not collected by itself"
    if test.outcome != "passed":
        return "it does not pass while it is traced"
    if test.problems:
        return test.problems[0]
    if not test.entries or set(test.entries) - set(test.uses):
        return "it reaches what is changed through no function that it calls"
    if all(use.is_one_bit for use in test.uses.values()):
        return ONE_BIT
    if any(use.results.callbacks for use in test.uses.values()):
        return FUNCTIONS
    if any("too large" in (*use.arguments.opaque, *use.results.opaque) for use in test.uses.values()):
        return "its arguments or answers are too large"
    if len({entry.partition(":")[0].partition(".")[0] for entry in test.entries}) > 1:
        return "its entry points are in several packages"
    return COMPARES if _compares(tree, one, case, test) else ""


def _compares(tree: SourceTree, one: Deciding, case: str, test: TracedTest) -> bool:
    if any(use.compared for use in test.uses.values()):
        return True
    path = case.partition("::")[0]
    text = one.base[path] if path in one.base else tree.files[path].decode("utf-8", "replace")
    names = {entry.rpartition(":")[2].rpartition(".")[2] for entry in test.entries}
    lines = {line for use in test.uses.values() for line in use.lines}
    return compared_calls(text or "", names, lines)


async def _refute(laboratory: Laboratory, tree: SourceTree, subjects: Sequence[_Subject]) -> None:
    """Takes out the tests that pass under a lie."""
    jobs = []
    for subject in subjects:
        one, tests = subject.deciding, subject.carried()
        own = frozenset((path, f.name) for path, changes in subject.changes.items() for f in changes.functions)
        if tests:
            jobs.append(LieJob(one.id, {**one.base, **one.broken}, tests, own, one.cpu_s))
    results = await tell_lies(laboratory, tree, jobs)
    for subject in subjects:
        result = results.get(subject.deciding.id)
        for case in subject.carried() if result is not None else ():
            assert result is not None
            lies = result.passing_lies(case)
            if result.ended != "done":
                subject.reasons[case] = "the run of lies has no end"
            elif lies:
                subject.reasons[case] = f"it passes unrepaired where {_describe_lie(lies[0])}"


def _describe_lie(lie: str) -> str:
    return lie if " edited: " in lie else f"entry points answer: {lie}"


def _plan(tree: SourceTree, subject: _Subject) -> SeparationPlan:
    carried = subject.carried()
    used = sorted({entry for test in carried.values() for entry in test.uses})
    modules = {_module_name(tree, path): path for path in tree.modules}
    return SeparationPlan(
        package=used[0].partition(":")[0].partition(".")[0] if used else tree.import_names[0],
        entries=tuple(_entry(entry, subject.trace.entries[entry]) for entry in used),
        tests=tuple(_test_plan(case, subject) for case in sorted(subject.deciding.cases)),
        classes=_classes(carried.values()),
        sources={
            module: _source_digest(tree, subject.deciding, modules[module])
            for module in sorted({entry.partition(":")[0] for entry in used})
            if module in modules
        },
    )


def _entry(key: str, kind: str) -> EntryPoint:
    module, _, name = key.partition(":")
    return EntryPoint(module, name, cast("EntryKind", kind.replace("_", "-")))


def _test_plan(case: str, subject: _Subject) -> TestPlan:
    if case in subject.reasons:
        return TestPlan(case, "in-process", (subject.reasons[case],))
    uses = subject.trace.tests[case].uses
    return TestPlan(
        id=case,
        method="splice",
        uses=tuple(
            EntryUse(entry, tuple(Argument(name, path) for name, path in use.changes))
            for entry, use in sorted(uses.items())
        ),
    )


def _classes(tests: Iterable[TracedTest]) -> tuple[RecordedClass, ...]:
    fields: dict[str, set[str]] = {}
    for test in tests:
        for use in test.uses.values():
            for kinds in (use.arguments, use.results):
                for name, known in kinds.classes.items():
                    fields.setdefault(name, set()).update(known)
    named = [(name.partition(":"), known) for name, known in sorted(fields.items())]
    return tuple(RecordedClass(module, name, tuple(sorted(known))) for (module, _, name), known in named)


def _source_digest(tree: SourceTree, one: Deciding, path: str) -> str:
    """Returns the SHA-256 of a file as the task's image has it."""
    text = one.broken.get(path, one.base.get(path))
    return hashlib.sha256(tree.files[path] if text is None else text.encode()).hexdigest()


def _module_name(tree: SourceTree, path: str) -> str:
    roots = sorted((root for root in tree.roots if root in (".", "") or path.startswith(root + "/")), key=len)
    inner = path if not roots or roots[-1] in (".", "") else path.removeprefix(roots[-1] + "/")
    parts = PurePosixPath(inner).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
