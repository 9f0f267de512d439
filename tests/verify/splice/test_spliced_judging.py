"""Tests judged from outside, in real sandboxes: honest work passes as `separate`, nothing else does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from assay.verify import pytest_check
from assay.verify.separation_plan import CollectedTest, EntryPoint, EntryUse, SeparationPlan, TestPlan
from assay.verify.splice import run

from .conftest import IDS, plan_of, solution


def with_use(identity: str, name: str) -> tuple[TestPlan, ...]:
    """The plan's tests, of which one uses another entry point."""
    other = TestPlan(identity, "splice", (), (EntryUse(f"shop.core:{name}"),))
    return tuple(other if test.id == identity else test for test in plan_of().tests)


@pytest.mark.long
async def test_the_repair_passes_as_separate(shop: Any) -> None:
    outcome = await shop.judge(solution())
    assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "separate"), outcome
    assert outcome.verdict.separations == {"separate": 8}


@pytest.mark.long
async def test_the_unrepaired_package_fails(shop: Any) -> None:
    outcome = await shop.judge("true")
    assert outcome.verdict.status == "fail"
    assert outcome.verdict.score == 0.0


@pytest.mark.long
async def test_a_plan_that_does_not_fit_is_an_error_and_never_the_agents_failure(shop: Any) -> None:
    for plan in (
        plan_of(sources={"shop.core": "0" * 64}),
        plan_of(collection=(CollectedTest(IDS["total"][0]),)),
        plan_of(entries=(*plan_of().entries, EntryPoint("shop.core", "gone")), tests=with_use(IDS["total"][0], "gone")),
    ):
        outcome = await shop.judge(solution(), plan)
        assert outcome.verdict.status == "error", outcome.verdict
        assert "the separation plan does not fit" in outcome.verdict.reason


async def test_tests_in_reversed_order_fit_the_plan(shop: Any) -> None:
    names = [*IDS["total"], *IDS["lines"]]
    some = tuple(test for test in plan_of().tests if test.id in names)
    plan = plan_of(tests=some, collection=tuple(CollectedTest(name) for name in names))
    for order in ("", "reversed"):
        outcome = await shop.judge(solution(), plan, expected=names, env={"ASSAY_TEST_ORDER": order})
        assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "separate"), outcome.verdict
        assert {report["order"] for report in outcome.of_kind("test_report")} == {order or "usual"}


async def test_a_plan_that_names_what_is_unknown_is_refused(shop: Any) -> None:
    outcome = await shop.judge(solution(), plan_of(tests=with_use(IDS["total"][0], "nowhere")))
    assert outcome.verdict.status == "error"
    assert "nowhere" in outcome.verdict.reason


@pytest.mark.long
async def test_tests_that_are_not_carried_run_in_process_and_lower_the_grade(shop: Any) -> None:
    some = tuple(test if "total" in test.id else TestPlan(test.id) for test in plan_of().tests)
    outcome = await shop.judge(solution(), plan_of(tests=some))
    assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "same-process")
    assert outcome.verdict.separations == {"separate": 1, "same-process": 7}
    (report,) = outcome.of_kind("test_report")
    assert report["counts"]["passed"] == 8


@pytest.mark.long
async def test_the_grade_is_that_of_the_tests_that_must_flip(shop: Any) -> None:
    some = tuple(test if "total" in test.id else TestPlan(test.id) for test in plan_of().tests)
    others = [one for name, ids in IDS.items() if name != "total" for one in ids]
    outcome = await shop.judge(solution(), plan_of(tests=some), expected=IDS["total"], also=others)
    assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "separate")
    broken = await shop.judge(solution(ordered="return []"), plan_of(tests=some), expected=IDS["total"], also=others)
    assert (broken.verdict.status, broken.verdict.score) == ("fail", 6 / 8)


async def test_lies_in_the_agents_copy_of_what_the_judge_uses_gain_nothing(shop: Any) -> None:
    lie = "echo 'Basket.__len__ = lambda *_: 1; Basket.__eq__ = lambda *_: True' >> shop/core.py"
    outcome = await shop.judge(solution(discounted="return Basket()") + lie, expected=IDS["discounted"])
    assert (outcome.verdict.status, outcome.verdict.separation) == ("fail", "separate")


@pytest.mark.long
async def test_what_was_planted_is_noted_and_decides_nothing(shop: Any) -> None:
    plant = "mkdir -p x; echo 'import os' > x/conftest.py; echo 'import os' > sitecustomize.py; chmod 0555 x\n"
    outcome = await shop.judge(plant + solution())
    assert (outcome.verdict.status, outcome.verdict.marks) == ("pass", ("conftest", "start_up_hook")), outcome.verdict


def with_guards(*names: str) -> SeparationPlan:
    """A plan in which the tests of some functions only guard."""
    guards = {one for name in names for one in IDS[name]}
    tests = (msgspec.structs.replace(t, reasons=("it passes",) if t.id in guards else ()) for t in plan_of().tests)
    return plan_of(tests=tuple(sorted(tests, key=lambda test: not test.decides)))


