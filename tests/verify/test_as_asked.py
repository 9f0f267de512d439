"""As a task asks: the agent's living sandbox judges it, nothing is undone, and the reward file alone decides."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from assay.environments.interface import Workspace
from assay.errors import TaskError
from assay.records import Check, EnvironmentSpec, Task
from assay.verify import as_asked
from assay.verify.as_asked import AsAskedRequest, judge_as_asked, living_spec

from .conftest import Bench, Outcome, write

TEST = (
    "cd /workspace && grep -q done work.txt && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt"
)


@asynccontextmanager
async def living(bench: Bench, command: str) -> AsyncIterator[Workspace]:
    workspace = await bench.backend.open(living_spec(bench.spec()))
    try:
        await workspace.exec(command, timeout_s=30)
        yield workspace
    finally:
        await workspace.close()


async def judged(bench: Bench, command: str, script: str = TEST, **parameters: Any) -> Outcome:
    write(bench.folder, {"tests/test.sh": script + "\n"})
    check = Check("tests", "script", {"script": "tests/test.sh", "timeout_s": 20.0, **parameters})
    task = Task("t", "", EnvironmentSpec("workspace", bench.environment), (check,), "blake3:task")
    async with living(bench, command) as workspace:
        result = await judge_as_asked(workspace, AsAskedRequest(task, check, bench.folder, bench.backend, bench.blobs))
    return Outcome(result.verdict, result.evidence)


async def test_the_reward_alone_decides_and_the_verdict_says_how_it_came_about(bench: Bench) -> None:
    outcome = await judged(bench, "echo done > work.txt", TEST + "\nexit 3")
    assert (outcome.verdict.status, outcome.verdict.score) == ("pass", 1.0)
    assert outcome.verdict.marks == ("as_asked",)
    assert outcome.verdict.reason.startswith("as asked: reward 1")
    assert outcome.of_kind("verification") == [
        {"as_asked": True, "mode": "shared", "user": None, "ran_as": "agent"},
    ]
    assert outcome.of_kind("execution")[0]["exit_code"] == 3


async def test_undone_work_fails(bench: Bench) -> None:
    assert (await judged(bench, "true")).verdict.status == "fail"


async def test_what_the_agent_left_still_runs(bench: Bench) -> None:
    loop = "cd /logs/verifier; while :; do echo 1 > new; mv new reward.txt; sleep 0.02; done"
    outcome = await judged(bench, f"setsid sh -c '{loop}' > /dev/null 2>&1 &")
    assert outcome.verdict.status == "pass"
    (left,) = outcome.of_kind("processes")
    assert "reward.txt" in str(left["processes"])


@pytest.mark.parametrize("moment", ["rm -f reward.txt", ": > reward.txt", "echo nan > reward.txt"])
async def test_a_reward_that_a_living_process_replaces_is_read_when_it_is_whole(bench: Bench, moment: str) -> None:
    loop = f"cd /logs/verifier; until [ -e judged ]; do sleep 0.01; done; {moment}; sleep 0.7; echo 1 > reward.txt"
    script = TEST + "; touch /logs/verifier/judged"
    outcome = await judged(bench, f"setsid sh -c '{loop}; sleep 60' > /dev/null 2>&1 &", script)
    assert outcome.verdict.status == "pass", outcome.verdict.reason
    (reward,) = outcome.of_kind("reward")
    assert reward["readings"] > 1


@pytest.mark.long
async def test_a_reward_that_stays_unusable_is_an_error_beside_a_living_process(bench: Bench) -> None:
    outcome = await judged(bench, "setsid sleep 60 > /dev/null 2>&1 &", ": > /logs/verifier/reward.txt")
    assert outcome.verdict.status == "error"
    assert [reward["readings"] for reward in outcome.of_kind("reward")] == [as_asked.MAX_READINGS]


async def test_a_reward_is_read_once_where_no_process_lives(bench: Bench) -> None:
    outcome = await judged(bench, "true", ": > /logs/verifier/reward.txt")
    assert [reward["readings"] for reward in outcome.of_kind("reward")] == [1]


async def test_a_reward_that_was_there_before_stays(bench: Bench) -> None:
    outcome = await judged(bench, "echo 1 > /logs/verifier/reward.txt", "exit 1")
    assert outcome.verdict.status == "pass"


async def test_what_was_planted_is_not_undone(bench: Bench) -> None:
    script = ". ~/.profile\ncd /workspace\n" + TEST
    assert (await judged(bench, "echo 'grep() { true; }' > ~/.profile", script)).verdict.status == "pass"


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("true", "no reward was written"),
        ("echo nan > /logs/verifier/reward.txt", "only finite numbers"),
        (": > /logs/verifier/reward.txt", "not a number"),
        ("mkdir /logs/verifier/reward.json; echo 1 > /logs/verifier/reward.txt", "not JSON"),
    ],
)
async def test_no_usable_reward_is_an_error(bench: Bench, script: str, told: str) -> None:
    verdict = (await judged(bench, "true", script)).verdict
    assert (verdict.status, verdict.score) == ("error", None)
    assert told in verdict.reason


async def test_a_script_that_meets_its_limit_is_an_error_whatever_it_wrote(bench: Bench) -> None:
    verdict = (await judged(bench, "true", "echo 1 > /logs/verifier/reward.txt; sleep 60", timeout_s=0.5)).verdict
    assert (verdict.status, verdict.score) == ("error", None)
    assert "time limit" in verdict.reason


async def test_a_link_in_place_of_the_reward_leads_nowhere_on_the_host(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("1")
    verdict = (await judged(bench, "true", f"ln -s {tmp_path}/secret /logs/verifier/reward.txt")).verdict
    assert verdict.status == "error"


async def test_separate_mode_brings_declared_artifacts_alone(bench: Bench) -> None:
    bench.environment = {"artifacts": [{"source": "/workspace/work.txt"}]}
    script = TEST.replace(
        "grep -q done work.txt", "grep -q done work.txt && test ! -e other.txt && test ! -e ~/.profile"
    )
    outcome = await judged(bench, "echo done > work.txt; touch other.txt ~/.profile", script, mode="separate")
    assert outcome.verdict.status == "pass"
    assert outcome.of_kind("artifacts")[0]["brought"] == ["/logs/artifacts", "/workspace/work.txt"]


async def test_links_in_artifacts_stay_links_for_the_separate_verifier(bench: Bench) -> None:
    bench.environment = {"artifacts": [{"source": "/workspace/work.txt"}]}
    write(bench.folder, {"tests/expected.txt": "done\n"})
    outcome = await judged(bench, "ln -s /tests/expected.txt work.txt", mode="separate")
    assert outcome.verdict.status == "pass"
    assert outcome.of_kind("artifacts")[0]["links"] == {"/workspace/work.txt": "/tests/expected.txt"}


async def test_tests_that_the_image_has_stay(bench: Bench) -> None:
    bench.given = {"tests/known.txt": "done\n"}
    script = TEST.replace("work.txt", "/tests/known.txt")
    assert (await judged(bench, "true", script)).verdict.status == "pass"


async def test_tests_that_cannot_be_brought_in_are_an_error(bench: Bench) -> None:
    verdict = (await judged(bench, "chmod 500 /tests")).verdict
    assert (verdict.status, verdict.score, verdict.rewards) == ("error", None, {})
    assert "could not be brought" in verdict.reason


async def test_a_script_that_is_not_there_is_the_tasks_fault(bench: Bench) -> None:
    check = Check("tests", "script", {"script": "tests/none.sh"})
    task = Task("t", "", EnvironmentSpec("workspace", {}), (check,), "blake3:task")
    async with living(bench, "true") as workspace:
        with pytest.raises(TaskError, match=r"tests/none\.sh"):
            await judge_as_asked(workspace, AsAskedRequest(task, check, bench.folder, bench.backend, bench.blobs))
