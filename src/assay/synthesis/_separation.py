"""Makes the separation plan of a candidate: which of its tests can be judged apart from what an agent writes.

A failing test decides where its entry points are known, more than one bit comes back, the test does not use them to
compare, every lie fails it with the task unrepaired, and its spliced outcome is its plain one on the reference, the
unrepaired state and mutants. Each of several changes must be noticed by such a test under every lie: whoever repairs
the others may lie about the rest. Tests that show less, and those that pass unrepaired, are spliced as guards where
spliced and plain outcomes agree: they must pass, and run after the deciding ones, so that no answer to a guard reaches
those. All other tests stay in process, with the reason. A plan does not depend on time or machine.
"""

from __future__ import annotations

import functools
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

from ._comparisons import compares_calls
from ._entry_trace import TracedTest, TraceJob, TraceResult, compare_changes, trace_entries
from ._false_answers import HONEST, FalseAnswerJob, run_false_answers
from ._laboratory import Laboratory
from ._splice_proof import ProofJob, SpliceProof, draw_mutants, prove_splices
from ._tree import SourceTree

ONE_BIT = "one-bit answers decide nothing alone"
COMPARES = "the test compares with an entry point's own answers"
FUNCTIONS = "an entry point answers with a function"
PASSES = "it passes unrepaired"


class DecidingTests(NamedTuple):
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
    parts: tuple[Mapping[str, str], ...] = ()
    """For each of several changes, its file with that change alone unrepaired."""
    slow_s: float = 0.0
    """CPU seconds of a test after which a plain run of a version ends; 0: it has the limit of all."""
    required: tuple[tuple[str, ...], ...] = ()
    """The cases of tests of which one has to be carried whole, and all cases spliced: a plan that cannot be so is not
    proven. Empty where any plan serves."""


class _CandidatePlan(NamedTuple):
    """State of one candidate's plan."""

    deciding: DecidingTests
    changes: dict[str, FunctionChanges]
    trace: TraceResult
    reasons: dict[str, str]
    """Case to the reason that it does not decide; filled step by step."""
    guards: dict[str, TracedTest]
    """The cases that do not decide and may be spliced."""
    kinds: dict[str, str]
    """Entry point to how it is bound."""

    def carried(self) -> dict[str, TracedTest]:
        """Returns the cases without an objection so far."""
        return {case: self.trace.tests[case] for case in self.deciding.cases if case not in self.reasons}

    def is_refused(self) -> bool:
        """Returns True if no proof can make the plan one that is required."""
        required, carried = self.deciding.required, self.carried().keys()
        if not required:
            return False
        is_one_whole = any(carried >= {*cases} for cases in required)
        return not is_one_whole or any(_find_hindrance(self.trace, case) for case in self.deciding.cases)


async def plan_separation(
    laboratory: Laboratory,
    tree: SourceTree,
    all_tests: Sequence[DecidingTests],
    mutants: int,
) -> dict[str, SeparationPlan]:
    """Makes and proves the plans of some candidates: spliced and plain outcomes are compared on `mutants` of the
    reference. Of a candidate that is refused without its proof the plan is not proven."""
    plans = await _trace_candidates(laboratory, tree, all_tests)
    await _drop_refuted(laboratory, tree, [candidate for candidate in plans if not candidate.is_refused()])
    for candidate in plans:
        if not candidate.is_refused():
            await _drop_refuted_by_parts(laboratory, tree, candidate)
    for candidate in plans:
        if candidate.carried():
            await _find_guards(laboratory, tree, candidate)
    found = {}
    for candidate in plans:
        proof = await _prove_plan(laboratory, tree, candidate, mutants)
        for case, objection in proof.objections.items():
            if candidate.guards.pop(case, None) is None:
                candidate.reasons[case] = objection
        if not candidate.carried():
            candidate.guards.clear()
        plan = _build_plan(tree, candidate)
        spliced = {test.id for test in plan.of_method("splice")}
        collected = tuple(item for item in proof.collected if item.id in spliced)
        found[candidate.deciding.id] = msgspec.structs.replace(plan, collection=collected)
    return found


async def _prove_plan(laboratory: Laboratory, tree: SourceTree, candidate: _CandidatePlan, mutants: int) -> SpliceProof:
    """Proves the plan; repeats without the guards if these may have disturbed a deciding test."""
    one = candidate.deciding
    if not candidate.carried() or candidate.is_refused():
        return SpliceProof({}, (), {})
    drawn = draw_mutants(one.right, candidate.changes, one.id, mutants)
    needed = frozenset(one.cases if one.required else ())
    job = ProofJob(
        one.id,
        _build_plan(tree, candidate),
        one.base,
        one.broken,
        drawn,
        one.cpu_s,
        one.parts,
        needed,
        slow_s=one.slow_s,
    )
    proven = (await prove_splices(laboratory, tree, [job]))[one.id]
    objections, in_order = _objections(candidate, proven), _is_in_order(candidate, proven)
    if not candidate.guards or (in_order and not objections):
        return proven
    guards = dict(candidate.guards)
    candidate.guards.clear()
    job = job._replace(plan=_build_plan(tree, candidate), needed=needed & candidate.carried().keys())
    unguarded = (await prove_splices(laboratory, tree, [job]))[one.id]
    if in_order and _objections(candidate, unguarded) == objections:
        candidate.guards.update(guards)
        return proven
    return unguarded