@pytest.mark.long
async def test_guards_are_judged_from_outside_and_must_pass(shop: Any) -> None:
    plan = with_guards("total", "ordered")
    names: dict[str, Any] = {"expected": IDS["sort_by"], "also": [*IDS["total"], *IDS["ordered"]]}
    outcome = await shop.judge(solution(), plan, **names)
    assert (outcome.verdict.status, outcome.verdict.separations) == ("pass", {"separate": 4}), outcome.verdict
    broken = await shop.judge(solution(total="return 0"), plan, **names)
    assert (broken.verdict.status, broken.verdict.score) == ("fail", 3 / 4)


@pytest.mark.long
async def test_classes_of_guards_come_back_to_guards_alone(shop: Any) -> None:
    guard = msgspec.structs.replace(with_guards("discounted"), classes=(), guard_classes=plan_of().classes)
    names: dict[str, Any] = {"expected": IDS["total"], "also": IDS["discounted"]}
    assert (await shop.judge(solution(), guard, **names)).verdict.status == "pass"
    deciding = plan_of(classes=(), guard_classes=plan_of().classes)
    refused = await shop.judge(solution(), deciding, **names)
    assert (refused.verdict.status, refused.verdict.marks) == ("fail", ("failed_tests", "reply_refused"))


@pytest.mark.long
async def test_code_does_not_meet_the_tests_before_they_are_judged_again(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytest_check, "_judge_in_process", lambda *_: pytest.fail("the tests ran in process"))
    sleeping = solution(total="import time\n    time.sleep(60)")
    outcome = await shop.judge(sleeping, plan_of(call_timeout_s=1.0))
    assert "no_result" in outcome.verdict.marks


def programs_of(outcome: Any) -> list[str]:
    """The program and mode of each command that the verifier ran for the tests."""
    return [" ".join(one["argv"][1:3]).rpartition("/")[2] for one in outcome.of_kind("execution")]


AGAIN = ["runner.py judge", "splice_worker.py", "runner.py again"]


async def test_what_passes_is_confirmed_in_the_judges_sandbox(shop: Any) -> None:
    outcome = await shop.judge(solution())
    assert (outcome.verdict.status, outcome.verdict.marks) == ("pass", ()), outcome.verdict
    assert "they pass in process, too" in outcome.verdict.reason
    assert programs_of(outcome) == AGAIN


async def test_removed_files_and_others_are_confirmed_there_too(shop: Any) -> None:
    shop.bench.given |= {"workspace/shop/old.py": "raise OSError\n"}
    outcome = await shop.judge(
        f"{solution()}\nrm shop/old.py; mkdir -p shop/new && echo 'x = 1' > shop/new/__init__.py\n"
        "cat >> shop/core.py <<'PYTHON'\nfrom shop.new import x\nimport pathlib\n"
        "if pathlib.Path(__file__).with_name('old.py').exists(): raise OSError\nPYTHON"
    )
    assert outcome.verdict.status == "pass", outcome.verdict
    assert programs_of(outcome) == AGAIN


async def test_modules_may_have_the_names_of_the_verifiers(shop: Any) -> None:
    names = ("child", "probes", "runner", "splice_codec", "splice_worker", "plain_values")
    made = "".join(f"echo 'here = 1' > {name}.py\n" for name in names)
    used = "".join(f"import {name}\n{name}.here\n" for name in names)
    outcome = await shop.judge(f"{solution()}\n{made}cat >> shop/core.py <<'PYTHON'\n{used}PYTHON")
    assert outcome.verdict.status == "pass", outcome.verdict
    assert programs_of(outcome) == AGAIN


MOVED = {
    "links": "ln -s core.py shop/other.py",
    "deep folders": f"mkdir -p {'/'.join('a' * 80)}; touch {'/'.join('a' * 80)}/x",
    "many files": "mkdir many; for n in $(seq 300); do touch many/$n; done",
}


@pytest.mark.parametrize("name", MOVED)
async def test_a_state_with_more_than_a_few_files_is_confirmed_in_a_sandbox_of_its_own(shop: Any, name: str) -> None:
    outcome = await shop.judge(f"{solution()}\n{MOVED[name]}")
    assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "separate"), outcome.verdict
    assert programs_of(outcome) == [*AGAIN[:2], "runner.py check"]


async def test_a_process_that_is_left_in_the_judges_sandbox_is_looked_into(shop: Any) -> None:
    left = "import subprocess\nsubprocess.Popen(['sleep', '600'])\n"
    outcome = await shop.judge(f"{solution()}\ncat >> shop/core.py <<'PYTHON'\n{left}PYTHON")
    assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "separate"), outcome.verdict
    assert "left_processes" in outcome.verdict.marks
    assert programs_of(outcome) == AGAIN


IN_THE_JUDGES_SANDBOX = "if os.path.exists('/run/verifier/again'):\n"
FORGERY = "    sys.modules['_pytest.python'].Function.runtest = lambda self: None\n"
MESSAGE = """    for fd in range(3, 30):
        try:
            os.write(fd, b'{"kind": "finished", "exit": 0, "nonce": "x"}\\n')
        except OSError:
            pass
"""


