"""Loading folders that are right, and several at once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from assay.errors import UserError
from assay.tasks import InvalidTask, load_task, load_tasks

pytestmark = pytest.mark.quick
Make = Callable[..., Path]
OWN = "[verifier]\nenvironment_mode = 'separate'\n"


def test_least_task_loads(make: Make) -> None:
    loaded = load_task(make(name="least"))
    assert loaded.task.id == "least"
    assert loaded.task.instruction == "Do it.\n"
    assert loaded.task.environment.kind == "workspace"
    assert loaded.warnings == ()
    assert [step.name for step in loaded.steps] == [""]


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "1.3", "1.4"])
def test_all_versions_of_the_schema_are_read(make: Make, version: str) -> None:
    assert load_task(make(f'schema_version = "{version}"')).warnings == ()


def test_unknown_keys_are_warned_of_and_read_past(make: Make) -> None:
    (warning,) = load_task(make("[agent]\ntimeout = 5\n")).warnings
    assert str(warning) == "task.toml:2: agent.timeout: is not a known key; did you mean timeout_sec?"


def test_prior_context_is_noted(make: Make) -> None:
    loaded = load_task(make(files={"trajectory.json": "{}"}))
    assert loaded.task.environment.parameters["trajectory"] == "trajectory.json"
    assert loaded.steps[0].trajectory == "trajectory.json"


def test_tests_may_be_in_the_verifiers_own_image(make: Make) -> None:
    loaded = load_task(make(OWN, {"tests/test.sh": None, "tests/Dockerfile": "FROM scratch\nCOPY judge /tests/\n"}))
    parameters = loaded.task.checks[0].parameters
    assert "script" not in parameters
    assert parameters["environment"]["folder"] == "tests"


def test_environment_of_the_verifier_implies_separate(make: Make) -> None:
    loaded = load_task(make("[verifier.environment]\ndocker_image = 'judge:1'\n", {"tests/test.sh": None}))
    assert loaded.task.checks[0].parameters["mode"] == "separate"
    assert loaded.task.checks[0].parameters["environment"]["docker_image"] == "judge:1"


def test_script_check_of_ours_takes_what_it_leaves_out_from_the_task(make: Make) -> None:
    toml = (
        "[verifier]\ntimeout_sec = 9\n[[metadata.assay.checks]]\nname = 'a'\nkind = 'script'\nparameters = { x = 1 }\n"
    )
    (check,) = load_task(make(toml)).task.checks
    assert (check.name, check.parameters["x"]) == ("a", 1)
    assert (check.parameters["script"], check.parameters["timeout_s"]) == ("tests/test.sh", 9.0)


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("#!/bin/bash -eu", ["/bin/bash", "-eu"]),
        ("#! /usr/bin/env python3", ["/usr/bin/env", "python3"]),
        ("exit 0", ["/bin/sh"]),
        ("#!", ["/bin/sh"]),
    ],
)
def test_script_names_its_interpreter(make: Make, first: str, expected: list[str]) -> None:
    loaded = load_task(make(files={"tests/test.sh": f"{first}\n"}))
    assert loaded.task.checks[0].parameters["interpreter"] == expected


def test_tasks_of_a_folder_come_in_order(make: Make, tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        make(name=name)
    (tmp_path / "notes").mkdir()
    assert [one.task.id for one in load_tasks([tmp_path])] == ["a", "b", "c"]
    assert [one.task.id for one in load_tasks([tmp_path / "c", tmp_path / "a"])] == ["c", "a"]


def test_one_id_twice_is_an_error(make: Make, tmp_path: Path) -> None:
    make(name="x/same")
    make(name="y/same")
    with pytest.raises(UserError, match=r"two tasks are called 'same': .*x/same and .*y/same; give one another folder"):
        load_tasks([tmp_path / "x", tmp_path / "y"])


def test_all_broken_tasks_are_named(make: Make, tmp_path: Path) -> None:
    make(name="good")
    make("[agent", name="bad")
    make("source = 1", name="worse")
    with pytest.raises(UserError, match=r"(?s)bad is not valid.*worse is not valid"):
        load_tasks([tmp_path])


def test_folder_without_tasks_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no task: neither it nor a folder directly in it has a task\.toml"):
        load_tasks([tmp_path])


def test_long_lists_of_problems_are_cut(make: Make) -> None:
    toml = "[environment.env]\n" + "".join(f"A{i} = 1\n" for i in range(80))
    with pytest.raises(InvalidTask) as caught:
        load_task(make(toml))
    assert len(caught.value.findings) == 80
    assert str(caught.value).endswith("and 30 more; correct these first")
