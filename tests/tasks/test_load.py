"""Loading folders that are right."""

from pathlib import Path

import pytest

from assay.errors import UserError
from assay.tasks import LoadedTask, load_task, load_tasks

pytestmark = pytest.mark.quick


def make(folder: Path, toml: str = "", **files: str) -> Path:
    """A task folder with the least in it, and more files by path (`__` for `/`, `_dot_` for `.`)."""
    texts = {
        "task__toml": toml,
        "instruction__md": "Do it.\n",
        "tests/test__sh": "#!/bin/sh\n",
        "environment/.keep": "",
    }
    for name, text in {**texts, **files}.items():
        path = folder / name.replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_least_task_loads(tmp_path: Path) -> None:
    loaded = load_task(make(tmp_path / "least"))
    assert isinstance(loaded, LoadedTask)
    assert loaded.task.id == "least"
    assert loaded.task.instruction == "Do it.\n"
    assert loaded.task.environment.parameters["network_mode"] == "no-network"
    assert loaded.warnings == ()


def test_tasks_of_a_folder_come_in_order(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        make(tmp_path / name)
    assert [one.task.id for one in load_tasks([tmp_path])] == ["a", "b", "c"]


def test_one_id_twice_is_an_error(tmp_path: Path) -> None:
    make(tmp_path / "x" / "same")
    make(tmp_path / "y" / "same")
    with pytest.raises(UserError, match="two tasks are called 'same'"):
        load_tasks([tmp_path / "x", tmp_path / "y"])
