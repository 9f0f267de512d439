"""The check `pytest` on real final states."""

from __future__ import annotations

from typing import Any

import pytest

TEST = "from a import x\n\n\ndef test_x():\n    assert x == 1\n\n\ndef test_y():\n    assert x > 0\n"
NAMED: dict[str, Any] = {"tests": ["tests/test_a.py"], "expected": ["tests/test_a.py::test_x"]}


@pytest.mark.parametrize(
    ("command", "status"), [("echo x=1 > a.py", "pass"), ("echo x=2 > a.py", "fail"), ("true", "fail")]
)
async def test_named_tests_decide(bench: Any, command: str, status: str) -> None:
    bench.files = {"tests/test_a.py": TEST}
    outcome = await bench.judge(command, "pytest", **NAMED, also=["tests/test_a.py::test_y"])
    assert outcome.verdict.status == status
    assert outcome.verdict.evidence == tuple(found.id for found in outcome.evidence)


async def test_a_test_that_is_not_there_fails(bench: Any) -> None:
    bench.files = {"tests/test_a.py": TEST}
    outcome = await bench.judge("echo x=1 > a.py", "pytest", **NAMED, also=["tests/test_a.py::test_z"])
    assert outcome.verdict.status == "fail"
    assert "test_z" in outcome.verdict.reason


async def test_files_go_where_they_are_told_inside_a_package(bench: Any) -> None:
    bench.given = {f"workspace/src/pack/{name}": "" for name in ("__init__.py", "tests/__init__.py")}
    bench.given["workspace/src/pack/tests/support.py"] = "ONE = 1\n"
    bench.files = {
        "tests/hidden/a.py": "from .support import ONE\nfrom pack import y\n\ndef test_it():\n    assert y == ONE\n"
    }
    target = "src/pack/tests/test_hidden.py"
    tests = [{"source": "tests/hidden/a.py", "target": target}]
    outcome = await bench.judge(
        "echo y=1 > src/pack/__init__.py", "pytest", tests=tests, expected=[f"{target}::test_it"], roots=["src"]
    )
    assert outcome.verdict.status == "pass", outcome.verdict


async def test_arguments_and_variables_reach_pytest(bench: Any) -> None:
    bench.files = {"tests/check_a.py": "import os\n\ndef test_a():\n    assert os.environ['A'] == '1'\n"}
    outcome = await bench.judge(
        "true", "pytest", tests=["tests"], args=["-o", "python_files=check_*.py"], env={"A": "1"}
    )
    assert outcome.verdict.status == "pass", outcome.verdict


async def test_an_endless_loop_is_unknown(bench: Any) -> None:
    bench.files = {"tests/test_a.py": TEST}
    outcome = await bench.judge("printf 'while True: pass\n' > a.py", "pytest", **NAMED, timeout_s=1.5)
    assert outcome.verdict.status == "unknown"
    assert "time limit" in outcome.verdict.reason


HONEST_REACH = "import inspect\nx = 1\ndef caller(): return inspect.stack()\n"


async def test_what_reaches_for_the_runner_is_doubted_unless_allowed(bench: Any) -> None:
    bench.files = {"tests/test_a.py": TEST}
    command = f"cat > a.py <<'X'\n{HONEST_REACH}X\n"
    doubted = await bench.judge(command, "pytest", **NAMED)
    allowed = await bench.judge(command, "pytest", **NAMED, allow=["frames"])
    assert (doubted.verdict.status, doubted.verdict.marks) == ("unknown", ("frames",))
    assert (allowed.verdict.status, allowed.verdict.marks) == ("pass", ("frames",))


WRONG: list[dict[str, Any]] = [
    {"tests": []},
    {"tests": ["../x"]},
    {"tests": ["tests/none.py"]},
    {"tests": [{"source": "tests", "target": "../../etc"}]},
    {"tset": ["x"]},
    {"timeout_s": "long"},
]


@pytest.mark.parametrize("parameters", WRONG, ids=str)
async def test_wrong_parameters_are_an_error_of_the_task(bench: Any, parameters: dict[str, Any]) -> None:
    bench.files = {"tests/test_a.py": TEST}
    outcome = await bench.judge("true", "pytest", **parameters)
    assert outcome.verdict.status == "error"
    assert outcome.verdict.reason.startswith("task: ")