def _objections(candidate: _CandidatePlan, proven: SpliceProof) -> dict[str, str]:
    return {case: reason for case, reason in proven.objections.items() if case in candidate.carried()}


def _is_in_order(candidate: _CandidatePlan, proven: SpliceProof) -> bool:
    """Returns True if the deciding tests run before all guards."""
    carried = candidate.carried()
    return {item.id for item in proven.collected[: len(carried)]} == carried.keys()


def find_carried_tests(
    plan: SeparationPlan, cases: Mapping[str, tuple[str, ...]], tests: Iterable[str]
) -> tuple[str, ...]:
    """Returns the sorted tests whose cases are all judged apart and decide."""
    apart = {test.id for test in plan.tests if test.decides}
    return tuple(sorted(test for test in tests if cases[test] and apart.issuperset(cases[test])))


async def _trace_candidates(
    laboratory: Laboratory, tree: SourceTree, all_tests: Sequence[DecidingTests]
) -> list[_CandidatePlan]:
    changes = {one.id: compare_changes(one.right, one.broken) for one in all_tests}
    jobs = [TraceJob(one.id, one.cases, one.base, changes[one.id] or {}, one.cpu_s) for one in all_tests]
    traced = await trace_entries(laboratory, tree, [job for job in jobs if job.changed])
    plans = []
    for one in all_tests:
        trace = traced.get(one.id, TraceResult(one.id))
        candidate = _CandidatePlan(one, changes[one.id] or {}, trace, {}, {}, dict(trace.entries))
        for case in one.cases:
            hindrance = _find_hindrance(trace, case)
            reason = hindrance or _find_weakness(tree, one, trace, case)
            if reason:
                candidate.reasons[case] = reason
        plans.append(candidate)
    return plans


async def _find_guards(laboratory: Laboratory, tree: SourceTree, candidate: _CandidatePlan) -> None:
    """Adds the tests that do not decide and can be spliced according to their trace. Tests that pass unrepaired are
    traced separately, so that they do not affect the traces of the others."""
    one = candidate.deciding
    for case in one.cases:
        if case in candidate.reasons and not _find_hindrance(candidate.trace, case):
            candidate.guards[case] = candidate.trace.tests[case]
    if not one.passing or candidate.is_refused():
        return
    job = TraceJob(one.id, one.passing, one.base, candidate.changes, one.cpu_s)
    trace = (await trace_entries(laboratory, tree, [job]))[one.id]
    for case in one.passing:
        hindrance = _find_hindrance(trace, case)
        candidate.reasons[case] = hindrance or PASSES
        if not hindrance:
            candidate.guards[case] = trace.tests[case]
    candidate.kinds.update(trace.entries)


def _find_hindrance(trace: TraceResult, case: str) -> str:
    """Returns the reason that a test cannot be spliced according to its trace; empty if it can."""
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


def _find_weakness(tree: SourceTree, one: DecidingTests, trace: TraceResult, case: str) -> str:
    """Returns the reason that a test that can be spliced shows too little to decide; empty if it decides."""
    test = trace.tests[case]
    if all(use.is_one_bit for use in test.uses.values()):
        return ONE_BIT
    if any(use.results.callbacks for use in test.uses.values()):
        return FUNCTIONS
    return COMPARES if _compares(tree, one, case, test) else ""


def _compares(tree: SourceTree, one: DecidingTests, case: str, test: TracedTest) -> bool:
    if any(use.compared for use in test.uses.values()):
        return True
    path = case.partition("::")[0]
    text = one.base[path] if path in one.base else tree.files[path].decode("utf-8", "replace")
    names = {entry.rpartition(":")[2].rpartition(".")[2] for entry in test.entries}
    lines = {line for use in test.uses.values() for line in use.lines}
    return compares_calls(text or "", names, lines)


async def _drop_refuted(laboratory: Laboratory, tree: SourceTree, plans: Sequence[_CandidatePlan]) -> None:
    """Drops the tests that pass with a false answer."""
    jobs = [_lies(candidate, candidate.deciding.id, candidate.deciding.broken) for candidate in plans]
    jobs = [job for job in jobs if job.tests]
    results = await run_false_answers(laboratory, tree, jobs)
    for candidate in plans:
        result = results.get(candidate.deciding.id)
        for case in candidate.carried() if result is not None else ():
            assert result is not None
            lie = result.describe_lie(case)
            if result.ended != "done":
                candidate.reasons[case] = "the run of lies has no end"
            elif lie:
                candidate.reasons[case] = f"it passes unrepaired where {lie}"


