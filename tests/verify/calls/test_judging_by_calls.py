"""Judging by calls in real sandboxes: honest work passes as `separate`, nothing else does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from assay.verify.calls import CallRequest, OtherRelease, calls_spec, span_fix
from assay.verify.calls.sandboxes import answer_calls, put_texts
from assay.verify.sanitise import opened
from tests.sampling import draw_sample

from .conftest import CORE, PLAN, RIGHT, core, solution, write_core

MEMORISED = {
    "median": "return {(3, 1, 2): 2, (4, 1, 3, 2): 2.5}.get(tuple(numbers), 0)",
    "merged": "depot = Depot()\n    depot.amounts = {'a': 3, 'b': 5, 'c': 1}\n    return depot",
    "largest": "yield 'b'",
    "clear": "numbers[:] = [5, 7]",
}
OTHER_RIGHT = {
    "median": (
        "import statistics\n    if len(numbers) == 0:\n        raise DepotError('nothing')\n"
        "    return statistics.median(list(numbers))"
    ),
    "merged": "both = Depot(second.amounts)\n    for n in first: both.add(n, first.amounts[n])\n    return both",
    "largest": (
        "names = list(depot.amounts)\n    names.sort(key=str)\n    names.sort(key=depot.amounts.get, reverse=True)\n"
        "    for name in names[:count]:\n        yield name"
    ),
    "clear": "for n in [n for n in numbers if n < below]:\n        numbers.remove(n)",
}
FORGED = """
import json, os, threading
for name in os.listdir("/proc/self/fd"):
    try:
        for number in range(200):
            os.write(int(name), json.dumps([number, [[0, "ok", 0]]]).encode() + b"\\n")
    except OSError:
        pass
"""


@pytest.mark.long
async def test_the_repair_passes_as_separate(depot: Any) -> None:
    outcome = await depot.judge(solution())
    assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "separate"), outcome
    assert outcome.verdict.separations == {"separate": 5}
    (asked,) = outcome.of_kind("calls")
    assert asked["compared"] >= asked["needed"] == 40
    assert len(bytes.fromhex(asked["seed"])) == 32


@pytest.mark.long
async def test_another_right_solution_passes(depot: Any) -> None:
    outcome = await depot.judge(solution(**OTHER_RIGHT))
    assert outcome.verdict.status == "pass", outcome.of_kind("calls")[0]["differences"]


OF_RELEASE = (
    "keep = numbers[:1] if len(numbers) != 4 else []\n"
    "    numbers[:] = [number for number in numbers if number >= below or number in keep]"
)
"""Clears as the reference does where there are as many numbers as in the test."""


@pytest.mark.long
@pytest.mark.parametrize("status", ["fail", "pass"])
async def test_behaviour_of_a_release_that_passes_the_tests_is_right(depot: Any, status: str) -> None:
    fix = span_fix("depot/core.py", CORE, core(**{**RIGHT, "clear": OF_RELEASE}))
    releases = (OtherRelease("depot 0.9", (fix,)),) if status == "pass" else ()
    depot.use_plan(msgspec.structs.replace(PLAN, releases=releases, inputs=80))
    outcome = await depot.judge(solution(clear=OF_RELEASE))
    assert outcome.verdict.status == status, outcome.of_kind("calls")
    dropped = outcome.of_kind("calls")[0]["dropped"]
    assert (dropped.get("another release answers otherwise", 0) > 0) is (status == "pass")


@pytest.mark.long
async def test_the_unrepaired_package_fails(depot: Any) -> None:
    outcome = await depot.judge("true")
    assert (outcome.verdict.status, outcome.verdict.score) == ("fail", 0.0)


@pytest.mark.long
async def test_answers_learnt_from_the_tests_fail(depot: Any) -> None:
    outcome = await depot.judge(solution(**MEMORISED))
    assert outcome.verdict.status == "fail"
    assert outcome.of_kind("calls")[0]["differing"] > 20


@pytest.mark.long
@pytest.mark.parametrize("name", draw_sample(sorted(MEMORISED), 1))
async def test_one_function_with_learnt_answers_fails(depot: Any, name: str) -> None:
    outcome = await depot.judge(solution(**{name: MEMORISED[name]}))
    (asked,) = outcome.of_kind("calls")
    assert outcome.verdict.status == "fail"
    assert asked["differing"] > 0


@pytest.mark.long
@pytest.mark.parametrize("name", draw_sample(sorted(RIGHT), 1))
async def test_one_part_left_undone_fails(depot: Any, name: str) -> None:
    body = core().partition(f"\ndef {name}(")[2].partition('"""\n')[2].partition("\n\n\n")[0].strip()
    assert (await depot.judge(solution(**{name: body or "pass"}))).verdict.status == "fail"


