"""An attempt that makes itself unjudgeable has failed; a check that cannot judge anything stays unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.verdicts import AGENT_MADE_UNJUDGEABLE, NO_RESULT
from assay.verify import host_load, pytest_check

TEST = "from a import x\n\n\ndef test_x():\n    assert x == 1\n"
PYTEST: dict[str, Any] = {"tests": ["tests/test_a.py"], "expected": ["tests/test_a.py::test_x"], "timeout_s": 4}
SCRIPT = 'r=0; if [ "$(cat a.txt)" = hi ]; then r=1; fi; echo $r > /logs/verifier/reward.txt\n'
STOP = "import os, signal\nfor one in os.getppid(), os.getpid(): os.kill(one, signal.SIGSTOP)\n"


@pytest.fixture(autouse=True)
def idle_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(host_load, "PROC", tmp_path / "proc")  # what these tests run beside is no part of them


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        "printf 'open(\"pipe\").read()\n' > a.py; mkfifo pipe",
        "printf 'import time\nwhile True: time.sleep(1)\n' > a.py",
        f"printf '{STOP}' > a.py",
    ],
    ids=["a named pipe", "an endless loop", "a stopped runner"],
)
async def test_a_module_that_cannot_be_imported_in_time_fails(
    bench: Any, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytest_check, "GRACE_S", 2.0)
    bench.files, bench.given = {"tests/test_a.py": TEST}, {"workspace/a.py": "x = 0\n"}
    verdict = (await bench.judge(f"rm a.py; {command}", "pytest", **PYTEST)).verdict
    assert (verdict.status, verdict.score) == ("fail", 0.0)
    assert AGENT_MADE_UNJUDGEABLE in verdict.marks, verdict
    assert "time limit" in verdict.reason


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "marked"),
    [("mkfifo a.txt", True), ("echo hi > a.txt", False), ("echo ho > a.txt", False)],
    ids=["a pipe", "right", "wrong"],
)
async def test_a_script_that_waits_for_a_pipe_fails(bench: Any, command: str, marked: bool) -> None:
    bench.files = {"tests/test.sh": SCRIPT}
    outcome = await bench.judge(command, "script", script="tests/test.sh", timeout_s=3)
    assert (AGENT_MADE_UNJUDGEABLE in outcome.verdict.marks) is marked
    assert outcome.verdict.status == ("pass" if "hi" in command else "fail")


@pytest.mark.long
@pytest.mark.parametrize(("answer", "status"), [("hi", "pass"), ("ho", "fail")])
async def test_a_filled_disk_keeps_nothing_from_being_judged(bench: Any, answer: str, status: str) -> None:
    bench.files = {"tests/test.sh": SCRIPT}
    fill = f"echo {answer} > a.txt; cat /dev/zero > big; for n in $(seq 200); do echo x > small$n; done"
    verdict = (await bench.judge(fill, "script", script="tests/test.sh", timeout_s=10)).verdict
    assert (verdict.status, AGENT_MADE_UNJUDGEABLE in verdict.marks) == (status, False)


async def test_two_rewards_by_the_judged_program_fail(bench: Any) -> None:
    bench.files = {"tests/test.sh": SCRIPT.replace("cat a.txt", "sh ./run.sh")}
    bench.given = {"workspace/run.sh": "echo ho\n"}
    forged = 'echo \'echo "{\\"reward\\": 1}" > /logs/verifier/reward.json; echo ho\' > run.sh'
    verdict = (await bench.judge(forged, "script", script="tests/test.sh", timeout_s=5)).verdict
    assert verdict.status == "fail"
    assert AGENT_MADE_UNJUDGEABLE in verdict.marks, verdict


async def test_a_verifier_that_never_comes_to_a_result_blames_nobody(bench: Any) -> None:
    bench.files = {"tests/test.sh": "exit 3\n"}
    outcome = await bench.judge("echo hi > a.txt", "script", script="tests/test.sh", timeout_s=5)
    assert outcome.verdict.status == "unknown"
    assert NO_RESULT in outcome.verdict.marks
    assert AGENT_MADE_UNJUDGEABLE not in outcome.verdict.marks
    assert [found["status"] for found in outcome.of_kind("control")] == ["unknown"]


async def test_without_a_change_there_is_nobody_to_blame(bench: Any) -> None:
    bench.files = {"tests/test.sh": "exit 3\n"}
    outcome = await bench.judge("true", "script", script="tests/test.sh", timeout_s=5)
    assert outcome.verdict.status == "unknown"
    assert not outcome.of_kind("control")