@pytest.mark.parametrize(
    ("text", "status", "marks"),
    [
        (FORGERY, "fail", {"forged", "not_confirmed"}),
        (MESSAGE, "pass", {"disturbed"}),
        ("    os._exit(0)\n", "pass", {"disturbed"}),
    ],
    ids=["forgery", "message", "exit"],
)
async def test_what_is_forged_in_the_judges_sandbox_alone_is_not_forgotten(
    shop: Any, text: str, status: str, marks: set[str]
) -> None:
    forged = f"import os, sys\n{IN_THE_JUDGES_SANDBOX}{text}"
    outcome = await shop.judge(f"{solution()}\ncat >> shop/core.py <<'PYTHON'\n{forged}PYTHON")
    assert outcome.verdict.status == status, outcome.verdict
    assert marks <= set(outcome.verdict.marks), outcome.verdict.marks


async def test_a_worker_is_given_more_time_than_the_judge_that_asks_it(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: dict[bool, float] = {}
    run_piped = run.JoinedSandboxes._run_piped

    async def recorded(self: Any, workspace: Any, argv: Any, pipes: Any, limit: float, show_bytes: int) -> Any:
        limits[workspace is self._worker] = limit
        return await run_piped(self, workspace, argv, pipes, limit, show_bytes)

    monkeypatch.setattr(run.JoinedSandboxes, "_run_piped", recorded)
    assert (await shop.judge(solution())).verdict.status == "pass"
    assert limits[True] > limits[False]


async def test_a_failure_in_the_judges_sandbox_is_not_the_last_word(shop: Any) -> None:
    judging = "pathlib.Path('/opt/assay-splice').exists() and pathlib.Path('/run/verifier').exists()"
    outcome = await shop.judge(
        f"{solution()}\ncat >> shop/core.py <<'PYTHON'\nimport pathlib\nif {judging}: raise OSError\nPYTHON"
    )
    assert (outcome.verdict.status, outcome.verdict.marks) == ("pass", ("verifier_paths",)), outcome.verdict
    assert programs_of(outcome) == [*AGAIN, "runner.py check"]


ONLY_THERE = {
    "in the worker's program": "__import__('__main__').__file__.endswith('splice_worker.py')",
    "before anything is undone": "__import__('pathlib').Path('conftest.py').exists()",
}


@pytest.mark.parametrize("name", ONLY_THERE)
async def test_what_works_where_calls_are_answered_alone_is_not_confirmed(shop: Any, name: str) -> None:
    body = f"return sum(amount for _, amount in items) if {ONLY_THERE[name]} else 0"
    outcome = await shop.judge(f"touch conftest.py\n{solution(total=body)}")
    assert outcome.verdict.status == "fail", outcome.verdict
    assert "not_confirmed" in outcome.verdict.marks
    assert programs_of(outcome) == [*AGAIN, "runner.py check"]


async def test_a_worker_that_ends_in_a_call_fails_at_once(shop: Any) -> None:
    outcome = await shop.judge(solution(total="import os\n    os.kill(os.getppid(), 9)\n    os._exit(0)"))
    assert outcome.verdict.status == "fail", outcome.verdict
    assert "worker_ended" in outcome.verdict.marks


TIRESOME = {
    "it stops the supervisor": "os.kill(os.getppid(), 19)",
    "it tells much": "[os.write(fd, b'x' * (1 << 20)) for fd in range(3, 9) for _ in range(99)]",
    "it waits": "time.sleep(600)",
}


@pytest.mark.long
@pytest.mark.parametrize("name", TIRESOME)
async def test_a_run_that_does_not_end_is_left_for_a_sandbox_of_its_own(
    shop: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "AGAIN_S", 0.5)
    there = f"import os, time\nif os.path.exists('/run/verifier/again'):\n    {TIRESOME[name]}"
    outcome = await shop.judge(f"{solution()}\ncat >> shop/core.py <<'PYTHON'\n{there}\nPYTHON")
    assert outcome.verdict.status == "pass", outcome.verdict
    assert programs_of(outcome)[-1] == "runner.py check"


async def test_a_repair_in_byte_code_alone_is_not_confirmed(shop: Any) -> None:
    compiled = """
/opt/assay/bin/python3 -I -S -c "
import importlib.util, py_compile
cache = importlib.util.cache_from_source('shop/core.py')
py_compile.compile('shop/core.py', cfile=cache, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)"
"""
    outcome = await shop.judge(f"cp shop/core.py kept; {solution()}{compiled}mv kept shop/core.py")
    assert outcome.verdict.status == "fail", outcome.verdict
    assert "not_confirmed" in outcome.verdict.marks


async def test_the_agents_files_at_the_verifiers_places_do_not_reach_the_judge(shop: Any) -> None:
    planted = "mkdir -p /run/verifier /opt/assay-splice; touch /run/verifier/again; echo > /opt/assay-splice/x"
    outcome = await shop.judge(f"{solution()}\n({planted}) || true")
    assert outcome.verdict.status == "pass", outcome.verdict
