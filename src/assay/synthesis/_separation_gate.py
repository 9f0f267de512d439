"""Gate `separate`: all failing tests of a candidate are judged apart from what an agent writes.

A failing test in process would pay whoever forges it: the work that it alone asks for could be left undone. A test is
*carried* if no false answer satisfies it. At least one carried test is hidden from the agent, of several changes each
alone makes a carried test fail, and no drawn mutant of the reference is detected by the other failing tests alone.
Passing tests that cannot be spliced are left out if no drawn mutant is detected by them alone: judging them would
need a third sandbox and lower the grade.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from assay.code.batches import Job, JobResult

from ._call_plans import CallMeasurement, plan_calls
from ._candidates import TaskCandidate
from ._entry_trace import compare_changes
from ._gates import GateContext, GateOutcome, all_pass, cpu_limit, slow_limit, unbroken_text
from ._laboratory import Laboratory
from ._parts import partial_repairs
from ._releases import Release
from ._separation import DecidingTests, find_carried_tests, plan_separation
from ._splice_proof import draw_mutants
from ._split import Split
from ._tree import SourceTree


class SeparationGate:
    """Plans how candidates are judged apart, and decides which of them pass.

    `cases` maps a test to its cases. A plan is proven on `mutants` of the reference; other `releases` of the package
    serve calls on fresh inputs.
    """

    def __init__(
        self,
        tree: SourceTree,
        cases: Mapping[str, tuple[str, ...]],
        laboratory: Laboratory,
        mutants: int,
        releases: tuple[Release, ...] = (),
    ) -> None:
        self._tree = tree
        self._cases = cases
        self._laboratory = laboratory
        self._mutants = mutants
        self._releases = releases

    async def judge(self, context: GateContext, one: TaskCandidate, outcome: GateOutcome, split: Split) -> GateOutcome:
        """Returns the outcome with its plan; one without a required plan ends at this gate."""
        cases = one.cases or self._cases
        right = {path: unbroken_text(context, one, path) for path in one.changes}
        deciding = DecidingTests(
            id=one.digest,
            right=right,
            broken=one.changes,
            base=one.base,
            cases=tuple(case for test in sorted(outcome.flipped) for case in cases[test]),
            cpu_s=cpu_limit(context, one),
            slow_s=slow_limit(context, one),
            passing=tuple(case for test in sorted(outcome.passing) for case in cases[test]),
            parts=partial_repairs(right, one.changes),
            # A plan of calls may still carry what no splice carries.
            required=() if context.config.separation_calls else self._required(context, one, split),
        )
        plans = await plan_separation(self._laboratory, self._tree, [deciding], self._mutants)
        plan = plans[one.digest]
        if context.config.separation_calls and not set(find_carried_tests(plan, cases, split.hidden)):
            material = CallMeasurement(self._mutants, self._releases)
            plan = await plan_calls(self._laboratory, self._tree, deciding, plan, material)
        carried = find_carried_tests(plan, cases, outcome.flipped)
        planned = msgspec.structs.replace(outcome, plan=plan, apart=carried)
        if context.config.separation == "required":
            objection = await self._objection(context, one, planned, split)
            # A plan that is refused for sure is not proven (see `plan_separation`): it must not pass.
            if objection or (plan.of_method("splice") and not plan.collection):
                objection = objection or "its plan is not proven"
                return msgspec.structs.replace(planned, gate="separate", reason=objection)
        return await self._without_spare_tests(context, one, planned, deciding.right)

    def _required(self, context: GateContext, one: TaskCandidate, split: Split) -> tuple[tuple[str, ...], ...]:
        """Returns the cases of each hidden test, where a plan without one of them that is carried is refused."""
        cases = one.cases or self._cases
        is_required = context.config.separation == "required"
        return tuple(cases[test] for test in split.hidden) if is_required else ()

    async def _objection(self, context: GateContext, one: TaskCandidate, outcome: GateOutcome, split: Split) -> str:
        assert outcome.plan is not None
        cases = one.cases or self._cases
        failing = {case for test in outcome.flipped for case in cases[test]}
        planned = [test for test in outcome.plan.tests if test.id in failing]
        reasons = sorted({test.reasons[0] for test in planned if test.reasons})
        if not set(outcome.apart) & set(split.hidden):
            return f"no hidden test is judged apart: {reasons[0] if reasons else 'all that are, are shown'}"
        beside = failing - {test.id for test in planned if test.method != "in-process"}
        if beside:
            why = next(
                (test.reasons[0] for test in planned if test.id in beside and test.reasons), "no plan carries it"
            )
            return f"a failing test is not judged apart: {why}"
        right = {path: unbroken_text(context, one, path) for path in one.changes}
        return await self._unnoticed_part(context, one, outcome, right) or await self._unnoticed_mutant(
            context, one, outcome, right
        )

    async def _unnoticed_part(
        self, context: GateContext, one: TaskCandidate, outcome: GateOutcome, right: Mapping[str, str]
    ) -> str:
        """Returns which change of a combination no carried test detects; empty if each is detected."""
        parts = partial_repairs(right, one.changes) if one.kind == "combination" else ()
        if not parts:
            return ""
        done = await self._run_versions(context, one, parts, outcome.apart)
        unnoticed = [number for number, result in enumerate(done, 1) if all_pass(outcome.apart, result)]
        return f"change {unnoticed[0]} of {len(parts)} is noticed by no test that is judged apart" if unnoticed else ""

    async def _unnoticed_mutant(
        self, context: GateContext, one: TaskCandidate, outcome: GateOutcome, right: Mapping[str, str]
    ) -> str:
        """Returns why false answers to tests that are not carried could pay; empty if the carried ones detect as many
        mutants."""
        rest = tuple(sorted(set(outcome.flipped) - set(outcome.apart)))
        mutants = draw_mutants(right, compare_changes(right, one.changes) or {}, f"{one.digest} rest", self._mutants)
        if not rest or not mutants:
            return ""
        done = await self._run_versions(context, one, mutants, tuple(sorted(outcome.flipped)))
        escaped = sum(all_pass(outcome.apart, result) and not all_pass(rest, result) for result in done)
        return f"mutants are noticed only by tests that false answers pass: {escaped} of {len(done)}" if escaped else ""

    async def _without_spare_tests(
        self, context: GateContext, one: TaskCandidate, outcome: GateOutcome, right: Mapping[str, str]
    ) -> GateOutcome:
        """Returns the outcome without passing tests that would be judged in process and detect no mutant."""
        assert outcome.plan is not None
        cases = one.cases or self._cases
        outside = {test.id for test in outcome.plan.tests if test.method != "in-process"}
        tests = (*sorted(outcome.flipped), *sorted(outcome.passing))
        rest = tuple(test for test in tests if not outside.issuperset(cases[test]))
        retained = tuple(test for test in tests if test not in rest)
        mutants = draw_mutants(right, compare_changes(right, one.changes) or {}, f"{one.digest} spare", self._mutants)
        if not outcome.apart or not rest or not mutants or set(rest) & set(outcome.flipped):
            return outcome
        done = await self._run_versions(context, one, mutants, tests)
        if any(all_pass(retained, result) and not all_pass(rest, result) for result in done):
            return outcome
        wanted = {case for test in retained for case in cases[test]}
        plan = msgspec.structs.replace(
            outcome.plan,
            tests=tuple(test for test in outcome.plan.tests if test.id in wanted),
            collection=tuple(item for item in outcome.plan.collection if item.id in wanted),
        )
        passing = tuple(test for test in outcome.passing if test not in rest)
        return msgspec.structs.replace(outcome, plan=plan, passing=passing)

    async def _run_versions(
        self, context: GateContext, one: TaskCandidate, versions: Sequence[Mapping[str, str]], tests: tuple[str, ...]
    ) -> list[JobResult]:
        jobs = [
            Job(
                f"{one.digest} {number}",
                tests,
                write={**one.base, **version},
                cpu_s=cpu_limit(context, one),
                slow_s=slow_limit(context, one),
            )
            for number, version in enumerate(versions, 1)
        ]
        done = await self._laboratory.run(jobs, repetition=0, warm=True)
        return [done[job.id] for job in jobs]
