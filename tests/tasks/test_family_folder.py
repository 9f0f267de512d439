"""Folders that name tasks of a family, and families named with JSON on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay.errors import UserError
from assay.tasks.family_folder import FAMILY_FILE, write_family_folder
from assay.tasks.sources import _split, find_tasks, task_count

OPTIONS = {"size": 3}


def folder_of(tmp_path: Path) -> Path:
    tasks = [loaded.task for loaded in find_tasks(["family:grid,n=3,seed=4,size=3"])]
    write_family_folder(tmp_path / "set", "grid", 4, OPTIONS, tasks)
    return tmp_path / "set"


def test_the_same_tasks_are_made_again(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    assert find_tasks([str(folder)]) == find_tasks(["family:grid,n=3,seed=4,size=3"])
    assert task_count(str(folder)) == 3


def change(folder: Path, **fields: object) -> None:
    path = folder / FAMILY_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_family_that_makes_other_tasks_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    change(folder, options={"size": 4})
    with pytest.raises(UserError, match="makes other tasks today"):
        find_tasks([str(folder)])


@pytest.mark.parametrize(
    "fields",
    [
        {"family": "mine.py"},
        {"family": "os:path"},
        {"options": {"app": "../evil.py:app"}},
        {"options": {"knobs": {"a": ["module:name"]}}},
        {"options": {"a/b": 1}},
        {"options": {"app": "shop+evil.py"}},
        {"options": {"allow_code": True}},
    ],
)
def test_a_file_that_names_code_is_not_opened(tmp_path: Path, fields: dict[str, object]) -> None:
    folder = folder_of(tmp_path)
    change(folder, **fields)
    with pytest.raises(UserError, match="may run code of the folder's author"):
        find_tasks([str(folder)])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"family":"grid"}', "[" * 9_000, "\xff"])
def test_a_malformed_file_is_a_user_error(tmp_path: Path, text: str) -> None:
    (tmp_path / FAMILY_FILE).write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match="does not hold names of tasks"):
        find_tasks([str(tmp_path)])


def test_commas_inside_of_brackets_do_not_end_an_option() -> None:
    assert _split('grid,a={"x":1,"y":[2,3]},n=2') == ["grid", 'a={"x":1,"y":[2,3]}', "n=2"]
    assert _split('grid,a={"x":"}, {\\"","y":2},n=2') == ["grid", 'a={"x":"}, {\\"","y":2}', "n=2"]
    assert _split("grid,a={x,n=2") == ["grid", "a={x", "n=2"]
    assert _split('grid,a=",n=2') == ["grid", 'a="', "n=2"]
