"""What belongs to a task, and its content address."""

from collections.abc import Callable
from pathlib import Path

import pytest

from assay.errors import UserError
from assay.tasks.folder import scan, tree_digest

pytestmark = pytest.mark.quick
Make = Callable[..., Path]


def task_digest(folder: Path) -> str:
    return tree_digest(scan(folder), str(folder))


def test_digest_is_the_same_for_a_copy(make: Make) -> None:
    files = {"tests/b": "1", "tests/a": "2", "environment/x/y": b"\0\1"}
    assert task_digest(make(files=files, name="x")) == task_digest(make(files=dict(reversed(files.items())), name="y"))


@pytest.mark.parametrize(
    "change",
    [
        lambda f: (f / "tests/test.sh").write_text("#!/bin/sh\necho 0\n"),
        lambda f: (f / "tests/test.sh").chmod(0o755),
        lambda f: (f / "tests/test.sh").rename(f / "tests/test2.sh"),
        lambda f: (f / "task.toml").write_text("# a comment\n"),
        lambda f: (f / "tests/link").symlink_to("test.sh"),
        lambda f: (f / "environment/__pycache__").mkdir() or (f / "environment/__pycache__/a.pyc").write_bytes(b"x"),
        lambda f: (f / "tests/.gitignore").write_text("*"),
        lambda f: (f / "solution").mkdir() or (f / "solution/solve.sh").write_text(""),
    ],
)
def test_digest_changes_with_whatever_a_sandbox_is_given(make: Make, change: Callable[[Path], object]) -> None:
    folder = make()
    before = task_digest(folder)
    change(folder)
    assert task_digest(folder) != before


@pytest.mark.parametrize("left", ["notes.txt", "tests/.test.sh.swp", "tests/test.sh~", "tests/.DS_Store", ".git/HEAD"])
def test_digest_does_not_change_with_what_editors_leave(make: Make, left: str) -> None:
    folder = make()
    before = task_digest(folder)
    (folder / left).parent.mkdir(exist_ok=True)
    (folder / left).write_text("x")
    assert task_digest(folder) == before


def test_digest_ignores_the_umask(make: Make) -> None:
    folder = make()
    before = task_digest(folder)
    (folder / "instruction.md").chmod(0o600)
    assert task_digest(folder) == before


def test_content_cannot_pass_for_another_file(make: Make) -> None:
    one = make(files={"tests/a": "x", "tests/b": "y"}, name="x")
    other = make(files={"tests/a": "xfile\0000\0tests/b\0001\0y", "tests/b": None}, name="y")
    assert task_digest(one) != task_digest(other)


def test_digest_of_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: No such file or directory; check that it exists"):
        task_digest(tmp_path / "none")


def test_links_inside_the_task_are_allowed(make: Make) -> None:
    folder = make()
    (folder / "tests/again.sh").symlink_to("test.sh")
    (folder / "solution").mkdir()
    (folder / "solution/data").symlink_to("../environment/Dockerfile")
    tree = scan(folder)
    assert tree.findings == ()
    assert [e.path for e in tree.entries if e.kind == "link"] == ["solution/data", "tests/again.sh"]
