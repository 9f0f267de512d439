"""Judges functions that may become tasks to write them in another language, one function at a time.

A function is accepted if fresh inputs fail the unrepaired state and at least 95% of the drawn mutants (answered through
the same protocol by `reference_answers.py`), its solution passes the task's own check and its empty state fails it.
"""

from __future__ import annotations

import ast
import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from assay.code.operators import FEATURE, apply, find_sites
from assay.records import digest_record
from assay.tasks.write import write_task
from assay.verify.calls import (
    Answer,
    CallPlan,
    CallProgram,
    ReferenceFix,
    answer_by_reference,
    calls_spec,
    write_json_answer,
    write_request,
)
from assay.verify.sanitise import opened

from ._call_plans import find_failing_versions, measure_draft
from ._entry_trace import compare_changes
from ._opening import OpenedSource
from ._own_check import run_check
from ._plain_calls import PlainFunction, draft_plan
from ._program_folder import (
    BRIDGE,
    ProgramParts,
    collect_adapter_files,
    collect_solution_files,
    describe_call,
    draft_program_task,
)
from ._separation import DecidingTests
from ._splice_proof import draw_mutants
from ._units import ProgramOutcome, ProgramsBasis, ProgramUnit, find_function
from .config import SynthesisConfig

MIN_CALLS = 2
WANTED_INPUTS, MAX_ASKED = 100, 600
"""A program answers a hundred inputs nearly as fast as twenty, and no test judges beside them."""
MAX_EXAMPLES = 6
MAX_EXAMPLE = 300
"""Characters of a shown request or answer."""
GATES = {
    "shape": "the function has a docstring, named arguments, 3 to 60 statements, and at least two plain calls",
    "examples": "the reference answers at least two recorded calls in a way that JSON can say",
    "power": "fresh inputs fail the unrepaired state and 95% of the mutants that the tests fail",
    "solution": "the solution passes the task's own check",
    "null": "the empty state fails the task's own check",
}


class ProgramJudge:
    """Judges functions of an open source."""

    def __init__(self, source: OpenedSource, config: SynthesisConfig, basis: ProgramsBasis) -> None:
        self._source, self._config, self._basis = source, config, basis

    async def judge(self, unit: ProgramUnit) -> ProgramOutcome:
        """Returns the gate at which the function of a unit ended. Raises `UserError` if the source has no such one."""
        one = find_function(self._source.tree, unit.function)
        called = describe_call(one, self._basis.language)
        stub = next((site for site in find_sites(one.text, [FEATURE.name]) if site.function == one.name), None)
        if called is None or stub is None or not ast.get_docstring(one.node) or len(one.calls) < MIN_CALLS:
            return ProgramOutcome(unit.digest, "shape", GATES["shape"])
        draft = msgspec.structs.replace(draft_plan(self._source, one), program=called)
        fair = await self._answer_recorded(draft, one)
        if len(fair) < MIN_CALLS:
            counted = f"{len(fair)} of {len(one.calls)} recorded calls have answers in JSON"
            return ProgramOutcome(unit.digest, "examples", counted)
        deciding = self._deciding_tests(one, apply(one.text, stub))
        plan = await self._measure(draft, one, deciding)
        if isinstance(plan, str):
            return ProgramOutcome(unit.digest, "power", plan)
        parts = ProgramParts(one, plan, _choose_examples(plan, one.calls, fair), unit.solution, unit.bridged)
        gate, reason = await self._judge_solution(parts)
        if gate:
            return ProgramOutcome(unit.digest, gate, reason)
        return ProgramOutcome(unit.digest, "kept", plan=plan, examples=parts.examples)

    def _deciding_tests(self, one: PlainFunction, broken: str) -> DecidingTests:
        cases = tuple(sorted({call.test for call in one.calls}))
        identity = digest_record([self._source.tree.digest, one.key]).partition(":")[2][:16]
        return DecidingTests(identity, {one.path: one.text}, {one.path: broken}, {}, cases, self._config.run_cpu_s)

    async def _answer_recorded(self, draft: CallPlan, one: PlainFunction) -> dict[int, Answer]:
        laboratory = self._source.laboratory
        async with opened(laboratory.backend, calls_spec(laboratory.spec), laboratory.state) as workspace:
            fix = ReferenceFix(one.path, 0, "", "")
            return (await answer_by_reference(workspace, draft, list(enumerate(one.calls)), [fix])).answers

    async def _measure(self, draft: CallPlan, one: PlainFunction, deciding: DecidingTests) -> CallPlan | str:
        """Measures the power with the reference and its mutants as programs; returns the plan or the reason."""
        laboratory, called = self._source.laboratory, draft.program
        changes = compare_changes(deciding.right, deciding.broken)
        if called is None or changes is None:
            return "the reference changes more than bodies of functions"
        drawn = draw_mutants(deciding.right, changes, deciding.id, self._basis.mutants)
        failing = await find_failing_versions(laboratory, deciding, drawn, deciding.cases)
        if not failing:
            return f"the tests fail none of {len(drawn)} drawn mutants"
        # The adapter is part of the unrepaired tree: mutants are programs of the same protocol.
        beside = {path: data.decode() for path, data in collect_adapter_files(self._source.tree, one, called).items()}
        measured = msgspec.structs.replace(draft, program=msgspec.structs.replace(called, language=BRIDGE))
        outcome = await measure_draft(laboratory, deciding._replace(base=beside), measured, failing)
        if not isinstance(outcome, CallPlan):
            return outcome.reason
        shipped = msgspec.structs.replace(called, language=msgspec.structs.replace(called.language, bridge=""))
        most = int(MAX_ASKED * outcome.fair_share)
        return msgspec.structs.replace(outcome, program=shipped, inputs=max(outcome.inputs, min(WANTED_INPUTS, most)))

    async def _judge_solution(self, parts: ProgramParts) -> tuple[str, str]:
        """Returns the gate at which a task ends by its own check, and why; two empty texts for a kept one."""
        laboratory = self._source.laboratory
        with tempfile.TemporaryDirectory(prefix="assay-program-") as scratch:
            draft = draft_program_task(self._source, parts, "candidate", self._basis.label)
            loaded = await asyncio.to_thread(write_task, Path(scratch) / "task", draft)
            if parts.solution:
                state = await laboratory.snapshot_with(collect_solution_files(parts, self._source.tree))
                try:
                    verdict = await run_check(laboratory, loaded.task, Path(scratch) / "task", state)
                finally:
                    await laboratory.backend.release(state)
                if verdict.status != "pass":
                    return "solution", f"{verdict.status}: {verdict.reason}"
            null = await run_check(laboratory, loaded.task, Path(scratch) / "task", laboratory.state)
        if null.status != "fail":
            return "null", f"{null.status}: {null.reason}"
        return "", ""


def _choose_examples(
    plan: CallPlan, calls: Sequence[CallProgram], fair: dict[int, Answer]
) -> tuple[tuple[str, str], ...]:
    """Returns short requests with their answers, of as many tests as possible."""
    assert plan.program is not None, "a plan of a program"
    found = []
    for number, answer in sorted(fair.items()):
        request, shown = write_request(calls[number], plan.program), write_json_answer(answer)
        if request is not None and max(len(request), len(shown)) <= MAX_EXAMPLE:
            found.append((request, shown))
    return tuple(found[:MAX_EXAMPLES])
