"""Makes the separation plan of a candidate: which of its tests can be judged apart from what an agent writes.

A failing test decides where its entry points are known, more than one bit comes back, the test does not use them to
compare, every lie fails it with the task unrepaired, and its spliced outcome is its plain one on the reference, the
unrepaired state and mutants. Tests that show less, and those that pass unrepaired, are spliced as guards where spliced
and plain outcomes agree: they must pass, and run after the deciding ones, so that no answer to a guard reaches those.
All else stays in process, with the reason. Nothing in a plan hangs on time or machine.
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
PASSES = "it passes unrepaired"


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
    passing: tuple[str, ...] = ()
    """Cases that run what is changed and pass unrepaired."""


class _Subject(NamedTuple):
    """One candidate on its way."""

    deciding: Deciding
    changes: dict[str, FunctionChanges]
    trace: TraceResult
    reasons: dict[str, str]
    """Case to why it does not decide; filled step by step."""
    guards: dict[str, TracedTest]
    """The cases that do not decide and may be spliced."""
    kinds: dict[str, str]
    """Entry point to how it is bound."""

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
    for subject in subjects:
        if subject.carried():
            await _find_guards(laboratory, tree, subject)
    found = {}
    for subject in subjects:
        shown = await _prove(laboratory, tree, subject, mutants)
        for case, objection in shown.objections.items():
            if subject.guards.pop(case, None) is None:
                subject.reasons[case] = objection
        if not subject.carried():
            subject.guards.clear()
        plan = _plan(tree, subject)
        spliced = {test.id for test in plan.of_method("splice")}
        collected = tuple(item for item in shown.collected if item.id in spliced)
        found[subject.deciding.id] = msgspec.structs.replace(plan, collection=collected)
    return found


async def _prove(laboratory: Laboratory, tree: SourceTree, subject: _Subject, mutants: int) -> Proven:
    """Proves the plan; once more without the guards where these may have disturbed a test that decides."""
    one = subject.deciding
    if not subject.carried():
        return Proven({}, (), {})
    drawn = mutants_of(one.right, subject.changes, one.id, mutants)
    job = ProofJob(one.id, _plan(tree, subject), one.base, one.broken, drawn, one.cpu_s)
    proven = (await prove_splices(laboratory, tree, [job]))[one.id]
    objections, in_order = _objections(subject, proven), _is_in_order(subject, proven)
    if not subject.guards or (in_order and not objections):
        return proven
    guards = dict(subject.guards)
    subject.guards.clear()
    job = job._replace(plan=_plan(tree, subject))
    alone = (await prove_splices(laboratory, tree, [job]))[one.id]
    if in_order and _objections(subject, alone) == objections:
        subject.guards.update(guards)
        return proven
    return alone


def _objections(subject: _Subject, proven: Proven) -> dict[str, str]:
    return {case: reason for case, reason in proven.objections.items() if case in subject.carried()}


def _is_in_order(subject: _Subject, proven: Proven) -> bool:
    """Returns whether the tests that decide run before all guards."""
    carried = subject.carried()
    return {item.id for item in proven.collected[: len(carried)]} == carried.keys()


def carried_tests(plan: SeparationPlan, cases: Mapping[str, tuple[str, ...]], tests: Iterable[str]) -> tuple[str, ...]:
    """Returns the tests of which every case is judged apart and decides, sorted."""
    apart = {test.id for test in plan.tests if test.decides}
    return tuple(sorted(test for test in tests if cases[test] and apart.issuperset(cases[test])))


async def _trace(laboratory: Laboratory, tree: SourceTree, all_deciding: Sequence[Deciding]) -> list[_Subject]:
    changes = {one.id: changes_of(one.right, one.broken) for one in all_deciding}
    jobs = [TraceJob(one.id, one.cases, one.base, changes[one.id] or {}, one.cpu_s) for one in all_deciding]
    traced = await trace_entries(laboratory, tree, [job for job in jobs if job.changed])
    subjects = []
    for one in all_deciding:
        trace = traced.get(one.id, TraceResult(one.id))
        subject = _Subject(one, changes[one.id] or {}, trace, {}, {}, dict(trace.entries))
        for case in one.cases:
            hindrance = _hindrance(trace, case)
            reason = hindrance or _weakness(tree, one, trace, case)
            if reason:
                subject.reasons[case] = reason
        subjects.append(subject)
    return subjects


async def _find_guards(laboratory: Laboratory, tree: SourceTree, subject: _Subject) -> None:
    """Adds the tests that do not decide and that nothing in a trace keeps from being spliced.

    Those that pass unrepaired are traced by themselves, so that they change nothing of what the others are seen to do.
    """
    one = subject.deciding
    for case in one.cases:
        if case in subject.reasons and not _hindrance(subject.trace, case):
            subject.guards[case] = subject.trace.tests[case]
    if not one.passing:
        return
    job = TraceJob(one.id, one.passing, one.base, subject.changes, one.cpu_s)
    trace = (await trace_entries(laboratory, tree, [job]))[one.id]
    for case in one.passing:
        hindrance = _hindrance(trace, case)
        subject.reasons[case] = hindrance or PASSES
        if not hindrance:
            subject.guards[case] = trace.tests[case]
    subject.kinds.update(trace.entries)


def _hindrance(trace: TraceResult, case: str) -> str:
    """Returns what keeps a test from being spliced at all, as far as its trace shows."""
    test = trace.tests.get(case)
    if trace.ended != "done" or test is None:
        return "its trace has no end" if trace.ended != "done" else "it is not collected by itself"
    if test.outcome != "passed":
        return "it does not pass while it is traced"
    if test.problems:
        return test.problems[0]
    if not test.entries or set(test.entries) - set(test.uses):
        return "it reaches what is changed through no function that it calls"
    if any("too large" in (*use.arguments.opaque, *use.results.opaque) for use in test.uses.values()):
        return "its arguments or answers are too large"
    if len({entry.partition(":")[0].partition(".")[0] for entry in test.entries}) > 1:
        return "its entry points are in several packages"
    return ""


def _weakness(tree: SourceTree, one: Deciding, trace: TraceResult, case: str) -> str:
    """Returns why the trace of a test that can be spliced shows too little to decide."""
    test = trace.tests[case]
    if all(use.is_one_bit for use in test.uses.values()):
        return ONE_BIT
    if any(use.results.callbacks for use in test.uses.values()):
        return FUNCTIONS
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
            lie = result.describe_lie(case)
            if result.ended != "done":
                subject.reasons[case] = "the run of lies has no end"
            elif lie:
                subject.reasons[case] = f"it passes unrepaired where {lie}"


def _plan(tree: SourceTree, subject: _Subject) -> SeparationPlan:
    carried = subject.carried()
    guards = subject.guards
    used = sorted({entry for test in (*carried.values(), *guards.values()) for entry in test.uses})
    deciding = sorted({entry for test in carried.values() for entry in test.uses})
    modules = {_module_name(tree, path): path for path in tree.modules}
    cases = (*subject.deciding.cases, *(case for case in subject.deciding.passing if case in subject.reasons))
    return SeparationPlan(
        package=deciding[0].partition(":")[0].partition(".")[0] if deciding else tree.import_names[0],
        entries=tuple(_entry(entry, subject.kinds[entry]) for entry in used),
        tests=tuple(_test_plan(case, subject) for case in sorted(cases, key=lambda case: (case in guards, case))),
        classes=_classes(carried.values()),
        sources={
            module: _source_digest(tree, subject.deciding, modules[module])
            for module in sorted({entry.partition(":")[0] for entry in used})
            if module in modules
        },
        guard_classes=_classes(guards.values()),
    )


def _entry(key: str, kind: str) -> EntryPoint:
    module, _, name = key.partition(":")
    return EntryPoint(module, name, cast("EntryKind", kind.replace("_", "-")))


def _test_plan(case: str, subject: _Subject) -> TestPlan:
    reasons = (subject.reasons[case],) if case in subject.reasons else ()
    known = subject.guards if reasons else subject.trace.tests
    if case not in known:
        return TestPlan(case, "in-process", reasons)
    uses = known[case].uses
    return TestPlan(
        id=case,
        method="splice",
        reasons=reasons,
        uses=tuple(
            EntryUse(entry, tuple(Argument(name, path) for name, path in use.changes), use.answer_types)
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
