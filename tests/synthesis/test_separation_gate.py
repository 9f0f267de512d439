"""Failing tests in process, and mutants that only tests which false answers pass notice, end a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from assay.code.batches import Job, JobResult, RunOutcome
from assay.synthesis._candidates import TaskCandidate
from assay.synthesis._gates import GateContext, GateOutcome
from assay.synthesis._separation_gate import SeparationGate
from assay.synthesis._split import Split
from assay.synthesis.config import SynthesisConfig
from assay.verify.separation_plan import CollectedTest, SeparationPlan, TestPlan

pytestmark = pytest.mark.quick
RIGHT = "def total(items):\n    if len(items) > 3:\n        return sum(items) + 1\n    return sum(items) - 2\n"
BROKEN = RIGHT.replace("sum(items) + 1", "0")
ONE = TaskCandidate("one", "operator", {"m.py": BROKEN}, ("x",), ("m.py::total",), (("m.py", 3),), ("apart", "beside"))
FAILED, PASSED = RunOutcome("failed"), RunOutcome("passed")


class Laboratory:
    """Answers every run of a mutant with the same outcomes."""

    def __init__(self, **outcomes: RunOutcome) -> None:
        self.outcomes = outcomes

    async def run(self, jobs: Sequence[Job], *, repetition: int, **_: bool) -> dict[str, JobResult]:
        return {job.id: JobResult(job.id, "done", tests=self.outcomes) for job in jobs}


async def find_objection(apart: RunOutcome, beside: RunOutcome, carried: tuple[str, ...] = ("apart",)) -> str:
    async def content(*_: Any) -> str:
        return ""

    given = GateContext({"m.py": RIGHT.encode()}, {}, SynthesisConfig(source="m", out="out"), content)
    gate = SeparationGate(None, {}, Laboratory(apart=apart, beside=beside), 4)  # type: ignore[arg-type]
    outcome = GateOutcome("one", "kept", flipped={"apart": FAILED, "beside": FAILED}, apart=carried)
    return await gate._unnoticed_mutant(given, ONE, outcome, {"m.py": RIGHT})


async def test_mutant_that_only_a_test_which_false_answers_pass_notices_is_an_objection() -> None:
    assert "noticed only by tests that false answers pass" in await find_objection(PASSED, FAILED)


async def test_mutant_that_a_carried_test_notices_is_no_objection() -> None:
    assert await find_objection(FAILED, FAILED) == await find_objection(FAILED, PASSED) == ""


async def test_equivalent_mutant_is_no_objection() -> None:
    assert await find_objection(PASSED, PASSED) == ""


@pytest.mark.parametrize(
    ("methods", "objection"),
    [
        ({"apart": "splice", "beside": "in-process"}, "a failing test is not judged apart: it prints"),
        ({"apart": "splice"}, "a failing test is not judged apart: no plan carries it"),
        ({"apart": "splice", "beside": "splice"}, ""),
        ({"apart": "splice", "beside": "calls"}, ""),
    ],
)
async def test_failing_test_in_process_ends_a_candidate(methods: dict[str, Any], objection: str) -> None:
    given = GateContext({"m.py": RIGHT.encode()}, {}, SynthesisConfig(source="m", out="out"), None)  # type: ignore[arg-type]
    tests = tuple(
        TestPlan(name, method, ("it prints",) if name == "beside" else ()) for name, method in methods.items()
    )
    plan = SeparationPlan("m", tests=tests)
    flipped = {"apart": FAILED, "beside": FAILED}
    outcome = GateOutcome("one", "kept", flipped=flipped, apart=("apart",), plan=plan)
    laboratory = Laboratory(apart=FAILED, beside=PASSED)
    gate = SeparationGate(None, {name: (name,) for name in flipped}, laboratory, 4)  # type: ignore[arg-type]
    split = Split(visible=("beside",), hidden=("apart",), texts={}, removed=(), how="tests")
    assert await gate._objection(given, ONE, outcome, split) == objection


async def spare(guard: RunOutcome, rest: RunOutcome, *, outside: tuple[str, ...] = ("apart", "guard")) -> GateOutcome:
    async def content(*_: Any) -> str:
        return ""

    given = GateContext({"m.py": RIGHT.encode()}, {}, SynthesisConfig(source="m", out="out"), content)
    names = ("apart", "guard", "rest")
    tests = tuple(TestPlan(name, "splice" if name in outside else "in-process") for name in names)
    plan = SeparationPlan("m", tests=tests, collection=tuple(CollectedTest(name) for name in outside))
    outcome = GateOutcome("one", "kept", flipped={"apart": FAILED}, passing=names[1:], apart=("apart",), plan=plan)
    laboratory = Laboratory(apart=PASSED, guard=guard, rest=rest)
    gate = SeparationGate(None, {name: (name,) for name in names}, laboratory, 4)  # type: ignore[arg-type]
    return await gate._without_spare_tests(given, ONE, outcome, {"m.py": RIGHT})


@pytest.mark.parametrize("guard", [PASSED, FAILED])
async def test_passing_test_that_cannot_be_spliced_and_notices_nothing_more_is_left_out(guard: RunOutcome) -> None:
    outcome = await spare(guard, guard)
    assert outcome.passing == ("guard",)
    assert outcome.plan is not None
    assert (
        [test.id for test in outcome.plan.tests]
        == [item.id for item in outcome.plan.collection]
        == [
            "apart",
            "guard",
        ]
    )


async def test_passing_test_that_alone_notices_a_mutant_stays() -> None:
    assert (await spare(PASSED, FAILED)).passing == ("guard", "rest")


async def test_nothing_is_left_out_where_a_failing_test_runs_in_process_anyway() -> None:
    assert (await spare(PASSED, PASSED, outside=("guard",))).passing == ("guard", "rest")


async def test_candidate_whose_failing_tests_are_all_carried_is_not_run_again() -> None:
    assert await find_objection(PASSED, FAILED, carried=("apart", "beside")) == ""