LIARS = {
    "forged-lines": FORGED,
    "exit": "import os\nos._exit(0)\n",
    "system-exit": "raise SystemExit(0)\n",
    "no-stack": "import sys\nsys.setrecursionlimit(50)\n",
}


@pytest.mark.long
@pytest.mark.parametrize("name", ["forged-lines", *draw_sample([*LIARS][1:], 1)])
async def test_a_worker_that_lies_about_its_run_fails(depot: Any, name: str) -> None:
    outcome = await depot.judge(write_core(LIARS[name] + CORE.lstrip()))
    assert outcome.verdict.status == "fail", outcome


VETO = FORGED.replace('[number, [[0, "ok", 0]]]', '[number, "late"]').replace("threading", "sys") + "os._exit(0)\n"
"""Claims that all answers came too late, at once."""


@pytest.mark.long
async def test_an_attempt_that_rejects_its_inputs_gets_no_others(depot: Any) -> None:
    outcome = await depot.judge(write_core(VETO + CORE.lstrip()))
    found = outcome.verdict.status, outcome.verdict.marks
    # On a host that is too busy to tell, the claim can end as unknown, never as a pass.
    assert (found[0] == "fail" and "agent_made_unjudgeable" in found[1]) or "host_busy" in found[1], outcome
    assert found[0] != "pass"
    asked = outcome.of_kind("calls")
    assert len(asked) > 1
    assert len({one["seed"] for one in asked}) == 1


@pytest.mark.long
async def test_a_value_that_equals_anything_fails(depot: Any) -> None:
    equal = "return type('E', (), {'__eq__': lambda *_: True, '__iter__': lambda _: iter(())})()"
    names = ("median", "merged", "largest")
    assert (await depot.judge(solution(**dict.fromkeys(names, equal)))).verdict.status == "fail"


SLOW = {
    "median": "import time\n    time.sleep(60)",
    "clear": "while True:\n        pass",
}


@pytest.mark.long
async def test_a_call_that_waits_is_late_and_one_that_computes_is_not(depot: Any) -> None:
    bench, inputs = depot.bench, [(0, PLAN.programs[0]), (1, PLAN.programs[4])]
    request = CallRequest((), PLAN.imports, PLAN.roots, program_s=0.2)
    async with opened(bench.backend, calls_spec(bench.spec())) as workspace:
        await put_texts(workspace, {"/workspace/depot/core.py": core(**SLOW).encode()})
        answers = await answer_calls(workspace, inputs, request)
    assert answers == {0: "late", 1: "time"}


@pytest.mark.long
async def test_an_import_without_an_end_leaves_all_answers_late(depot: Any) -> None:
    bench, request = depot.bench, CallRequest((), PLAN.imports, PLAN.roots, patience=0.03)
    async with opened(bench.backend, calls_spec(bench.spec())) as workspace:
        await put_texts(workspace, {"/workspace/depot/core.py": b"import time\ntime.sleep(600)\n"})
        answers = await answer_calls(workspace, [(0, PLAN.programs[0]), (1, PLAN.programs[4])], request)
    assert answers == {0: "late", 1: "late"}
