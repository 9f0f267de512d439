"""What is undone before anything is judged."""

from __future__ import annotations

import time

import pytest

from assay.environments.interface import Change
from assay.verify.planted_files import find_planted, git_includes, same_pytest_settings

pytestmark = pytest.mark.quick

ROOTS = ("/workspace", "/workspace/src")
CASES = {
    "/workspace/conftest.py": ("added", "conftest", "remove"),
    "/workspace/a/b/conftest.py": ("changed", "conftest", "restore"),
    "/workspace/pytest.ini": ("added", "pytest_configuration", "remove"),
    "/workspace/pyproject.toml": ("changed", "pytest_configuration", "compare"),
    "/workspace/setup.cfg": ("added", "pytest_configuration", "compare"),
    "/home/agent/.local/lib/python3.11/site-packages/sitecustomize.py": ("added", "start_up_hook", "remove"),
    "/workspace/usercustomize/__init__.py": ("added", None, None),
    "/workspace/x.pth": ("added", "start_up_hook", "remove"),
    "/usr/local/bin/python3": ("added", "replaced_program", "remove"),
    "/usr/local/bin/my-own-tool": ("added", None, None),
    "/usr/bin/env": ("changed", "replaced_program", "restore"),
    "/usr/lib/x86_64-linux-gnu/libc.so.6": ("changed", "replaced_library", "restore"),
    "/etc/ld.so.preload": ("added", "replaced_library", "remove"),
    "/workspace/json.py": ("added", "shadowed_module", "remove"),
    "/workspace/src/unittest/__init__.py": ("added", "shadowed_module", "remove"),
    "/workspace/_pytest/__init__.py": ("added", "shadowed_module", "remove"),
    "/workspace/types.py": ("changed", None, None),
    "/workspace/pkg/types.py": ("added", None, None),
    "/workspace/code/main.c": ("added", None, None),
    "/workspace/words.py": ("changed", None, None),
    "/logs/verifier/reward.txt": ("added", "verifier_paths", "note"),
}


REMOVED = {
    "/workspace/conftest.py": ("conftest", "restore"),
    "/workspace/pytest.ini": ("pytest_configuration", "restore"),
    "/workspace/setup.cfg": ("pytest_configuration", "compare"),
    "/workspace/json.py": None,
    "/logs/verifier/reward.txt": None,
}


@pytest.mark.parametrize("path", REMOVED)
def test_configuration_of_the_image_that_was_removed_comes_back(path: str) -> None:
    found = [(p.mark, p.action) for p in find_planted([Change(path, "removed")], ROOTS)]
    assert found == ([] if REMOVED[path] is None else [REMOVED[path]])


@pytest.mark.parametrize("path", CASES)
def test_each_kind(path: str) -> None:
    kind, mark, action = CASES[path]
    found = find_planted([Change(path, kind)], ROOTS)  # type: ignore[arg-type]
    assert [(p.mark, p.action) for p in found] == ([] if mark is None else [(mark, action)])


def test_a_link_is_to_be_followed() -> None:
    (found,) = find_planted([Change("/workspace/answer.txt", "added", "symlink")], ROOTS)
    assert (found.mark, found.action) == ("verifier_link", "follow")


def test_what_the_task_expects_is_kept() -> None:
    changes = [Change("/workspace/conftest.py", "added"), Change("/workspace/json.py", "added")]
    assert [p.path for p in find_planted(changes, ROOTS, ["/workspace/conf*"])] == ["/workspace/json.py"]


def test_a_package_is_undone_once_and_whole() -> None:
    changes = [Change("/workspace/json/__init__.py", "added"), Change("/workspace/json/__init__.pyc", "added")]
    assert [p.path for p in find_planted(changes, ROOTS)] == ["/workspace/json"]


PROJECT = '[project]\nname = "x"\n[tool.pytest.ini_options]\naddopts = "-q"\n[tool.other]\na = 1\n'


OTHERS = [
    ("pyproject.toml", PROJECT, PROJECT.replace('"x"', '"y"').replace("a = 1", "a = 2")),
    ("pyproject.toml", "a = 1", "\n" * 500_000),
    ("pyproject.toml", "", "[" * 500_000),
    ("setup.cfg", "", "a = 1\n[x]\n"),
    ("setup.cfg", "[tool:pytest]\nx = 1\n\n[a]\n", "[tool:pytest]\nx = 1\n\n[b]\n"),
]
SETTINGS = [
    ("pyproject.toml", PROJECT, PROJECT.replace("-q", "--co")),
    ("pyproject.toml", "", '[tool]\npytest.ini_options.addopts = "--co"\n'),
    ("pyproject.toml", "", '[tool."p\\u0079test".ini_options]\naddopts = "--co"\n'),
    ("pyproject.toml", "", "pytest" + ".a" * 250_000 + " = 1"),
    ("pyproject.toml", "", "pytest = 1\n" + "".join(f"a{n}{'.a' * 195} = 1\n" for n in range(300))),
    ("pyproject.toml", "", "pytest = " + "[" * 50_000),
    ("setup.cfg", "", "[tool:pytest]\nx = 1"),
    ("setup.cfg", "", "[metadata]\r[tool:pytest]\raddopts = --co\r"),
    ("setup.cfg", "[tool:pytest]\nx = 1\n", "[tool:pytest]\nx = 1\n [y]\n --co\n"),
    ("tox.ini", "[pytest]\nx = 1\n", "[pytest]\nx = 1\x0c[y]\n --co\n"),
]


@pytest.mark.parametrize(("name", "before", "after"), OTHERS)
def test_other_tables_do_not_count(name: str, before: str, after: str) -> None:
    assert same_pytest_settings(f"/workspace/{name}", before, after)


@pytest.mark.parametrize(("name", "before", "after"), SETTINGS)
def test_settings_of_pytest_count_however_they_are_written(name: str, before: str, after: str) -> None:
    assert not same_pytest_settings(f"/workspace/{name}", before, after)


GIT = {
    "/workspace/.git/config": ("changed", "restore"),
    "/workspace/.git/hooks/pre-commit": ("added", "remove"),
    "/workspace/.git/info/attributes": ("added", "remove"),
    "/workspace/.git/modules/sub/config": ("changed", "restore"),
    "/workspace/.git/index": ("changed", None),
    "/workspace/own/.git/config": ("added", None),
}


@pytest.mark.parametrize("path", GIT)
def test_git_configuration_of_the_image_is_put_back_and_an_agents_repository_is_its_own(path: str) -> None:
    kind, action = GIT[path]
    own = Change("/workspace/own/.git", "added", "directory")
    found = find_planted([own, Change(path, kind)], ROOTS)  # type: ignore[arg-type]
    assert [(p.mark, p.action) for p in found] == ([("git_configuration", action)] if action else [])


def test_paths_are_sorted_out_in_time_linear_in_their_lengths() -> None:
    deep = "/workspace" + "/.git/modules" * 288
    changes = [Change(f"{deep}/{number}", "added") for number in range(1000)]
    began = time.thread_time()
    assert not find_planted(changes, ROOTS)
    assert time.thread_time() - began < 2.0


def test_files_that_a_repositorys_configuration_names_are_put_back() -> None:
    text = '[include]\n\tpath = ../.gitconfig\n[core]\n\thooksPath = "tools/hooks"\n[remote "o"]\n\turl = ../x\n'
    names = ("/workspace/.gitconfig", "/workspace/tools/hooks/pre-push", "/workspace/x", "/workspace/tools/hooks2")
    found = git_includes(text, "/workspace", [Change(name, "changed") for name in names])
    assert [p.path for p in found] == list(names[:2])
