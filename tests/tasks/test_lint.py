"""Advice on folders that load."""

from collections.abc import Callable
from pathlib import Path

import pytest

from assay.errors import UserError
from assay.tasks import TaskFinding, lint_task
from assay.tasks.lint import MORE_TESTS

pytestmark = pytest.mark.quick
Make = Callable[..., Path]
TIMED = "[agent]\ntimeout_sec = 60\n[environment]\nnetwork_mode = 'no-network'\n"
SOLVED = {"solution/solve.sh": "#!/bin/sh\n"}
APART = "[[metadata.assay.checks]]\nname = 'tests'\nkind = 'script'\nparameters = { programs = ['/workspace/sum'] }\n"
SEPARATE = "[verifier]\nenvironment_mode = 'separate'\n"
LONG = "the answer is in here, and it is long enough to be told from an empty file by its bytes"
CASES: dict[str, tuple[str, dict[str, str | bytes | None], str]] = {
    "unknown-key": (
        f"{TIMED}cpu = 2\n",
        SOLVED,
        "error task.toml:5: environment.cpu: is not a known key; did you mean cpus?",
    ),
    "no-oracle": (TIMED, {}, "warning solution/solve.sh: is missing, so nothing shows that the task can be solved"),
    "no-timeout": ("", SOLVED, "note task.toml: agent.timeout_sec: is not given, so the agent may act for ever"),
    "network-unstated": ("", SOLVED, "note task.toml: environment.network_mode: is not given: Harbor gives the public"),
    "no-reward": (
        TIMED,
        {**SOLVED, "tests/test.sh": "exit 0"},
        "warning tests/test.sh: nothing here mentions reward.txt",
    ),
    "verifier-install": (
        TIMED,
        {**SOLVED, "tests/test.sh": "# reward.txt\n\npip install pytest==8.0.0\n"},
        "warning tests/test.sh:3: installs packages while judging, without a network by default; name it in",
    ),
    "verifier-download": (
        TIMED,
        {**SOLVED, "tests/test.sh": "curl -s https://example.com/data > /logs/verifier/reward.txt"},
        "warning tests/test.sh:1: downloads while judging; the verdict then depends on a remote server",
    ),
    "line-ends": (
        TIMED,
        {"solution/solve.sh": "#!/bin/sh\r\n"},
        "error solution/solve.sh: has Windows line ends; shells",
    ),
    "leak": (
        TIMED,
        {**SOLVED, "tests/key.txt": LONG, "environment/notes.txt": LONG},
        "warning environment/notes.txt: is the same file as tests/key.txt, which the agent must not see; remove it",
    ),
    "bytecode": (TIMED, {**SOLVED, "tests/x.pyc": b"x"}, "warning tests/x.pyc: is compiled Python, which is executed"),
    "ignore-file": (
        TIMED,
        {**SOLVED, "tests/.harborignore": "a"},
        "warning tests/.harborignore: hides files from Harbor",
    ),
    "unpinned-package": (
        TIMED,
        {**SOLVED, "environment/Dockerfile": "FROM scratch\nRUN pip install --no-cache-dir numpy toolz==1.0.0\n"},
        "warning environment/Dockerfile:2: installs numpy without a version; write numpy==VERSION",
    ),
    "unpinned-image": (
        f"{TIMED}docker_image = 'python:3.12'\n",
        {**SOLVED, "environment/Dockerfile": None},
        "note task.toml: environment.docker_image: 'python:3.12' may mean another image tomorrow; add the digest",
    ),
    "image-twice": (
        f"{TIMED}docker_image = 'x@sha256:0'\n",
        SOLVED,
        "note environment/Dockerfile: is built by Assay, while Harbor takes",
    ),
    "no-environment": (
        TIMED,
        {**SOLVED, "environment/Dockerfile": None},
        "warning environment: is missing, and no docker",
    ),
    "named-code": (
        TIMED + "[[metadata.assay.checks]]\nname = 'mine'\nkind = 'my_check.py'\n",
        SOLVED,
        "note task.toml:7: metadata.assay.checks[0].kind: 'my_check.py' is Python code that runs in Assay's process",
    ),
    "no-artifacts": (TIMED + SEPARATE, SOLVED, "note task.toml: artifacts: is empty, and a separate verifier sees"),
    "artifact-logs": (
        f"artifacts = ['/logs']\n{TIMED}{SEPARATE}",
        SOLVED,
        "warning task.toml:1: artifacts[0]: '/logs' overlaps the logs, which are no artifacts; choose another folder",
    ),
    "artifact-overlap": (
        f"artifacts = ['/a', {{ source = '/b', destination = 'a' }}]\n{TIMED}",
        SOLVED,
        "warning task.toml:1: artifacts[1]: is kept as 'a', and so is '/a'; only the first will be",
    ),
}


def shown(finding: TaskFinding) -> str:
    return f"{finding.severity} {finding}"


def test_nothing_to_say_about_a_good_task(make: Make) -> None:
    assert lint_task(make(TIMED, SOLVED)) == ()


@pytest.mark.parametrize("rule", CASES)
def test_rule_finds_its_case_and_no_other(rule: str, make: Make) -> None:
    toml, files, expected = CASES[rule]
    found = lint_task(make(toml, files))
    said = [shown(f) for f in found if f.rule == rule]
    assert any(expected in line for line in said), found
    assert {f.rule for f in found} <= {rule, "no-timeout", "network-unstated"}


