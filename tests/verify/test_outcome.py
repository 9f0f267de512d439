"""How checks are found, and what becomes of their exceptions. No sandbox: the checks are small classes in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.environments.interface import Image, Snapshot, WorkspaceSpec
from assay.environments.workspace.process import ProcessBackend
from assay.records import Check, EnvironmentSpec, Separation, Task, Verdict, VerdictStatus
from assay.verify import CheckResult, JudgeRequest, judge_facts, verify_outcome
from assay.verify.outcome import combine_checks, combine_repetitions

pytestmark = pytest.mark.quick

CHECKS = """
from assay.errors import EnvironmentFailure
from assay.records import Evidence, Verdict
from assay.verify import CheckResult

class Good:
    kind = "good"
    async def judge(self, given):
        found = Evidence(given.prefix + "1", "audit", "x", {})
        return CheckResult(Verdict(given.check.name, "outcome", "pass", 1.0, "fine", (found.id,)), (found,))

class Raises:
    kind = "raises"
    async def judge(self, given):
        raise ZeroDivisionError("by nothing")

class NoSandbox:
    kind = "no-sandbox"
    async def judge(self, given):
        raise EnvironmentFailure("the sandbox is gone")
"""


async def judge(tmp_path: Path, *kinds: str, repetitions: int = 1) -> list[Any]:
    path = tmp_path / "checks.py"
    path.write_text(CHECKS)
    checks = tuple(Check(kind, kind if kind == "discard_deltas-of" else f"{path}:{kind}") for kind in kinds)
    task = Task("t", "", EnvironmentSpec("workspace"), checks, "blake3:t")
    state = Snapshot("blake3:s", Image())
    nowhere: Any = None
    request = JudgeRequest(task, None, nowhere, WorkspaceSpec(), state, nowhere, repetitions)
    return list(await verify_outcome(request))


async def test_one_result_a_check_in_order(tmp_path: Path) -> None:
    results = await judge(tmp_path, "Good", "Raises", "Good")
    assert [r.verdict.status for r in results] == ["pass", "error", "pass"]
    assert len({e.id for r in results for e in r.evidence}) == 5


async def test_errors_name_whose_they_are(tmp_path: Path) -> None:
    raises, no_sandbox, unknown = await judge(tmp_path, "Raises", "NoSandbox", "discard_deltas-of")
    assert raises.verdict.reason == "verifier: check 'Raises': ZeroDivisionError: by nothing"
    assert no_sandbox.verdict.reason == "environment: the sandbox is gone"
    assert (unknown.verdict.status, unknown.verdict.score) == ("error", None)


async def test_agreeing_repetitions_keep_the_verdict(tmp_path: Path) -> None:
    (result,) = await judge(tmp_path, "Good", repetitions=3)
    assert result.verdict.status == "pass"
    assert result.verdict.reason.endswith("(3 repetitions agree)")
    assert len(result.verdict.evidence) == len(set(result.verdict.evidence)) == 6


@pytest.mark.parametrize("kind", ["pytest", "script"])
async def test_nothing_is_judged_where_nothing_is_isolated(kind: str) -> None:
    backend: Any = ProcessBackend()
    task = Task("t", "", EnvironmentSpec("workspace"), (Check("c", kind, {}),), "blake3:t")
    request = JudgeRequest(task, None, backend, WorkspaceSpec(), Snapshot("blake3:s", Image()), backend)
    (result,) = await verify_outcome(request)
    verdict, kinds = result.verdict, [found.kind for found in result.evidence]
    assert (verdict.status, verdict.score, verdict.marks) == ("error", None, ("not_isolated",))
    assert kinds == ["host_load"]
    assert "Run again with --backend namespaces, bubblewrap, podman or docker" in verdict.reason


@pytest.mark.parametrize("parameters", [{}, {"expected": {}}, {"expected": []}])
def test_a_check_that_names_no_fact_is_an_error(parameters: dict[str, Any]) -> None:
    task = Task("t", "", EnvironmentSpec("world"), (Check("c", "facts", parameters),), "blake3:t")
    (result,) = judge_facts(task, {"value": 1})
    verdict = result.verdict
    assert (verdict.status, verdict.score) == ("error", None)
    assert "names no fact" in verdict.reason


def result_of(grade: Separation, status: VerdictStatus = "pass") -> CheckResult:
    return CheckResult(Verdict("c", "outcome", status, None, f"by {grade}", separation=grade), ())


def test_repetitions_that_agree_have_the_weakest_of_their_grades() -> None:
    rounds = [result_of("separate"), result_of("same-process"), result_of("separate")]
    assert combine_repetitions(rounds).verdict.separation == "same-process"


def test_checks_combine_to_the_worst_of_them_at_the_weakest_grade() -> None:
    results = [result_of("same-process"), result_of("separate", "fail"), result_of("same-user", "fail")]
    verdict = combine_checks(results).verdict
    assert (verdict.status, verdict.reason, verdict.separation) == ("fail", "by separate", "same-process")
