"""The check `answer`: a file in the final state, compared as data in a real sandbox."""

from __future__ import annotations

import errno
import os

import pytest

from assay.environments.workspace.session import InitSession
from assay.verdicts import HOST_FAILED
from tests.verify.conftest import Bench, Outcome


async def judge(bench: Bench, command: str, expected: str = '{"result": {"a": [1.5, "x"], "b": 2}}') -> Outcome:
    bench.files = {"tests/answer.json": expected}
    return await bench.judge(command, "answer")


async def test_the_expected_value_passes_without_running_anything_of_the_agents(bench: Bench) -> None:
    outcome = await judge(bench, """echo '{"result": {"b": 2.0, "a": [1.5, "x"]}}' > answer.json""")
    assert (outcome.verdict.status, outcome.verdict.separation) == ("pass", "no-agent-code")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("true", "answer.json is absent"),
        ("""echo '{"result": {"b": 2, "a": [1.5]}}' > answer.json""", "another value"),
        ("""echo '{"error": "a"}' > answer.json""", "another value"),
        ("echo 2 > answer.json", "not a JSON object"),
        ("ln -s /etc/hostname answer.json", "not a JSON object|cannot be read|is absent"),
        ("mkfifo answer.json", "cannot be read"),
        ("mkdir answer.json", "cannot be read"),
        ("head -c 600000 /dev/zero > answer.json", "cannot be read"),
    ],
)
async def test_anything_else_fails(bench: Bench, command: str, said: str) -> None:
    outcome = await judge(bench, command)
    assert outcome.verdict.status == "fail"
    assert any(part in outcome.verdict.reason for part in said.split("|"))


@pytest.mark.parametrize("name", ["EIO", "EMFILE", "ENFILE", "ENOMEM", "ENOSPC"])
async def test_a_host_that_cannot_read_a_file_is_no_failure_of_the_agents(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async def fail(*_: object, **__: object) -> bytes:
        number = getattr(errno, name)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(InitSession, "read", fail)
    verdict = (await judge(bench, "true")).verdict
    assert (verdict.status, verdict.score, verdict.marks) == ("error", None, (HOST_FAILED,))


@pytest.mark.parametrize(
    "command",
    ["ln -s answer.json answer.json", "touch d; ln -s d/x answer.json", "ln -s $(printf %0300d 1) answer.json"],
)
async def test_a_file_that_the_agent_made_unreadable_fails(bench: Bench, command: str) -> None:
    verdict = (await judge(bench, command)).verdict
    assert (verdict.status, verdict.marks) == ("fail", ())
    assert "cannot be read" in verdict.reason


@pytest.mark.parametrize("path", ["/proc/self/mem", "/proc/mtrr"])
async def test_a_file_of_the_kernel_that_cannot_be_read_fails(bench: Bench, path: str) -> None:
    """The errors that such files give are those of a failing host, and the agent chose them."""
    verdict = (await judge(bench, f"ln -s {path} answer.json")).verdict
    assert (verdict.status, verdict.marks) == ("fail", ())


async def test_an_exception_is_expected_by_its_name(bench: Bench) -> None:
    right = await judge(bench, """echo '{"error": "KeyError"}' > answer.json""", '{"error": "KeyError"}')
    assert right.verdict.status == "pass"


async def test_a_malformed_expected_value_is_the_tasks_fault(bench: Bench) -> None:
    outcome = await judge(bench, "true", "[]")
    assert outcome.verdict.status == "error"
    assert "tests/answer.json" in outcome.verdict.reason