@pytest.mark.parametrize(
    ("checks", "script", "is_told"),
    [
        (APART, "# reward.txt", True),
        ("", "# reward.txt\nout=$(assay-judge run -- ./sum)", True),
        ("", "# reward.txt\n# assay-judge run -- ./sum", False),
    ],
)
def test_programs_judged_apart_want_a_reference_solution(checks: str, script: str, is_told: bool, make: Make) -> None:
    found = lint_task(make(TIMED + checks, {"tests/test.sh": script}))
    (message,) = [finding.message for finding in found if finding.rule == "no-oracle"]
    assert ("at most `same-process`" in message) is is_told


def test_lint_of_a_broken_task_says_why_it_does_not_load(make: Make) -> None:
    (finding,) = lint_task(make("[agent"))
    assert (finding.rule, finding.severity, finding.line) == ("invalid-toml", "error", 1)


def test_lint_of_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist; a task is a folder"):
        lint_task(tmp_path / "none")


@pytest.mark.parametrize(("deciding", "leaks"), [("pkg/test_a.py::test_one", True), ("pkg/test_b.py::test_two", False)])
def test_a_visible_test_file_leaks_only_where_it_holds_a_deciding_test(deciding: str, leaks: bool, make: Make) -> None:
    check = (
        f"[[metadata.assay.checks]]\nname = 'tests'\nkind = 'pytest'\nparameters = {{ expected = ['{deciding}'] }}\n"
    )
    copies = {"tests/files/pkg/test_a.py": LONG, "environment/changed/pkg/test_a.py": LONG}
    found = [finding.rule for finding in lint_task(make(TIMED + check, {**SOLVED, **copies}))]
    assert ("leak" in found) is leaks


TWO_FILES = ["pkg/test_a.py::test_one", "pkg/test_b.py::test_two[1]"]
ONE_IS_SHOWN = "    pkg/test_a.py::test_one\n\nRun `python3 -m pytest pkg/test_a.py`\n"
FULL = {"tests/files/pkg/test_a.py": LONG, "tests/files/pkg/test_b.py": LONG[::-1]}
SHORTENED = {"environment/changed/pkg/test_a.py": LONG, "environment/changed/pkg/test_b.py": "pass\n"}


@pytest.mark.parametrize(
    ("expected", "instruction", "files", "leaked"),
    [
        (TWO_FILES, ONE_IS_SHOWN, SHORTENED, []),
        (TWO_FILES[:1], ONE_IS_SHOWN, SHORTENED, []),
        (TWO_FILES, "Do it.\n", SHORTENED, ["a"]),
        (TWO_FILES, ONE_IS_SHOWN, {**SHORTENED, "environment/changed/pkg/test_b.py": LONG[::-1]}, ["a", "b"]),
        ([*TWO_FILES, "pkg/test_a.py::test_one_more"], ONE_IS_SHOWN, SHORTENED, ["a"]),
        ([TWO_FILES[0]], ONE_IS_SHOWN, {"environment/changed/pkg/test_a.py": LONG}, ["a"]),
    ],
)
def test_a_shown_test_leaks_nothing_while_a_hidden_one_decides(
    expected: list[str], instruction: str, files: dict[str, str], leaked: list[str], make: Make
) -> None:
    check = f"[[metadata.assay.checks]]\nname = 'tests'\nkind = 'pytest'\nparameters = {{ expected = {expected} }}\n"
    full = FULL if len(files) > 1 else {"tests/files/pkg/test_a.py": LONG}
    folder = make(TIMED + check, {**SOLVED, **full, **files, "instruction.md": instruction})
    found = [finding.path for finding in lint_task(folder) if finding.rule == "leak"]
    assert found == [f"environment/changed/pkg/test_{name}.py" for name in leaked]


@pytest.mark.parametrize(("counted", "leaks"), [("", True), ("1", True), ("2", False)])
def test_an_instruction_may_count_shown_tests_instead_of_naming_them(counted: str, leaks: bool, make: Make) -> None:
    tests = [f"pkg/test_a.py::test_{number}" for number in range(7)]
    expected = [*tests, TWO_FILES[1]]
    check = f"[[metadata.assay.checks]]\nname = 'tests'\nkind = 'pytest'\nparameters = {{ expected = {expected} }}\n"
    text = "\n".join([*tests[:5], f"{counted} {MORE_TESTS}." if counted else "", "pytest pkg/test_a.py"])
    folder = make(TIMED + check, {**SOLVED, **FULL, **SHORTENED, "instruction.md": text})
    assert ("leak" in [finding.rule for finding in lint_task(folder)]) is leaks


def test_hidden_tests_of_a_shortened_file_are_not_among_the_counted_ones(make: Make) -> None:
    tests = [f"pkg/test_a.py::test_{number}" for number in range(6)]
    expected = [*tests, TWO_FILES[1]]
    check = f"[[metadata.assay.checks]]\nname = 'tests'\nkind = 'pytest'\nparameters = {{ expected = {expected} }}\n"
    text = "\n".join([*tests[:5], f"1 {MORE_TESTS}.", "pytest pkg/test_a.py pkg/test_b.py"])
    folder = make(TIMED + check, {**SOLVED, **FULL, **SHORTENED, "instruction.md": text})
    assert "leak" not in [finding.rule for finding in lint_task(folder)]
