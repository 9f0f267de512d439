"""The check `pytest` on real final states."""

from __future__ import annotations

from typing import Any

import pytest

TEST = "from a import x\n\n\ndef test_x():\n    assert x == 1\n\n\ndef test_y():\n    assert x > 0\n"
NAMED: dict[str, Any] = {"tests": ["tests/test_a.py"], "expected": ["tests/test_a.py::test_x"]}


@pytest.mark.long
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


@pytest.mark.long
async def test_arguments_and_variables_reach_pytest(bench: Any) -> None:
    bench.files = {"tests/check_a.py": "import os\n\ndef test_a():\n    assert os.environ['A'] == '1'\n"}
    outcome = await bench.judge(
        "true", "pytest", tests=["tests"], args=["-o", "python_files=check_*.py"], env={"A": "1"}
    )
    assert outcome.verdict.status == "pass", outcome.verdict


HONEST_REACH = "import inspect\nx = 1\ndef caller(): return inspect.stack()\n"


@pytest.mark.long
async def test_what_reaches_for_the_runner_is_doubted_unless_allowed(bench: Any) -> None:
    bench.files = {"tests/test_a.py": TEST}
    command = f"cat > a.py <<'X'\n{HONEST_REACH}X\n"
    doubted = await bench.judge(command, "pytest", **NAMED)
    allowed = await bench.judge(command, "pytest", **NAMED, allow=["frames"])
    assert (doubted.verdict.status, doubted.verdict.marks) == ("unknown", ("frames", "untrusted_changes"))
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


SILENT = {
    "cannot be imported": "from b import y\n\n\ndef test_b():\n    assert y\n",
    "leaves itself out": "import pytest\n\nb = pytest.importorskip('b')\n\n\ndef test_b():\n    assert b.y\n",
}


@pytest.mark.parametrize("silent", SILENT)
async def test_a_file_without_a_word_is_no_file_that_passed(bench: Any, silent: str) -> None:
    bench.files = {"tests/test_a.py": TEST, "tests/test_b.py": SILENT[silent]}
    without = await bench.judge("echo x=1 > a.py", "pytest", tests=["tests"])
    assert without.verdict.status == "fail"
    assert "not collected: tests/test_b.py" in without.verdict.reason


@pytest.mark.long
async def test_a_file_that_is_not_named_or_that_has_tests_after_all_is_no_failure(bench: Any) -> None:
    bench.files = {"tests/test_a.py": TEST, "tests/test_b.py": SILENT["leaves itself out"]}
    whole = await bench.judge("echo x=1 > a.py; echo y=1 > b.py", "pytest", tests=["tests"])
    named = await bench.judge("echo x=1 > a.py", "pytest", **NAMED)
    assert [o.verdict.status for o in (whole, named)] == ["pass", "pass"]


async def test_a_link_hides_no_source(bench: Any) -> None:
    bench.files = {"tests/test_a.py": TEST}
    outcome = await bench.judge(f"cat > a.txt <<'X'\n{HONEST_REACH}X\nln -s a.txt a.py\n", "pytest", **NAMED)
    assert (outcome.verdict.status, outcome.verdict.marks) == ("unknown", ("frames", "untrusted_changes"))


async def test_a_linked_source_too_long_to_be_read_is_doubted(bench: Any) -> None:
    bench.files = {"tests/test_a.py": TEST}
    long = "(echo x=1; head -c 600000 /dev/zero | tr '\\0' '#') > a.txt; ln -s a.txt a.py"
    outcome = await bench.judge(long, "pytest", **NAMED)
    assert (outcome.verdict.status, outcome.verdict.marks) == ("unknown", ("unread_files", "untrusted_changes"))


@pytest.mark.long
@pytest.mark.parametrize(("files", "status"), [(95, "pass"), (97, "unknown")])
async def test_sources_that_are_too_long_together_are_doubted(bench: Any, files: int, status: str) -> None:
    bench.files = {"tests/test_a.py": TEST}
    line = "(echo x=1; head -c 524283 /dev/zero | tr '\\0' '#'; echo) > long"
    command = f"echo x=1 > a.py; {line}; for n in $(seq {files}); do ln -s long b$n.py; done"
    outcome = await bench.judge(command, "pytest", **NAMED)
    marks = () if status == "pass" else ("unread_files", "untrusted_changes")
    assert (outcome.verdict.status, outcome.verdict.marks) == (status, marks)


async def test_a_source_that_only_the_sandbox_can_parse_is_doubted(bench: Any) -> None:
    bench.files = {"tests/test_a.py": TEST}
    deep = "python3 -c \"print('if 0: y = ' + '+'.join(['z'] * 9000))\" >> b.py"
    command = (
        f"printf 'import sys\\nsys.setrecursionlimit(100000)\\nfrom b import x\\n' > a.py; echo x=1 > b.py; {deep}"
    )
    outcome = await bench.judge(command, "pytest", **NAMED)
    assert (outcome.verdict.status, outcome.verdict.marks) == ("unknown", ("unreadable", "untrusted_changes"))