def _lies(candidate: _CandidatePlan, id: str, unrepaired: Mapping[str, str]) -> FalseAnswerJob:
    """Returns the lies to be told to the carried tests on an unrepaired version."""
    one = candidate.deciding
    own = frozenset((path, f.name) for path, changes in candidate.changes.items() for f in changes.functions)
    return FalseAnswerJob(id, {**one.base, **unrepaired}, candidate.carried(), own, one.cpu_s)


async def _drop_refuted_by_parts(laboratory: Laboratory, tree: SourceTree, candidate: _CandidatePlan) -> None:
    """Drops the tests that alone notice one of several changes and pass without it under a lie."""
    for number, part in enumerate(candidate.deciding.parts, 1):
        carried = candidate.carried()
        if not carried:
            return
        job = _lies(candidate, f"{candidate.deciding.id} part {number}", part)
        result = (await run_false_answers(laboratory, tree, [job]))[job.id]
        if result.ended != "done":
            candidate.reasons.update((case, "the run of lies has no end") for case in carried)
        elif carried.keys() <= result.passed.keys():
            honest = {case for case, lie in result.passed.items() if lie == HONEST}
            for case in carried.keys() - honest:
                lie = result.describe_lie(case)
                candidate.reasons[case] = (
                    f"it passes without change {number} of {len(candidate.deciding.parts)} where {lie}"
                )


def _build_plan(tree: SourceTree, candidate: _CandidatePlan) -> SeparationPlan:
    carried = candidate.carried()
    guards = candidate.guards
    used = sorted({entry for test in (*carried.values(), *guards.values()) for entry in test.uses})
    deciding = sorted({entry for test in carried.values() for entry in test.uses})
    modules = {_module_name(tuple(tree.roots), path): path for path in tree.modules}
    cases = (*candidate.deciding.cases, *(case for case in candidate.deciding.passing if case in candidate.reasons))
    return SeparationPlan(
        package=deciding[0].partition(":")[0].partition(".")[0] if deciding else tree.import_names[0],
        entries=tuple(_entry_point(entry, candidate.kinds[entry]) for entry in used),
        tests=tuple(_test_plan(case, candidate) for case in sorted(cases, key=lambda case: (case in guards, case))),
        classes=_classes(carried.values()),
        sources={
            module: _source_digest(tree, candidate.deciding, modules[module])
            for module in sorted({entry.partition(":")[0] for entry in used})
            if module in modules
        },
        guard_classes=_classes(guards.values()),
    )


def _entry_point(key: str, kind: str) -> EntryPoint:
    module, _, name = key.partition(":")
    return EntryPoint(module, name, cast("EntryKind", kind.replace("_", "-")))


def _test_plan(case: str, candidate: _CandidatePlan) -> TestPlan:
    reasons = (candidate.reasons[case],) if case in candidate.reasons else ()
    traces = candidate.guards if reasons else candidate.trace.tests
    if case not in traces:
        return TestPlan(case, "in-process", reasons)
    uses = traces[case].uses
    return TestPlan(
        id=case,
        method="splice",
        reasons=reasons,
        uses=tuple(
            EntryUse(
                entry=entry,
                changes=tuple(Argument(name, path) for name, path in use.changes),
                answers=use.answer_types,
                inside=use.kinds_inside,
                handed=use.kinds_handed,
            )
            for entry, use in sorted(uses.items())
        ),
    )


def _classes(tests: Iterable[TracedTest]) -> tuple[RecordedClass, ...]:
    fields: dict[str, set[str]] = {}
    for test in tests:
        for use in test.uses.values():
            for kinds in (use.arguments, use.results, use.handed):
                for name, traces in kinds.classes.items():
                    fields.setdefault(name, set()).update(traces)
    named = [(name.partition(":"), traces) for name, traces in sorted(fields.items())]
    return tuple(RecordedClass(module, name, tuple(sorted(traces))) for (module, _, name), traces in named)


def _source_digest(tree: SourceTree, one: DecidingTests, path: str) -> str:
    """Returns the SHA-256 of a file in the task's image."""
    text = one.broken.get(path, one.base.get(path))
    return hashlib.sha256(tree.files[path] if text is None else text.encode()).hexdigest()


def plan_on_reference(plan: SeparationPlan, tree: SourceTree) -> SeparationPlan:
    """Returns a plan for a judge that has the unbroken tree for the task's image."""
    modules = {_module_name(tuple(tree.roots), path): path for path in tree.modules}
    sources = {name: hashlib.sha256(tree.files[modules[name]]).hexdigest() for name in plan.sources}
    return msgspec.structs.replace(plan, sources=sources)


@functools.lru_cache(maxsize=16_384)
def _module_name(roots: tuple[str, ...], path: str) -> str:
    enclosing = sorted((root for root in roots if root in (".", "") or path.startswith(root + "/")), key=len)
    inner = path if not enclosing or enclosing[-1] in (".", "") else path.removeprefix(enclosing[-1] + "/")
    parts = PurePosixPath(inner).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
